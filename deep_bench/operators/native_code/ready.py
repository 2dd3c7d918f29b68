"""A call with arrays in it: those that it was last given, and those for its results.

The latter are fresh as far as anyone can tell: a NumPy array is used again only when nobody else holds it or a view of it.
Arrays of frameworks, whose views Python does not count, are made anew for each call.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from sys import getrefcount
from typing import Any

import numpy as np

from deep_bench.errors import InvalidInput
from deep_bench.framework import Device
from deep_bench.operators.argument import element_type
from deep_bench.operators.native_code.library import KernelFailed
from deep_bench.operators.native_code.signature import ArgumentSlot, NativeCall
from deep_bench.tensor import TensorSpec


def spec_of(array: Any, name: str) -> TensorSpec:
    """An array's shape and element type."""
    if isinstance(array, np.ndarray):
        return TensorSpec(name, array.shape, array.dtype)
    dtype = getattr(array, "dtype", None)
    if dtype is None:
        raise InvalidInput(f"the input {name} is a {type(array).__name__}", "an array of the operator's device, or None")
    named = getattr(dtype, "name", None) or str(dtype).rpartition(".")[2]
    return TensorSpec(name, tuple(map(int, array.shape)), element_type(named))


def usable(array: Any) -> Any:
    """The array, or a copy of it where it is not contiguous or not aligned."""
    if not isinstance(array, np.ndarray):
        return array.contiguous() if hasattr(array, "contiguous") else array
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def empty_like(template: Any) -> Any:
    """A new array of its framework's, on its device; its contents are anything."""
    if isinstance(template, np.ndarray):
        return np.empty_like(template)
    framework = sys.modules[type(template).__module__.partition(".")[0]]
    make = getattr(framework, "empty_like", None) or framework.zeros_like
    return make(template)


def address(array: Any) -> int:
    """Where an array's first element is. A framework's array that does not say is looked at through DLPack."""
    if isinstance(array, np.ndarray):
        return array.ctypes.data
    if hasattr(array, "data_ptr"):
        return int(array.data_ptr())
    return np.from_dlpack(array).ctypes.data


Place = Callable[[Any], Any]
"""Where an array is, as a call wants it."""


Judge = Callable[[Any], None]
"""Raises if what a function returned says that it failed."""


class SingleOutput:
    """One NumPy array: two take turns where the caller holds the last result while it asks for the next.

    Args:
        template: An array like it.
        call: The function.
        judge: For what it returns; ``None`` where it never says that it failed.
        place: Where an array is.
    """

    __slots__ = ("_alone", "_array", "_invoke", "_judge", "_other", "_other_where", "_place", "_slots", "_where")

    def __init__(self, template: np.ndarray, call: NativeCall, judge: Judge | None, place: Place) -> None:
        self._invoke, self._judge, self._place = call.invoke, judge, place
        self._slots = call.written[0]
        self._array, self._other = np.empty_like(template), np.empty_like(template)
        self._where, self._other_where = place(self._array), place(self._other)
        self._alone = self._references()
        self.aim()

    def call(self) -> Any:
        """The result of one call, in an array that nobody else holds."""
        array = self._array
        if getrefcount(array) > self._alone:
            spare = self._other
            if getrefcount(spare) > self._alone:
                spare = self._another()
            self._array, self._other, array = spare, array, spare
            where = self._other_where
            self._where, self._other_where = where, self._where
            for slot in self._slots:
                slot.value = where
        returned = self._invoke()
        if self._judge is not None:
            self._judge(returned)
        return array

    def aim(self) -> np.ndarray:
        """Point the function at the array that it last filled."""
        for slot in self._slots:
            slot.value = self._where
        return self._array

    def reused(self) -> tuple[np.ndarray, ...]:
        """The arrays that will be used again."""
        return (self._array, self._other)

    def _another(self) -> np.ndarray:
        """A new array instead of the other one."""
        array = np.empty_like(self._array)
        self._other_where = self._place(array)
        return array

    def _references(self) -> int:
        """How many references an array has that nobody else holds, counted as ``call`` counts them."""
        array = self._array
        return getrefcount(array)


class SeveralOutputs:
    """Any number of arrays of any framework; ``None`` for those that the function does not give.

    Args:
        make: Makes each array.
        call: The function.
        judge: For what it returns; ``None`` where it never says that it failed.
        place: Where an array is.
    """

    def __init__(
        self, make: Sequence[Callable[[], Any] | None], call: NativeCall, judge: Judge | None, place: Place
    ) -> None:
        self._make, self._call, self._judge, self._place = make, call, judge, place
        self._plain = len(make) == 1 and make[0] is not None
        self._arrays = self._new()

    def call(self) -> Any:
        """The results of one call, in new arrays: a tuple of them unless there is one."""
        self._arrays = self._new()
        results = self.aim()
        returned = self._call.invoke()
        if self._judge is not None:
            self._judge(returned)
        return results

    def aim(self) -> Any:
        """Point the function at the arrays that it last filled."""
        point_slots(self._arrays, self._call.written, self._place)
        return self._arrays[0] if self._plain else self._arrays

    def reused(self) -> tuple[np.ndarray, ...]:
        """The arrays that will be used again: none."""
        return ()

    def _new(self) -> tuple[Any, ...]:
        return tuple(None if make is None else make() for make in self._make)


def point_slots(arrays: Sequence[Any], slots: Sequence[Sequence[ArgumentSlot]], place: Place) -> None:
    """Point a function at arrays for what it gives, ``None`` where it gives nothing."""
    for array, several in zip(arrays, slots, strict=True):
        if array is not None:
            where = place(array)
            for slot in several:
                slot.value = where


Specs = tuple[TensorSpec | None, ...]

_NOTHING = object()
"""Is no array."""


class ReadyCall:
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
        call: NativeCall,
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
        self._outputs: SingleOutput | SeveralOutputs
        if len(written) == 1 and isinstance(templates[0], np.ndarray):
            self._outputs = SingleOutput(templates[0], call, judge, place)
        else:
            make = [None if t is None else partial(empty_like, t) for t in templates]
            self._outputs = SeveralOutputs(make, call, judge, place)
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
            point_slots(outputs, self._call.written, self._place)
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
