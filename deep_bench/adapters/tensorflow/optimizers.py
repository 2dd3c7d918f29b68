"""``keras.optimizers`` behind the interface of `deep_bench.training.Optimizer`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import keras
import tensorflow as tf

from deep_bench.arrays import ArrayFunctions, Path, Tree, grown, leaves
from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import Arrays, Evaluate, Optimizer, Rate, rate_at

_OF_PARAMETER = re.compile(r"parameter_(\d+)(?:_(.+))?")
_COUNT = "iteration"
_NUMBERED = re.compile(r"_\d+$")  # Keras numbers the names of all models in a process


@dataclass(frozen=True)
class KerasOptimizer(Optimizer[Any, dict[str, Any]]):
    r"""An optimizer of Keras, as a function of its variables, compiled by ``tf.function``.

    The state's leaves are the values of the native optimizer's own variables, by Keras' names; the one that counts the steps
    is ``"steps"``. The rate is one of them.

    Keras rounds its settings to float32, whatever the type of the parameters: a ``beta_2`` of 0.999 is 0.9990000129, and
    :math:`1 - \beta_2` has 16 bits.

    Args:
        kind: The name of the class in ``keras.optimizers``.
        lr: A number or a schedule; ``None`` for Keras' default.
        settings: Its other arguments, as Keras names them: ``beta_1=0.8``, ``amsgrad=True``.

    Raises:
        InvalidArgument: An argument that Keras does not take.

    Example:
        >>> import deep_bench as db
        >>> adam = db.optimizers["tensorflow.adam"](lr=0.5)
        >>> xp, w = db.frameworks["tensorflow"]().xp, {"w": tf.ones(2)}
        >>> w, state = adam.update({"w": tf.constant([1.0, -1.0])}, adam.init(w, xp), w, xp)
        >>> w["w"].numpy().round(5), sorted(state)
        (array([0.5, 1.5], dtype=float32), ['learning_rate', 'momentum', 'steps', 'velocity'])
    """

    kind: str
    lr: Rate | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        try:
            self._native()
        except (TypeError, ValueError) as error:
            came = f"keras.optimizers.{self.kind} with {dict(self.settings)} and lr={self.lr!r}: {error}"
            raise InvalidArgument(came, f"arguments of keras.optimizers.{self.kind}") from error

    @property
    def framework(self) -> str:
        """See `Optimizer.framework`."""
        return "tensorflow"

    @property
    def in_place(self) -> bool:
        """See `Optimizer.in_place`."""
        return False

    @property
    def separable(self) -> bool:
        """See `Optimizer.separable`."""
        return self.settings.get("global_clipnorm") is None

    def init(self, parameters: Arrays[Any], xp: ArrayFunctions[Any]) -> dict[str, Any]:
        """See `Optimizer.init`."""
        del xp
        compiled = _Compiled(self._native(), parameters)
        return _KerasState(grown(dict(zip(compiled.paths, compiled.initial, strict=True))), compiled)

    def restored(self, state: Tree, parameters: Arrays[Any]) -> _KerasState:
        """See `Optimizer.restored`."""
        return _KerasState(state, _Compiled(self._native(), parameters))

    def update(
        self,
        gradients: Arrays[Any],
        state: Tree,
        parameters: Arrays[Any],
        xp: ArrayFunctions[Any],
        *,
        evaluate: Evaluate | None = None,
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """See `Optimizer.update`."""
        del evaluate
        bound = state if isinstance(state, _KerasState) else self.restored(state, parameters)
        held = leaves(bound)
        if callable(self.lr):
            rate = held[("learning_rate",)]
            held[("learning_rate",)] = tf.cast(rate_at(self.lr, bound["steps"], xp), rate.dtype)
        compiled: _Compiled = bound.compiled
        slopes = [gradients[name] for name in parameters]
        new, after = compiled.call([held[path] for path in compiled.paths], slopes, list(parameters.values()))
        new_state = _KerasState(grown(dict(zip(compiled.paths, after, strict=True))), compiled)
        return dict(zip(parameters, new, strict=True)), new_state

    def _native(self) -> Any:
        rate = {} if self.lr is None else {"learning_rate": 1.0 if callable(self.lr) else float(self.lr)}
        return getattr(keras.optimizers, self.kind)(**rate, **self.settings)


class _KerasState(dict[str, Any]):
    """The tree of a native optimizer's values, with the function that updates them."""

    def __init__(self, tree: Tree, compiled: _Compiled) -> None:
        super().__init__(tree)
        self.compiled = compiled


class _Compiled:
    """A native optimizer of parameters of these shapes, as a function."""

    def __init__(self, native: Any, parameters: Arrays[Any]) -> None:
        variables = [keras.Variable(w, name=f"parameter_{i}") for i, w in enumerate(parameters.values())]
        native.build(variables)
        self.paths = _paths(native.variables, tuple(parameters))
        self.initial = [tf.identity(v.value) for v in native.variables]
        held = [*native.variables, *variables]

        def step(values: list[Any], gradients: list[Any], weights: list[Any]) -> tuple[list[Any], list[Any]]:
            for variable, value in zip(held, [*values, *weights], strict=True):
                variable.assign(value)
            native.apply(gradients, variables)
            after = [tf.identity(variable.value) for variable in held]
            return after[len(values) :], after[: len(values)]

        self.call: Callable[..., Any] = tf.function(step, autograph=False)


def _paths(variables: list[Any], names: tuple[str, ...]) -> list[Path]:
    """Where each variable is in the tree."""
    paths: list[Path] = []
    for variable in variables:
        last = variable.path.rpartition("/")[2]
        match = _OF_PARAMETER.fullmatch(last)
        label = (match[2] or "factor") if match else "steps" if last == _COUNT else _NUMBERED.sub("", last)
        after = (names[int(match[1])],) if match else ()
        number, path = 2, (label, *after)
        while path in paths:
            path, number = (f"{label}_{number}", *after), number + 1
        paths.append(path)
    return paths


def _make_optimizer(kind: str, *, lr: Rate | None = None, **settings: Any) -> KerasOptimizer:
    """An optimizer with its settings as keyword arguments."""
    return KerasOptimizer(kind, lr, settings)


Adadelta = partial(_make_optimizer, "Adadelta")
Adafactor = partial(_make_optimizer, "Adafactor")
Adagrad = partial(_make_optimizer, "Adagrad")
Adam = partial(_make_optimizer, "Adam")
AdamW = partial(_make_optimizer, "AdamW")
Adamax = partial(_make_optimizer, "Adamax")
Ftrl = partial(_make_optimizer, "Ftrl")
Lamb = partial(_make_optimizer, "Lamb")
Lion = partial(_make_optimizer, "Lion")
Muon = partial(_make_optimizer, "Muon")
Nadam = partial(_make_optimizer, "Nadam")
RMSprop = partial(_make_optimizer, "RMSprop")
SGD = partial(_make_optimizer, "SGD")
