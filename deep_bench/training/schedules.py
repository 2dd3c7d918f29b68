"""Schedules: learning rates that depend on the number of the step. Written through ``xp``, so that they can be traced.

A schedule is called with the number of steps done before, an int64 scalar, and the functions of its arrays; it returns a
float64 scalar. Any such function is one.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import pi
from typing import Any

from deep_bench.arrays import ArrayFunctions
from deep_bench.errors import InvalidArgument
from deep_bench.training.optimizer import COUNT, NOT_NEGATIVE, POSITIVE, RATE, SHARE, Rate, rate_at


@dataclass(frozen=True)
class StepDecay:
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

    lr: float
    every: int
    factor: float = 0.1

    def __post_init__(self) -> None:
        _check("step decay", lr=(self.lr, NOT_NEGATIVE), every=(self.every, COUNT), factor=(self.factor, NOT_NEGATIVE))

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        return self.lr * xp.power(self.factor, xp.floor(xp.cast(steps, float) / self.every))


@dataclass(frozen=True)
class Cosine:
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

    lr: float
    steps: int
    last: float = 0.0

    def __post_init__(self) -> None:
        _check("cosine", lr=(self.lr, NOT_NEGATIVE), steps=(self.steps, COUNT), last=(self.last, NOT_NEGATIVE))

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        return self.last + 0.5 * (self.lr - self.last) * (1 + xp.cos(pi * _progress(steps, self.steps, xp)))


@dataclass(frozen=True)
class Polynomial:
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

    lr: float
    steps: int
    power: float = 1.0
    last: float = 0.0

    def __post_init__(self) -> None:
        _check("polynomial", lr=(self.lr, NOT_NEGATIVE), steps=(self.steps, COUNT), power=(self.power, POSITIVE))
        _check("polynomial", last=(self.last, NOT_NEGATIVE))

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        return self.last + (self.lr - self.last) * (1 - _progress(steps, self.steps, xp)) ** self.power


@dataclass(frozen=True)
class WarmUp:
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

    then: Rate
    steps: int

    def __post_init__(self) -> None:
        _check("warm-up", then=(self.then, RATE), steps=(self.steps, COUNT))

    def __call__(self, steps: Any, xp: ArrayFunctions[Any]) -> Any:
        counted = steps - self.steps
        late = rate_at(self.then, xp.where(counted > 0, counted, 0), xp)
        return late * xp.minimum((xp.cast(steps, float) + 1) / self.steps, 1.0)


@dataclass(frozen=True)
class OneCycle:
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

    lr: float
    steps: int
    rising: float = 0.3
    start: float = 25.0
    end: float = 1e4

    def __post_init__(self) -> None:
        _check("one-cycle", lr=(self.lr, NOT_NEGATIVE), steps=(self.steps, COUNT), rising=(self.rising, SHARE))
        _check("one-cycle", start=(self.start, POSITIVE), end=(self.end, POSITIVE))
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


def _check(owner: str, **settings: Any) -> None:
    for name, (value, allowed) in settings.items():
        allowed.check(owner, name, value)
