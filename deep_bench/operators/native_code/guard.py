"""Finding a native function's reads and writes outside of its tensors, without a sanitizer.

Every tensor lies between two margins filled with a pattern. What changed in a margin was written there by the function.
What it *reads* there shows when the pattern is another one the next time: then its results are others, too.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from deep_bench.errors import Unsupported
from deep_bench.operators.native_code.operator import NativeOperator
from deep_bench.operators.native_code.ready import spec_of
from deep_bench.tensor import TensorSpec

_ALIGNMENT = 64

MARGIN = 1 << 20
"""How many bytes before and behind a tensor are watched."""

_NANS, _NUMBERS = 0xFF, 0x3F
"""Patterns: bytes that are NaN in all floating-point types, and -1 in integers; bytes that are ordinary numbers."""

_READ, _WRITTEN = (_NANS, _NUMBERS), (0xA5, 0x5A)
"""Patterns around what is read and what is written: other ones, so that what is copied from there to there shows."""


@dataclass(frozen=True)
class Trespass:
    """Memory that a function must leave alone, and did not.

    Args:
        buffer: The tensor that it missed: ``"input x"``, ``"output y"``.
        what: What it did.
        offset: The first byte concerned, counted from the tensor's start; ``None`` where that cannot be told.
        count: How many bytes.
        spec: The tensor.
    """

    buffer: str
    what: str
    offset: int | None
    count: int
    spec: TensorSpec

    def __str__(self) -> str:
        if self.offset is None:
            return f"{self.buffer} ({self.spec}): {self.what}"
        at = f"byte {self.offset}, element {self.offset // self.spec.dtype.itemsize}"
        return f"{self.buffer} ({self.spec}): {self.what}: {self.count} bytes, the first at {at}"


class Guarded:
    """A copy of an array between margins.

    Args:
        buffer: What it is, for messages.
        spec: Its shape and element type.
        contents: What to copy; a pattern if there is nothing.
        around: The pattern of the margins.
        within: The pattern of the array where nothing is copied.
    """

    def __init__(
        self, buffer: str, spec: TensorSpec, contents: np.ndarray | None, around: int = _NANS, within: int = _NANS
    ) -> None:
        shape = tuple(int(d) for d in spec.shape)
        size = int(np.prod(shape, dtype=np.int64)) * spec.dtype.itemsize
        block = np.full(size + 2 * MARGIN + _ALIGNMENT, around, np.uint8)
        self._start = MARGIN + -block.ctypes.data % _ALIGNMENT
        self._around, self._block, self._size = around, block, size
        self.buffer, self.spec = buffer, spec
        self.array: np.ndarray = self._within.view(spec.dtype).reshape(shape)
        self._within[:] = within
        if contents is not None:
            self.array[...] = contents
        self._before = self._within.copy() if contents is not None else None

    def trespasses(self) -> list[Trespass]:
        """What was changed that had to stay as it was: the margins, and what was copied."""
        block, start, end = self._block, self._start, self._start + self._size
        changes = [
            ("bytes before it were overwritten", np.flatnonzero(block[:start] != self._around) - start),
            ("bytes behind it were overwritten", np.flatnonzero(block[end:] != self._around) + self._size),
        ]
        if self._before is not None:
            changes.append(("an input was overwritten", np.flatnonzero(self._within != self._before)))
        return [Trespass(self.buffer, fault, int(at[0]), len(at), self.spec) for fault, at in changes if len(at)]

    @property
    def contents(self) -> bytes:
        """The array's bytes."""
        return self._within.tobytes()

    @property
    def _within(self) -> np.ndarray:
        return self._block[self._start : self._start + self._size]


@dataclass(frozen=True)
class _Buffer:
    name: str
    spec: TensorSpec | None
    contents: np.ndarray | None = None
    patterns: tuple[int, int] = _READ


