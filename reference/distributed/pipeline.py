r"""Pipelines, spelled out stage by stage and tick by tick.

A batch of :math:`n` samples is cut into micro-batches of :math:`n_k`, each of which goes through all stages, and its
gradient back through all of them. Every stage does one task in a tick, if there is one that it may do:

- **GPipe**: a micro-batch forward as soon as the stage before has done so; when all have gone forward, the last one back
  first, as soon as the stage after has done so.
- **1F1B**: a micro-batch back as soon as the stage after has done so, the oldest first; otherwise one forward, if no more
  are under way here than there are stages from this one on.

Stages are the places of a list; a message is an assignment.

Source:
    Huang et al., *GPipe: efficient training of giant neural networks using pipeline parallelism*, NeurIPS 2019, section
    2.2 and figure 2c; Narayanan et al., *PipeDream: generalized pipeline parallelism for DNN training*, SOSP 2019, section
    3.2; Narayanan et al., *Efficient large-scale language model training on GPU clusters using Megatron-LM*, SC 2021,
    section 2.2.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Protocol, TypeAlias

import numpy as np

Task: TypeAlias = "tuple[str, int]"
"""``("forward", 2)``: with the third micro-batch."""

Arrays: TypeAlias = "dict[str, np.ndarray]"


class Layers(Protocol):
    """A stage; the last one's result is the mean loss of a micro-batch."""

    def forward(self, parameters: Arrays, x: Any, labels: Any) -> Any:
        """What it gives."""

    def backward(self, parameters: Arrays, x: Any, labels: Any, gradient: Any) -> tuple[Any, Arrays]:
        """From the gradient with respect to what it gives to those with respect to what it takes, and to its parameters."""


def timetable(schedule: str, stages: int, micro_batches: int) -> list[list[Task | None]]:
    """What each stage does in each tick; ``None`` where it waits.

    Example:
        >>> for row in timetable("1f1b", 2, 3):
        ...     print(" ".join("--" if task is None else f"{task[0][0]}{task[1]}" for task in row))
        f0 f1 -- b0 f2 b1 -- b2
        -- f0 b0 f1 b1 f2 b2 --
    """
    rows: list[list[Task | None]] = [[] for _ in range(stages)]
    while any(("backward", k) not in row for row in rows for k in range(micro_batches)):
        before = [list(row) for row in rows]
        for stage, row in enumerate(rows):
            row.append(_next(schedule, before, stage, micro_batches))
    return rows


def _next(schedule: str, rows: list[list[Task | None]], stage: int, micro_batches: int) -> Task | None:
    done, last = rows[stage], len(rows) - 1
    gone = [k for k in range(micro_batches) if ("forward", k) in done]
    waiting = [k for k in gone if ("backward", k) not in done]
    back = [k for k in waiting if stage == last or ("backward", k) in rows[stage + 1]]
    new = [k for k in range(micro_batches) if k not in gone and (stage == 0 or ("forward", k) in rows[stage - 1])]
    if schedule == "gpipe":
        if new:
            return "forward", new[0]
        if len(gone) == micro_batches and back:
            return "backward", max(back)
        return None
    if back:
        return "backward", back[0]
    if new and len(waiting) < last - stage + 1:
        return "forward", new[0]
    return None


def order(schedule: str, stages: int, micro_batches: int) -> list[list[Task]]:
    """What each stage does, one after the other."""
    return [[task for task in row if task is not None] for row in timetable(schedule, stages, micro_batches)]


def waiting_share(schedule: str, stages: int, micro_batches: int) -> Fraction:
    """The share of all stages' ticks in which they wait.

    Example:
        >>> waiting_share("gpipe", 4, 8) == waiting_share("1f1b", 4, 8) == Fraction(4 - 1, 8 + 4 - 1)
        True
    """
    ticks = [task for row in timetable(schedule, stages, micro_batches) for task in row]
    return Fraction(ticks.count(None), len(ticks))


def gradients(
    layers: Sequence[Layers],
    parameters: Sequence[Arrays],
    batch: Sequence[tuple[np.ndarray, np.ndarray]],
    schedule: str,
) -> tuple[float, list[Arrays], list[int]]:
    r"""The loss of a batch and its gradients, :math:`L = \sum_k \frac{n_k}{n} L_k`.

    Args:
        layers: The stages.
        parameters: Of each.
        batch: Data and labels of each micro-batch.
        schedule: ``"gpipe"`` or ``"1f1b"``.

    Returns:
        The loss, each stage's gradients, and how many micro-batches each held the inputs of at most.
    """
    stages, total = len(layers), sum(len(labels) for _, labels in batch)
    weights = [len(labels) / total for _, labels in batch]
    sent: list[dict[int, Any]] = [{} for _ in layers]  # to each stage, of each micro-batch, by the one before
    back: list[dict[int, Any]] = [{} for _ in layers]  # to each stage, by the one after
    held: list[dict[int, Any]] = [{} for _ in layers]
    most = [0] * stages
    loss = 0.0
    sums = [{name: np.zeros_like(x) for name, x in stage_arrays.items()} for stage_arrays in parameters]
    for tick in zip(*timetable(schedule, stages, len(batch)), strict=True):
        for stage, task in enumerate(tick):
            if task is None:
                continue
            kind, k = task
            data, labels = batch[k]
            if kind == "forward":
                held[stage][k] = data if stage == 0 else sent[stage].pop(k)
                most[stage] = max(most[stage], len(held[stage]))
                y = layers[stage].forward(parameters[stage], held[stage][k], labels)
                if stage == stages - 1:
                    loss += weights[k] * float(y)
                    back[stage][k] = weights[k]
                else:
                    sent[stage + 1][k] = y
            else:
                x, gradient = held[stage].pop(k), back[stage].pop(k)
                before, stage_arrays = layers[stage].backward(parameters[stage], x, labels, gradient)
                sums[stage] = {name: sums[stage][name] + stage_arrays[name] for name in stage_arrays}
                if stage > 0:
                    back[stage - 1][k] = before
    return loss, sums, most
