"""In which order a stage takes its micro-batches forward and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

from deep_bench.errors import UnknownName

Kind = Literal["forward", "backward"]


class Task(NamedTuple):
    """What a stage does next.

    Args:
        kind: Which way.
        micro_batch: With which one, from 0.
    """

    kind: Kind
    micro_batch: int


Schedule: TypeAlias = Callable[[int, int, int], tuple[Task, ...]]
"""From a stage's number, how many stages there are and how many micro-batches to what it does."""


def gpipe(stage: int, stages: int, micro_batches: int) -> tuple[Task, ...]:
    """All micro-batches forward, then all of them back, the last one first.

    Example:
        >>> " ".join(f"{kind[0]}{number}" for kind, number in gpipe(0, 2, 3))
        'f0 f1 f2 b2 b1 b0'

    Source:
        Huang et al., *GPipe: efficient training of giant neural networks using pipeline parallelism*, NeurIPS 2019,
        section 2.2 and figure 2c.
    """
    del stage, stages
    forward = [Task("forward", k) for k in range(micro_batches)]
    return (*forward, *(Task("backward", k) for k in reversed(range(micro_batches))))


def one_forward_one_backward(stage: int, stages: int, micro_batches: int) -> tuple[Task, ...]:
    """As many micro-batches forward as there are later stages, then one forward and one back in turns, then the rest back.

    All gradients are there before parameters change (a *flush*), unlike in PipeDream itself.

    Example:
        >>> " ".join(f"{kind[0]}{number}" for kind, number in one_forward_one_backward(0, 2, 3))
        'f0 f1 b0 f2 b1 b2'

    Source:
        Narayanan et al., *Efficient large-scale language model training on GPU clusters using Megatron-LM*, SC 2021,
        section 2.2.1 and figure 4, after Narayanan et al., *PipeDream: generalized pipeline parallelism for DNN training*,
        SOSP 2019, section 3.2.
    """
    ahead = min(stages - 1 - stage, micro_batches)
    tasks = [Task("forward", k) for k in range(ahead)]
    for k in range(micro_batches - ahead):
        tasks += [Task("forward", ahead + k), Task("backward", k)]
    return (*tasks, *(Task("backward", k) for k in range(micro_batches - ahead, micro_batches)))


SCHEDULES: Mapping[str, Schedule] = MappingProxyType({"1f1b": one_forward_one_backward, "gpipe": gpipe})
"""By name."""


def schedule_of(name: str) -> Schedule:
    """A schedule.

    Raises:
        UnknownName: There is none of that name.
    """
    if name not in SCHEDULES:
        raise UnknownName("schedule", name, SCHEDULES)
    return SCHEDULES[name]


def bubble_share(stages: int, micro_batches: int) -> float:
    r"""The share of all stages' time in which they wait, where all tasks of a kind take equally long and messages no time.

    .. math:: \frac{p - 1}{m + p - 1}

    for :math:`p` stages and :math:`m` micro-batches, in both schedules.

    Example:
        >>> bubble_share(stages=4, micro_batches=8)
        0.2727272727272727

    Source:
        Huang et al., NeurIPS 2019, section 2.3. Narayanan et al., SC 2021, section 2.2.1, give the same time as a share of
        the others': :math:`(p - 1) / m`.
    """
    return (stages - 1) / (micro_batches + stages - 1)


def most_kept(schedule: str, stage: int, stages: int, micro_batches: int) -> int:
    """How many micro-batches a stage keeps the inputs of at most: those that went forward and not yet back.

    Example:
        >>> [most_kept("gpipe", stage, 4, 8) for stage in range(4)], [most_kept("1f1b", stage, 4, 8) for stage in range(4)]
        ([8, 8, 8, 8], [4, 3, 2, 1])
    """
    held = most = 0
    for kind, _ in schedule_of(schedule)(stage, stages, micro_batches):
        held += 1 if kind == "forward" else -1
        most = max(most, held)
    return most
