"""A call with arrays in it: those that it was last given, and those for its results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.framework import Device
from deep_bench.operators.native_code.arrays import empty_like, spec_of, usable
from deep_bench.operators.native_code.call import Call
from deep_bench.operators.native_code.errors import KernelFailed
from deep_bench.operators.native_code.outputs import Several, Single, point
from deep_bench.tensor import TensorSpec

Specs = tuple[TensorSpec | None, ...]

_NOTHING = object()
"""Is no array."""


class Ready:
    """A function that is ready for arrays of given shapes and element types.

    Args:
        call: The function.
        name: What to call it in messages.
        read: What it reads.
        written: What it gives, ``None`` for what it does not.
        place: Where an array is, as the call wants it.
        device: Where the arrays live.
        attributes: Those it was made for, as given.
        depends: Whether the shape of a result depends on the contents of what it reads.

    Attributes:
        held: The arrays that it was last given and reads themselves, something else instead of those that were copied.
        run: Calls the function on these; raises `KernelFailed` where that says that it failed.
    """

    def __init__(
        self,
        call: Call,
        name: str,
        read: Specs,
        written: Specs,
        *,
        place: Callable[[Any], Any],
        device: Device[Any],
        attributes: dict[str, Any],
        depends: bool,
    ) -> None:
        self.attributes = attributes
        self.held: tuple[Any, ...] = ()
        self._call, self._name, self._place = call, name, place
        self._read, self._written, self._depends = read, written, depends
        self._arrays: tuple[Any, ...] = ()
        self._used: list[tuple[Any, Any]] = [(None, None)] * len(read)
        templates = [None if spec is None else _template(device, spec) for spec in written]
        judge = None if call.failure is None else self._judge
        self._outputs: Single | Several
        if len(written) == 1 and isinstance(templates[0], np.ndarray):
            self._outputs = Single(templates[0], call, judge, place)
        else:
            make = [None if t is None else partial(empty_like, t) for t in templates]
            self._outputs = Several(make, call, judge, place)
        self.run: Callable[[], Any] = self._outputs.call

    def accept(self, arrays: tuple[Any, ...]) -> None:
        """Take these arrays as what is read from now on.

        Raises:
            InvalidInput: One is not as it was declared.
        """
        for array, spec in zip(arrays, self._read, strict=True):
            if spec is not None:
                self._check(array, spec)
        self._take(range(len(arrays)), arrays)

    def exchange(self, arrays: tuple[Any, ...]) -> bool:
        """Take these NumPy arrays, if they are just like those before; say whether they were."""
        held, read = self.held, self._read
        if len(arrays) != len(held):
            return False
        changed = [i for i, array in enumerate(arrays) if array is not held[i]]
        for i in changed:
            array, spec = arrays[i], read[i]
            if type(array) is not np.ndarray or spec is None:
                return False
            if array.shape != spec.shape or array.dtype != spec.dtype:
                return False
        self._take(changed, arrays)
        return True

    def run_into(self, outputs: Sequence[Any]) -> None:
        """Call the function on what was accepted, with these arrays for its results.

        Raises:
            InvalidInput: One is not as the result is.
            KernelFailed: It says that it failed.
        """
        if len(outputs) != len(self._written):
            raise InvalidInput(f"{len(outputs)} arrays for the results of {self._name}", f"{len(self._written)} arrays")
        for array, spec in zip(outputs, self._written, strict=True):
            if (array is None) != (spec is None):
                came = "nothing" if array is None else str(spec_of(array, "an array"))
                raise InvalidInput(f"{came} for a result of {self._name}", str(spec or "None, since it gives nothing there"))
            if spec is None:
                continue
            self._check(array, spec)
            if usable(array) is not array:
                raise InvalidInput(f"an array for {spec} that is not contiguous", "a contiguous, aligned array")
        try:
            point(outputs, self._call.written, self._place)
            returned = self._call.invoke()
        finally:
            self._outputs.aim()
        self._judge(returned)

    def bound(self) -> Callable[[], Any]:
        """A call without arguments, at the lowest cost: its results are the same arrays each time."""
        results = self._outputs.aim()
        arrays, invoke, judge = self._arrays, self._call.invoke, self._judge
        copied = [i for i, (used, _) in enumerate(self._used) if used is not arrays[i]]
        if copied:

            def call() -> Any:
                self._take(copied, arrays)
                judge(invoke())
                return results
        elif self._call.failure is None:

            def call() -> Any:
                invoke()
                return results
        else:

            def call() -> Any:
                judge(invoke())
                return results

        return call

    def poison(self) -> None:
        """Overwrite the arrays that hold earlier results and are used again, so that no result survives by chance."""
        for array in self._outputs.reused():
            array.reshape(-1).view(np.uint8)[...] = 0xFF

    def _judge(self, returned: Any) -> None:
        failure = self._call.failure
        if failure is not None and (text := failure(returned)) is not None:
            raise KernelFailed(f"{self._name} failed: {text}")

    def _take(self, indices: Iterable[int], arrays: tuple[Any, ...]) -> None:
        held = [*self.held] if self.held else [_NOTHING] * len(arrays)
        for i in indices:
            if self._read[i] is not None:
                used = usable(arrays[i])
                place = self._place(used)
                self._used[i] = (used, place)
                for slot in self._call.read[i]:
                    slot.value = place
                # What was copied must be copied again the next time, even where the array is the same.
                held[i] = arrays[i] if used is arrays[i] else _NOTHING
            else:
                held[i] = None
        self._arrays = arrays
        # Where the shape of a result hangs on the contents, being the same array says nothing.
        self.held = () if self._depends else tuple(held)

    def _check(self, array: Any, spec: TensorSpec) -> None:
        came = spec_of(array, spec.name)
        if came.shape != spec.shape or came.dtype != spec.dtype:
            raise InvalidInput(f"{came} for {self._name}", str(spec))


def _template(device: Device[Any], spec: TensorSpec) -> Any:
    return device.from_numpy(np.empty(tuple(int(d) for d in spec.shape), spec.dtype))
