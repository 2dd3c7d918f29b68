"""``Optimizer``: how parameters follow from gradients. It holds settings only; what it remembers is handed in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from math import inf
from numbers import Real
from typing import Any, Generic, TypeAlias, TypeVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree, is_number
from deep_bench.errors import InvalidArgument

A = TypeVar("A")
S = TypeVar("S", bound=Tree)

Arrays: TypeAlias = Mapping[str, A]
"""Name of each parameter to an array."""

Evaluate: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, dict[str, Any]]]
"""From parameters to the loss there and its gradients."""

Rate: TypeAlias = "float | Callable[[Any, Any], Any]"
"""A learning rate: a number, or a schedule, which is a function of the number of steps before this one and of ``xp``."""


@dataclass(frozen=True)
class Optimizer(ABC, Generic[A, S]):
    """An update rule: a frozen dataclass of settings with ``init`` and ``update``.

    Everything is computed through ``xp`` and Python's operators, so that one rule serves the arrays of every framework and,
    traced, becomes an ONNX graph (`deep_bench.network.training_step`). A rule that is to be traced has no branch that
    depends on the contents of an array.

    The state is a tree of dicts whose leaves are native arrays; the number of steps done is an int64 scalar.

    Example:
        >>> import deep_bench as db
        >>> from deep_bench.arrays import NUMPY
        >>> adam = db.optimizers["adam"](lr=0.1)
        >>> parameters = {"w": np.array([1.0, -2.0])}
        >>> state = adam.init(parameters, NUMPY)
        >>> for _ in range(100):
        ...     gradients = {"w": 2 * parameters["w"]}
        ...     parameters, state = adam.update(gradients, state, parameters, NUMPY)
        >>> bool(np.all(np.abs(parameters["w"]) < 0.1)), int(state["steps"])
        (True, 100)
    """

    @property
    def framework(self) -> str | None:
        """Name of the only framework whose arrays it takes, that of an optimizer within it included; ``None`` for any."""
        inner = getattr(self, "inner", None)
        return None if inner is None else inner.framework

    @property
    def in_place(self) -> bool:
        """Whether ``update`` uses its arguments up: the arrays handed in are changed, and no longer what they were."""
        inner = getattr(self, "inner", None)
        return self.framework is not None if inner is None else bool(inner.in_place)

    @property
    def looks_ahead(self) -> bool:
        """Whether gradients may be wanted elsewhere than at the parameters: see `prepare`."""
        return type(self).prepare is not Optimizer.prepare

    @property
    def separable(self) -> bool:
        """Whether each parameter is updated from its own gradient and state alone, so that several can share the work.

        What does not say so is taken to need all of them, as a norm over all parameters does.
        """
        return False

    def __post_init__(self) -> None:
        for member in fields(self):
            if (allowed := member.metadata.get("allowed")) is not None:
                allowed.check(type(self).__name__.lower(), member.name, getattr(self, member.name))

    @abstractmethod
    def init(self, parameters: Arrays[A], xp: ArrayFunctions[A]) -> S:
        """The state before the first step."""

    def prepare(self, parameters: Arrays[A], state: S) -> dict[str, A]:
        """Where to evaluate the gradients of the next step; the parameters themselves for most rules."""
        del state
        return dict(parameters)

    def restored(self, state: S, parameters: Arrays[A]) -> S:
        """The state to go on with, made of arrays that a checkpoint held; itself for all but native rules."""
        del parameters
        return state

    @abstractmethod
    def update(
        self,
        gradients: Arrays[A],
        state: S,
        parameters: Arrays[A],
        xp: ArrayFunctions[A],
        *,
        evaluate: Evaluate | None = None,
    ) -> tuple[dict[str, A], S]:
        """One step.

        Args:
            gradients: Of the loss at ``prepare(parameters, state)``, one for each parameter.
            state: What the step before returned, or ``init``.
            parameters: Name to array.
            xp: The functions of these arrays.
            evaluate: The loss and its gradients elsewhere, for rules that look around (line searches).

        Returns:
            The new parameters and the new state.
        """


@dataclass(frozen=True)
class Allowed:
    """What a setting may be.

    Args:
        expected: In words.
        fits: Whether a value is allowed.
    """

    expected: str
    fits: Callable[[Any], bool]

    def check(self, owner: str, name: str, value: Any) -> None:
        """Refuse a value that is not allowed.

        Raises:
            InvalidArgument: It is not.
        """
        if not self.fits(value):
            raise InvalidArgument(f"{owner} with {name}={value!r}", self.expected)


def _real(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _number(expected: str, fits: Callable[[Any], bool]) -> Allowed:
    return Allowed(expected, lambda value: _real(value) and fits(value))


BETA = _number("a number of at least 0 and below 1", lambda value: 0 <= value < 1)
SHARE = _number("a number from 0 to 1", lambda value: 0 <= value <= 1)
NOT_NEGATIVE = _number("a finite number of at least 0", lambda value: 0 <= value < inf)
POSITIVE = _number("a finite number above 0", lambda value: 0 < value < inf)
COUNT = Allowed("a whole number of at least 1", lambda value: _real(value) and int(value) == value and value >= 1)
FLAG = Allowed("True or False", lambda value: isinstance(value, bool))
RATE = Allowed(
    "a finite number of at least 0, or a schedule",
    lambda value: callable(value) or (_real(value) and 0 <= value < inf),
)


def check_home(rule: Optimizer[Any, Any], device: Any) -> None:
    """Whether an optimizer can update the arrays of a device.

    Raises:
        InvalidArgument: It is one of another framework.

    Example:
        >>> import deep_bench as db
        >>> check_home(db.optimizers["torch.adam"](), db.frameworks["reference"]())
        Traceback (most recent call last):
            ...
        deep_bench.errors.InvalidArgument: an optimizer of torch on arrays of reference
        Expected: one of deep_bench's own, which are db.optimizers without a prefix, or one of reference
    """
    home, device_name = rule.framework, getattr(device, "name", None)
    if home is not None and device_name is not None and device_name != home:
        raise InvalidArgument(
            f"an optimizer of {home} on arrays of {device_name}",
            f"one of deep_bench's own, which are db.optimizers without a prefix, or one of {device_name}",
        )


def one_of(*choices: str | None) -> Allowed:
    """One of these words, or none where ``None`` is among them."""
    return Allowed(f"one of {', '.join(map(repr, choices))}", lambda value: value in choices)


def setting(default: Any, allowed: Allowed) -> Any:
    """A field of an optimizer, checked when one is made."""
    return field(default=default, metadata={"allowed": allowed})


def rate_at(lr: Rate, steps: A, xp: ArrayFunctions[A]) -> Any:
    """The learning rate of a step: the number, or what the schedule gives, a float64 scalar.

    Args:
        lr: The number or the schedule.
        steps: How many steps were done before, an int64 scalar.
        xp: The functions of these arrays.
    """
    if callable(lr):
        rate = lr(steps, xp)
        return xp.cast(xp.array(rate, np.float64) if is_number(rate) else rate, np.float64)
    return float(lr)


def started(parameters: Arrays[A], xp: ArrayFunctions[A], *labels: str) -> dict[str, Any]:
    """A state of zeros: the number of steps, and for each label an array like each parameter."""
    with xp.untracked():
        zeros = {label: {name: xp.zeros_like(w) for name, w in parameters.items()} for label in labels}
    return {"steps": xp.array(0, np.int64), **zeros}


def each(
    rule: Callable[..., Any],
    gradients: Arrays[A],
    state: Tree,
    parameters: Arrays[A],
    xp: ArrayFunctions[A],
    *labels: str,
) -> tuple[dict[str, A], dict[str, Any]]:
    """Apply a rule to each parameter, and count the step.

    Args:
        rule: From the parameter, its gradient and its part of the state under each label to the new parameter and parts.
        gradients, state, parameters, xp: As in `Optimizer.update`.
        *labels: What the state has for each parameter.
    """
    new: dict[str, A] = {}
    slots: dict[str, dict[str, A]] = {label: {} for label in labels}
    with xp.untracked():
        for name, w in parameters.items():
            outputs = rule(w, gradients[name], *(state[label][name] for label in labels))
            new[name], *parts = (xp.array(x) for x in (outputs if labels else (outputs,)))
            for label, part in zip(labels, parts, strict=True):
                slots[label][name] = part
        return new, {**state, "steps": xp.array(state["steps"] + 1), **slots}


def norm(arrays: Any, xp: ArrayFunctions[A]) -> A:
    """The Euclidean norm of all elements of some arrays together."""
    total, *terms = (xp.sum(x * x) for x in arrays)
    for term in terms:
        total = total + xp.cast(term, total)
    return xp.sqrt(total)
