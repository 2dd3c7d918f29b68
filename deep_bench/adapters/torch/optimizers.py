"""``torch.optim`` behind the interface of `deep_bench.training.Optimizer`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from inspect import signature
from operator import is_
from typing import Any

import torch

from deep_bench.arrays import ArrayFunctions, Tree
from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import Arrays, Evaluate, Optimizer, Rate, rate_at

_LISTS = ("old_dirs", "old_stps", "ro")
"""What ``torch.optim.LBFGS`` keeps as lists."""

_NUMBERS = ("func_evals", "n_iter")
"""What it keeps as whole numbers."""

_SCRATCH = "al"
"""What it writes anew in every step."""


@dataclass(frozen=True)
class TorchOptimizer(Optimizer[torch.Tensor, dict[str, Any]]):
    """An optimizer of ``torch.optim``, which updates tensors in place.

    The parameters and the state that are handed in are changed, and are what is returned. The state's leaves are the native
    optimizer's own tensors, by torch's names: ``{"steps": …, "exp_avg": {"w": …}, …}``. What torch makes in its first step
    is there at once, but for ``LBFGS`` and for SGD with dampening. A state that was read from a file does as well.

    Args:
        kind: The name of the class in ``torch.optim``.
        lr: A number or a schedule; ``None`` for torch's default.
        settings: Its other arguments, as torch names them: ``foreach=True``, ``fused=True``, ``betas=(0.9, 0.99)``.

    Raises:
        InvalidArgument: An argument that torch does not take.

    Example:
        >>> import deep_bench as db
        >>> adam = db.optimizers["torch.adam"](lr=0.5, foreach=True)
        >>> xp, w = db.frameworks["torch"]().xp, {"w": torch.ones(2)}
        >>> w, state = adam.update({"w": torch.tensor([1.0, -1.0])}, adam.init(w, xp), w, xp)
        >>> w["w"], sorted(state)
        (tensor([0.5000, 1.5000]), ['exp_avg', 'exp_avg_sq', 'step', 'steps'])
    """

    kind: str
    lr: Rate | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self._native([torch.zeros(1, 1)])
        except (TypeError, ValueError, RuntimeError) as error:
            came = f"torch.optim.{self.kind} with {dict(self.settings)} and lr={self.lr!r}: {error}"
            raise InvalidArgument(came, f"arguments of torch.optim.{self.kind}") from error

    @property
    def framework(self) -> str:
        """See `Optimizer.framework`."""
        return "torch"

    @property
    def separable(self) -> bool:
        """See `Optimizer.separable`."""
        return self.kind != "LBFGS"

    def init(self, parameters: Arrays[torch.Tensor], xp: ArrayFunctions[torch.Tensor]) -> dict[str, Any]:
        """See `Optimizer.init`."""
        native = self._native(list(parameters.values()))
        _begin(native, parameters)
        state = _TorchState({"steps": xp.array(0, int)}, native, parameters)
        state.grow(parameters)
        return state

    def restored(self, state: Tree, parameters: Arrays[torch.Tensor]) -> dict[str, Any]:
        """See `Optimizer.restored`."""
        return self._bound(state, parameters)

    def update(
        self,
        gradients: Arrays[torch.Tensor],
        state: Tree,
        parameters: Arrays[torch.Tensor],
        xp: ArrayFunctions[torch.Tensor],
        *,
        evaluate: Evaluate | None = None,
    ) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        """See `Optimizer.update`.

        Raises:
            InvalidArgument: ``LBFGS`` with more than one iteration a step, or a line search, and no ``evaluate``.
        """
        bound = state if isinstance(state, _TorchState) and state.holds(parameters) else self._bound(state, parameters)
        if callable(self.lr):
            for group in bound.native.param_groups:
                group["lr"] = float(rate_at(self.lr, bound["steps"], xp))
        for name, w in parameters.items():
            w.grad = gradients[name]
        if self.kind == "LBFGS":
            self._searched(bound.native, parameters, evaluate)
        else:
            bound.native.step()
        for w in parameters.values():
            w.grad = None
        bound["steps"] += 1
        if not bound.whole:
            bound.grow(parameters)
            bound.whole = self.kind != "LBFGS"
        return dict(parameters), bound

    def _native(self, tensors: list[torch.Tensor]) -> torch.optim.Optimizer:
        rate = {} if self.lr is None else {"lr": 1.0 if callable(self.lr) else float(self.lr)}
        optimizer: torch.optim.Optimizer = getattr(torch.optim, self.kind)(tensors, **rate, **self.settings)
        return optimizer

    def _bound(self, state: Tree, parameters: Arrays[torch.Tensor]) -> _TorchState:
        """A state of a native optimizer of these parameters."""
        native = self._native(list(parameters.values()))
        for name, w in parameters.items():
            entries = {key: value[name] for key, value in state.items() if isinstance(value, Mapping) and name in value}
            if entries:
                native.state[w] = {key: _native_value(key, value) for key, value in entries.items()}
        bound_state = _TorchState(state, native, parameters)
        bound_state.grow(parameters)
        return bound_state

    def _searched(self, native: torch.optim.Optimizer, parameters: Arrays[torch.Tensor], evaluate: Evaluate | None) -> None:
        if evaluate is None:
            group = native.param_groups[0]
            if group["max_iter"] != 1 or group["line_search_fn"] is not None:
                came = f"torch.optim.LBFGS with max_iter={group['max_iter']} and no evaluate"
                raise InvalidArgument(came, "update(…, evaluate=…), or max_iter=1 and no line search")
            native.step(lambda: 0.0)
            return

        def closure() -> float:
            loss, gradients = evaluate(parameters)
            for name, w in parameters.items():
                w.grad = gradients[name]
            return float(loss)

        native.step(closure)


def _begin(native: torch.optim.Optimizer, parameters: Arrays[torch.Tensor]) -> None:
    """Make the state that torch makes in its first step, so that it has the same leaves before and after.

    What is not made is the state of ``LBFGS``, and the velocity of SGD with dampening, whose first step is another.
    """
    start = getattr(native, "_init_group", None)
    if start is None:
        return
    for w in parameters.values():
        w.grad = torch.zeros_like(w)
    for group in native.param_groups:
        start(group, *([] for _ in range(len(signature(start).parameters) - 1)))
        for w in group["params"]:
            w.grad = None
            if group.get("dampening") == 0 and group["momentum"] != 0:
                native.state[w]["momentum_buffer"] = torch.zeros_like(w, requires_grad=False)


class _TorchState(dict[str, Any]):
    """The tree of a native optimizer's tensors, with that optimizer, so that it need not be made anew in every step.

    Attributes:
        whole: Whether it has all of them: after a step there are no new ones, and they stay the same, but for ``LBFGS``.
    """

    def __init__(self, tree: Tree, native: torch.optim.Optimizer, parameters: Arrays[torch.Tensor]) -> None:
        super().__init__(tree)
        self.native = native
        self._tensors = tuple(parameters.values())
        self.whole = False

    def holds(self, parameters: Arrays[torch.Tensor]) -> bool:
        """Whether the optimizer is of exactly these tensors."""
        return len(parameters) == len(self._tensors) and all(map(is_, parameters.values(), self._tensors))

    def grow(self, parameters: Arrays[torch.Tensor]) -> None:
        """Take over the optimizer's tensors."""
        for name, w in parameters.items():
            for key, value in _leaves(self.native.state.get(w, {})):
                self.setdefault(key, {})[name] = value


