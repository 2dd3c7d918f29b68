"""An optimizer asked for a step, wherever that is, and whether it gave what a step must give."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from deep_bench.errors import InvalidArgument


class UpdateRule(Protocol):
    """What is asked of an optimizer; see `deep_bench.training.Optimizer`."""

    def init(self, parameters: Mapping[str, Any], xp: Any) -> Any:
        """The state before the first step."""

    def prepare(self, parameters: Mapping[str, Any], state: Any) -> dict[str, Any]:
        """Where gradients are evaluated."""

    def update(
        self, gradients: Mapping[str, Any], state: Any, parameters: Mapping[str, Any], xp: Any, *, evaluate: Any = None
    ) -> tuple[dict[str, Any], Any]:
        """The parameters and the state after a step."""


def prepared(rule: UpdateRule, parameters: Mapping[str, Any], state: Any) -> Mapping[str, Any]:
    """Where an optimizer wants the gradients of the next step.

    Raises:
        InvalidArgument: It does not say so of each parameter.
    """
    points = rule.prepare(dict(parameters), state)
    _check_names(rule, "prepare", points, parameters)
    return points


def updated(
    rule: UpdateRule,
    gradients: Mapping[str, Any],
    state: Any,
    parameters: Mapping[str, Any],
    xp: Any,
    *,
    evaluate: Any = None,
    **further: Any,
) -> tuple[dict[str, Any], Any]:
    """What an optimizer makes of parameters.

    Args:
        rule: The optimizer.
        gradients, state, parameters, xp, evaluate: As in `deep_bench.training.Optimizer.update`.
        **further: What it takes besides.

    Raises:
        InvalidArgument: It returned no pair, forgot a parameter, or made up one.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> sgd, w = db.optimizers["sgd"](lr=0.5), {"w": np.ones(2)}
        >>> updated(sgd, {"w": np.array([1.0, -1.0])}, sgd.init(w, NUMPY), w, NUMPY)[0]
        {'w': array([0.5, 1.5])}
    """
    result = rule.update(gradients, state, dict(parameters), xp, evaluate=evaluate, **further)
    if not isinstance(result, tuple) or len(result) != 2 or not isinstance(result[1], Mapping):
        came = f"update of {type(rule).__name__} returned {_kinds(result)}"
        raise InvalidArgument(came, "a pair of dicts: the new parameters by name, and the new state")
    _check_names(rule, "update", result[0], parameters)
    return result


def check_types(rule: UpdateRule, parameters: Mapping[str, Any], new: Mapping[str, Any], xp: Any) -> None:
    """Whether an optimizer left each parameter its element type.

    Raises:
        InvalidArgument: It did not.
    """
    for name, before in parameters.items():
        came, expected = xp.dtype(new[name]), xp.dtype(before)
        if came != expected:
            raise InvalidArgument(
                f"update of {type(rule).__name__} returned {name!r} as {came}",
                f"{expected}, which it was",
                "bring numbers of another type to the parameter's: xp.cast(x, parameter)",
            )


def check_state(rule: UpdateRule, paths: Collection[tuple[str, ...]], after: Collection[tuple[str, ...]]) -> None:
    """Whether an optimizer's state still has all of its leaves.

    Raises:
        InvalidArgument: One is gone.
    """
    if missing := [path for path in paths if path not in after]:
        raise InvalidArgument(
            f"update of {type(rule).__name__} returned a state without {'/'.join(missing[0])}",
            f"all that it had: {', '.join('/'.join(path) for path in paths)}",
        )


def _kinds(result: Any) -> str:
    if isinstance(result, tuple):
        return f"({', '.join(type(element).__name__ for element in result)})"
    return f"a {type(result).__name__}"


def _check_names(rule: UpdateRule, method: str, result: Any, parameters: Mapping[str, Any]) -> None:
    if not isinstance(result, Mapping):
        came = f"{method} of {type(rule).__name__} returned a {type(result).__name__} for the parameters"
        raise InvalidArgument(came, "a dict: name to array")
    if result.keys() != parameters.keys():
        raise InvalidArgument(
            f"{method} of {type(rule).__name__} returned the parameters {sorted(result)}", f"all of {sorted(parameters)}"
        )
