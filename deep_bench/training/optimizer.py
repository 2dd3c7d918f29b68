"""``Optimizer``: how parameters follow from gradients; schedules of its rates, and the defaults of other libraries.

An optimizer holds settings only; what it remembers is handed in and out. Schedules are written through ``xp``, so that they
can be traced.

A schedule is called with the number of steps done before, an int64 scalar, and the functions of its arrays; it returns a
float64 scalar. Any such function is one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from math import inf, pi
from numbers import Real
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np

from deep_bench.arrays import ArrayFunctions, Tree, is_number
from deep_bench.errors import InvalidArgument, UnknownName

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
    traced, becomes an ONNX graph (`deep_bench.network.train_step`). A rule that is to be traced has no branch that
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
        check_settings(type(self).__name__.lower(), self)

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
    """A field of an optimizer or a schedule, checked when one is made; ``MISSING`` as its default for none."""
    return field(default=default, metadata={"allowed": allowed})


def check_settings(owner: str, holder: Any) -> None:
    """Refuse a setting of a dataclass that is not allowed.

    Args:
        owner: How the message calls it.
        holder: An optimizer or a schedule.

    Raises:
        InvalidArgument: One is not.
    """
    for member in fields(holder):
        if (allowed := member.metadata.get("allowed")) is not None:
            allowed.check(owner, member.name, getattr(holder, member.name))


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


class _RateSchedule:
    """What schedules share: each setting is checked when one is made."""

    owner: ClassVar[str]
    """How messages call it."""

    def __post_init__(self) -> None:
        check_settings(self.owner, self)


@dataclass(frozen=True)
class StepDecay(_RateSchedule):
    r"""Falls by a factor every so many steps: :math:`r \gamma^{\lfloor t / n \rfloor}`.

    Args:
        lr: :math:`r`.
        every: :math:`n`.
        factor: :math:`\gamma`.

    Example:
        >>> values(StepDecay(1.0, every=2, factor=0.1), 5)
        [1.0, 1.0, 0.1, 0.1, 0.01]

    Source:
        He, Zhang, Ren and Sun, *Deep residual learning*, CVPR 2016, section 3.4; torch's ``StepLR``.
    """

    owner = "step decay"

    lr: float = setting(MISSING, NOT_NEGATIVE)
    every: int = setting(MISSING, COUNT)
    factor: float = setting(0.1, NOT_NEGATIVE)

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        return self.lr * xp.power(self.factor, xp.floor(xp.cast(steps, float) / self.every))


@dataclass(frozen=True)
class Cosine(_RateSchedule):
    r"""Half a cosine: :math:`l + \frac12 (r - l) (1 + \cos(\pi t / n))`, and :math:`l` from then on.

    Args:
        lr: :math:`r`.
        steps: :math:`n`.
        last: :math:`l`.

    Example:
        >>> values(Cosine(1.0, steps=4), 6)
        [1.0, 0.853553, 0.5, 0.146447, 0.0, 0.0]

    Source:
        Loshchilov and Hutter, *SGDR: stochastic gradient descent with warm restarts*, ICLR 2017, equation 5.
    """

    owner = "cosine"

    lr: float = setting(MISSING, NOT_NEGATIVE)
    steps: int = setting(MISSING, COUNT)
    last: float = setting(0.0, NOT_NEGATIVE)

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        return self.last + 0.5 * (self.lr - self.last) * (1 + xp.cos(pi * _progress(steps, self.steps, xp)))


@dataclass(frozen=True)
class Polynomial(_RateSchedule):
    r"""A power of what is left: :math:`l + (r - l) (1 - t / n)^p`, and :math:`l` from then on.

    Args:
        lr: :math:`r`.
        steps: :math:`n`.
        power: :math:`p`; 1 is a straight line.
        last: :math:`l`.

    Example:
        >>> values(Polynomial(1.0, steps=4, power=2.0), 6)
        [1.0, 0.5625, 0.25, 0.0625, 0.0, 0.0]

    Source:
        Liu, Rabinovich and Berg, *ParseNet*, 2015, section 4; torch's ``PolynomialLR``.
    """

    owner = "polynomial"

    lr: float = setting(MISSING, NOT_NEGATIVE)
    steps: int = setting(MISSING, COUNT)
    power: float = setting(1.0, POSITIVE)
    last: float = setting(0.0, NOT_NEGATIVE)

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        return self.last + (self.lr - self.last) * (1 - _progress(steps, self.steps, xp)) ** self.power


@dataclass(frozen=True)
class WarmUp(_RateSchedule):
    r"""Rises in a straight line, :math:`r (t + 1) / n` for :math:`t < n`; then another schedule, counted from there.

    Args:
        then: What follows: a number or a schedule. :math:`r` is its first value.
        steps: :math:`n`.

    Example:
        >>> values(WarmUp(Cosine(1.0, steps=4), steps=2), 6)
        [0.5, 1.0, 1.0, 0.853553, 0.5, 0.146447]

    Source:
        Goyal et al., *Accurate, large minibatch SGD*, arXiv:1706.02677, section 2.2.
    """

    owner = "warm-up"

    then: Rate = setting(MISSING, RATE)
    steps: int = setting(MISSING, COUNT)

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        counted = steps - self.steps
        late = rate_at(self.then, xp.where(counted > 0, counted, 0), xp)
        return late * xp.minimum((xp.cast(steps, float) + 1) / self.steps, 1.0)


@dataclass(frozen=True)
class OneCycle(_RateSchedule):
    r"""Half a cosine up to the rate, and half a cosine down to far below the start.

    Args:
        lr: The largest rate, :math:`r`.
        steps: :math:`n`, all steps together.
        rising: :math:`p`, the share of steps in which it rises; ``p n - 1`` steps, as torch counts.
        start: The first rate is :math:`r` over this.
        end: The last rate is the first over this.

    Example:
        >>> values(OneCycle(1.0, steps=5, rising=0.4), 5)
        [0.04, 1.0, 0.750001, 0.250003, 4e-06]

    Source:
        Smith and Topin, *Super-convergence*, 2018, section 3, with cosines as in torch's ``OneCycleLR``.
    """

    owner = "one-cycle"

    lr: float = setting(MISSING, NOT_NEGATIVE)
    steps: int = setting(MISSING, COUNT)
    rising: float = setting(0.3, SHARE)
    start: float = setting(25.0, POSITIVE)
    end: float = setting(1e4, POSITIVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 < self.rising * self.steps < self.steps:
            came = f"one-cycle over {self.steps} steps of which a share of {self.rising} rises"
            raise InvalidArgument(came, "more than one step that rises, and some that fall")

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        t, top = xp.cast(steps, float), self.rising * self.steps - 1
        first, last = self.lr / self.start, self.lr / self.start / self.end
        up = _half_cosine(first, self.lr, xp.minimum(t / top, 1.0), xp)
        down = _half_cosine(self.lr, last, xp.minimum((t - top) / (self.steps - 1 - top), 1.0), xp)
        return xp.where(t > top, down, up)


def values(schedule: Rate, count: int) -> list[float]:
    """The first rates of a schedule, to six digits after the point."""
    from deep_bench.arrays import NUMPY

    return [round(float(rate_at(schedule, NUMPY.array(t), NUMPY)), 6) for t in range(count)]


def _half_cosine(first: float, last: float, progress: Any, xp: ArrayFunctions[Any]) -> Any:
    return last + 0.5 * (first - last) * (1 + xp.cos(pi * progress))


def _progress(steps: Any, total: int, xp: ArrayFunctions[Any]) -> Any:
    return xp.minimum(xp.cast(steps, float) / total, 1.0)


_KERAS_ADAM = {"epsilon": 1e-7, "epsilon_beside": "raw"}

CONVENTIONS: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "keras": {
            "adadelta": {"lr": 0.001, "rho": 0.95, "epsilon": 1e-7},
            "adafactor": {"lr": 0.001},
            "adagrad": {"lr": 0.001, "epsilon": 1e-7, "epsilon_beside": "square", "initial": 0.1},
            "adam": _KERAS_ADAM,
            "adamax": {"lr": 0.001, "epsilon": 1e-7, "epsilon_beside": "largest"},
            "adamw": {**_KERAS_ADAM, "weight_decay": 0.004},
            "amsgrad": _KERAS_ADAM,
            "lamb": {"epsilon": 1e-7},
            "lion": {"lr": 0.001},
            "momentum": {"rate_in_velocity": True},
            "nadam": {"lr": 0.001, "epsilon": 1e-7, "momentum_decay": 1.0},
            "nesterov": {"rate_in_velocity": True},
            "rmsprop": {
                "lr": 0.001,
                "rho": 0.9,
                "epsilon": 1e-7,
                "epsilon_beside": "square",
                "rate_in_velocity": True,
            },
            "sgd": {},
        },
        "onnx": {
            "adagrad": {"epsilon": 1e-6},
            "adam": {"epsilon": 1e-6, "epsilon_beside": "raw"},
            "momentum": {},
            "nesterov": {},
        },
        "optax": {
            "adadelta": {},
            "adagrad": {"epsilon": 1e-7, "epsilon_beside": "square", "initial": 0.1},
            "adam": {},
            "adamax": {},
            "adamw": {"weight_decay": 1e-4},
            "amsgrad": {"largest_of": "corrected"},
            "lamb": {},
            "lars": {"weight_decay": 0.0, "relative_to": "decayed"},
            "lion": {"weight_decay": 0.001},
            "momentum": {},
            "nadam": {"lr": 0.001, "momentum_decay": None},
            "nesterov": {},
            "radam": {"epsilon_beside": "corrected"},
            "rmsprop": {"rho": 0.9, "epsilon_beside": "square", "rate_in_velocity": True},
            "sgd": {},
        },
        "torch": {
            "adadelta": {},
            "adafactor": {"epsilon": 2.0**-23, "epsilon_beside": "estimate"},
            "adagrad": {},
            "adam": {},
            "adamax": {},
            "adamw": {},
            "amsgrad": {},
            "momentum": {},
            "muon": {"lr": 0.001, "weight_decay": 0.1},
            "nadam": {},
            "nesterov": {},
            "radam": {},
            "rmsprop": {},
            "sgd": {},
        },
    }
)
"""Library to optimizer of ``db.optimizers`` to the settings that differ from the reference's defaults.

optax has no default rate where the reference's stays. torch's ``Adafactor`` takes the epsilon of the element type, here that
of float32.
"""


def like(library: str, optimizer: str) -> dict[str, Any]:
    """The settings with which a reference does what a library's optimizer of this name does by default.

    Args:
        library: ``"torch"``, ``"keras"``, ``"optax"`` or ``"onnx"``.
        optimizer: A name of ``db.optimizers`` without a prefix.

    Raises:
        UnknownName: No such library, or none of its optimizers.

    Example:
        >>> import deep_bench as db
        >>> db.optimizers["adam"](**{**like("keras", "adam"), "lr": 0.01})
        Adam(lr=0.01, beta1=0.9, beta2=0.999, epsilon=1e-07, epsilon_beside='raw', correct_bias=True)
    """
    if library not in CONVENTIONS:
        raise UnknownName("library", library, CONVENTIONS)
    if optimizer not in CONVENTIONS[library]:
        raise UnknownName(f"optimizer of {library}", optimizer, CONVENTIONS[library])
    return dict(CONVENTIONS[library][optimizer])