def trespasses(
    operator: NativeOperator,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any] | None = None,
    *,
    grads: Sequence[np.ndarray | None] | None = None,
    outputs: Sequence[np.ndarray] | None = None,
) -> tuple[Trespass, ...]:
    """What a native operator reads and writes outside of its tensors, and inputs that it overwrites.

    It is called four times, and once more for each tensor where something was read that should not be. What lies further
    from a tensor than `MARGIN` is not watched, and writing there may end this process; what is read outside shows only
    where it changes a result. ``sanitize=True`` finds that as well, in a process of its own.

    Args:
        operator: A native operator on the CPU.
        inputs: As for its ``forward``.
        attributes: The same.
        grads: The gradients of its outputs; with them its ``backward`` is called instead.
        outputs: Its outputs, for that.

    Raises:
        Unsupported: Its arrays are not NumPy's.

    Example:
        >>> from deep_bench.operators import native
        >>> source = 'extern "C" void f(const float *x, float *y, long n) { for (long i = 0; i <= n; ++i) y[i] = x[i]; }'
        >>> copy = native(source, function="f", computes="Identity", signature="const float *x, float *y, long n = x.size")
        >>> for found in trespasses(copy, [np.ones(3, np.float32)]):
        ...     print(found)
        output y (y: float32[3]): bytes behind it were overwritten: 4 bytes, the first at byte 12, element 3
    """
    if operator.recipe.device != "cpu":
        raise Unsupported(
            f"guard zones with device={operator.recipe.device!r}",
            "a native operator on NumPy arrays",
            "use sanitize=True for CUDA: it runs compute-sanitizer",
        )
    attributes = attributes or {}
    read, written, call = _plan(operator, inputs, attributes, grads, outputs)
    first, base = _run(call, read, written)
    second, other_margins = _run(call, read, written, around=[b.name for b in (*read, *written)])
    _, again = _run(call, read, written)
    _, other_contents = _run(call, read, written, within=_NUMBERS)
    violations = _merged([*first, *second])
    if again != base:  # results that differ by themselves tell nothing of what was read
        return tuple(violations)
    if other_margins != base:
        violations += [
            Trespass(b.name, "what lies around it was read, and changes the result", None, 0, b.spec)
            for b in (*read, *written)
            if b.spec is not None and _run(call, read, written, around=[b.name])[1] != base
        ]
    violations += [
        Trespass(b.name, "not all of it is written, or it is read first", None, 0, b.spec)
        for b, before, after in zip((b for b in written if b.spec is not None), base, other_contents, strict=True)
        if before != after and b.spec is not None
    ]
    return tuple(violations)


def _merged(violations: Sequence[Trespass]) -> list[Trespass]:
    """One for each tensor and fault: the run whose pattern is further from what was written shows more bytes."""
    most: dict[tuple[str, str], Trespass] = {}
    for trespass in violations:
        previous = most.get((trespass.buffer, trespass.what))
        if previous is None or trespass.count > previous.count:
            most[trespass.buffer, trespass.what] = trespass
    return list(most.values())


_Call = Callable[[list[np.ndarray | None], list[np.ndarray | None]], None]


def _plan(
    operator: NativeOperator,
    inputs: Sequence[np.ndarray | None],
    attributes: Mapping[str, Any],
    grads: Sequence[np.ndarray | None] | None,
    outputs: Sequence[np.ndarray] | None,
) -> tuple[list[_Buffer], list[_Buffer], _Call]:
    signature = operator.recipe.signature
    named = (signature.names("read"), signature.names("written")) if signature is not None else ((), ())
    read = [_named("input", named[0], "x", i, a) for i, a in enumerate(inputs)]
    if grads is None:
        specs = operator.results(*inputs, **attributes)
        names = named[1] or [s.name for s in specs]
        written = [_Buffer(f"output {names[i]}", _renamed(s, names[i]), patterns=_WRITTEN) for i, s in enumerate(specs)]
        return read, written, lambda r, w: operator.forward_into(w, r, attributes)
    computed = [_named("output", named[1], "y", i, a) for i, a in enumerate(outputs or ())]
    gradient_buffers = [_named("gradient", tuple(f"d{n}" for n in named[1]), "dy", i, a) for i, a in enumerate(grads)]
    gradients = operator.gradients(*inputs)
    labels = [f"gradient {s.name if s is not None else i}" for i, s in enumerate(gradients)]
    written = [_Buffer(label, s, patterns=_WRITTEN) for label, s in zip(labels, gradients, strict=True)]
    n, m = len(gradient_buffers), len(gradient_buffers) + len(read)

    def call(r: list[np.ndarray | None], w: list[np.ndarray | None]) -> None:
        operator.backward_into(w, r[:n], r[n:m], [a for a in r[m:] if a is not None], attributes)

    return [*gradient_buffers, *read, *computed], written, call


def _named(kind: str, names: Sequence[str], short: str, index: int, array: np.ndarray | None) -> _Buffer:
    name = names[index] if index < len(names) else f"{short}{index}"
    return _Buffer(f"{kind} {name}", None if array is None else spec_of(array, name), array)


def _renamed(spec: TensorSpec, name: str) -> TensorSpec:
    return TensorSpec(name, spec.shape, spec.dtype)


def _run(
    call: _Call,
    read: Sequence[_Buffer],
    written: Sequence[_Buffer],
    *,
    around: Collection[str] = (),
    within: int = _NANS,
) -> tuple[list[Trespass], list[bytes]]:
    """Call it once: what it trespassed on, and its results. Buffers in ``around`` have the other pattern around them."""

    def guarded(buffer: _Buffer) -> Guarded | None:
        pattern = buffer.patterns[buffer.name in around]
        spec = buffer.spec
        return None if spec is None else Guarded(buffer.name, spec, buffer.contents, pattern, within)

    inputs, outputs = list(map(guarded, read)), list(map(guarded, written))
    call([None if g is None else g.array for g in inputs], [None if g is None else g.array for g in outputs])
    results = [g.contents for g in outputs if g is not None]
    return [t for g in (*outputs, *inputs) if g is not None for t in g.trespasses()], results
