"""Steps along time: one after the other where they are few, else a ``Scan``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deep_bench.network.gradient.rules._subgraphs import Scanned, scan, tensor_type
from deep_bench.network.gradient.symbol import Symbol
from deep_bench.network.gradient.tape import Tape

UNROLLED = 16
"""Up to how many steps are written one after the other."""

Step = Callable[..., tuple[Sequence[Symbol], Sequence[Symbol]]]


def sweep(
    op: Tape,
    step: Step,
    states: Sequence[Symbol],
    sequences: Sequence[Symbol | None],
    *,
    backwards: bool,
    n_outputs: int = 1,
) -> tuple[list[Symbol], list[Symbol]]:
    """Apply a step to one element of each sequence after the other.

    Args:
        op: Where it is written.
        step: ``step(op, states, elements)``: the next states and the elements of the outputs. It may write only what treats
            the axes before the last one alike.
        states: The first states, ``(batch, features)``.
        sequences: ``(time, batch, features)``, each; where one is ``None``, so are its elements.
        backwards: Whether from the last element to the first.
        n_outputs: How many outputs the step has.

    Returns:
        The last states, and the outputs ``(time, batch, features)``.
    """
    supplied = [s for s in sequences if s is not None]
    for x, rank in [*((s, 2) for s in states), *((s, 3) for s in supplied)]:
        if op.known_dims(x.value) is None:
            op.knowledge.state(x.value, tensor_type(x.dtype, rank))
    length = next((dims[0] for s in supplied if isinstance((dims := s.dims)[0], int)), None)
    if isinstance(length, int) and 0 < length <= UNROLLED:
        return _unrolled(op, step, states, sequences, length, backwards)

    def write(tape: Tape, *inputs: Symbol) -> list[Symbol]:
        elements = iter(inputs[len(states) :])
        new, outputs = step(tape, inputs[: len(states)], [None if s is None else next(elements) for s in sequences])
        return [*new, *outputs]

    element = tensor_type(states[0].dtype, 2)
    scanned = [Scanned(s, 0, backwards) for s in supplied]
    return scan(op, write, states, scanned, [(0, backwards)] * n_outputs, [element] * n_outputs)


def _unrolled(
    op: Tape, step: Step, states: Sequence[Symbol], sequences: Sequence[Symbol | None], length: int, backwards: bool
) -> tuple[list[Symbol], list[Symbol]]:
    parts = [[None] * length if s is None else _split(op, s, length) for s in sequences]
    states = [s.unsqueeze(0) for s in states]
    collected = []
    for t in reversed(range(length)) if backwards else range(length):
        states, outputs = step(op, states, [p[t] for p in parts])
        collected.append(outputs)
    if backwards:
        collected.reverse()
    return [s.squeeze(0) for s in states], [op.concat(list(parts)) for parts in zip(*collected, strict=True)]


def _split(op: Tape, x: Symbol, length: int) -> list[Symbol]:
    return [x] if length == 1 else list(op.Split(x, outputs=length, axis=0, num_outputs=length))