def _leaves(state: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Lists as mappings, numbers as tensors; what is not there yet is left out."""
    for key, value in state.items():
        if key == _SCRATCH:
            continue
        if isinstance(value, list | tuple):
            yield key, {str(i): x for i, x in enumerate(value)}
        elif isinstance(value, torch.Tensor):
            yield key, value
        elif value is not None:  # Python numbers of LBFGS
            yield key, torch.tensor(value, dtype=torch.int64 if isinstance(value, int) else torch.float64)


def _native_value(key: str, value: Any) -> Any:
    """What the native optimizer itself holds."""
    if key in _LISTS:
        return [value[str(i)] for i in range(len(value))]
    return int(value) if key in _NUMBERS else value


def _make_optimizer(kind: str, *, lr: Rate | None = None, **settings: Any) -> TorchOptimizer:
    """An optimizer with its settings as keyword arguments."""
    return TorchOptimizer(kind, lr, settings)


ASGD = partial(_make_optimizer, "ASGD")
Adadelta = partial(_make_optimizer, "Adadelta")
Adafactor = partial(_make_optimizer, "Adafactor")
Adagrad = partial(_make_optimizer, "Adagrad")
Adam = partial(_make_optimizer, "Adam")
AdamW = partial(_make_optimizer, "AdamW")
Adamax = partial(_make_optimizer, "Adamax")
LBFGS = partial(_make_optimizer, "LBFGS")
Muon = partial(_make_optimizer, "Muon")
NAdam = partial(_make_optimizer, "NAdam")
RAdam = partial(_make_optimizer, "RAdam")
RMSprop = partial(_make_optimizer, "RMSprop")
Rprop = partial(_make_optimizer, "Rprop")
SGD = partial(_make_optimizer, "SGD")
