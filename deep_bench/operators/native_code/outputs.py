"""The arrays for what a call gives.

They are fresh as far as anyone can tell: a NumPy array is used again only when nobody else holds it or a view of it.
Arrays of frameworks, whose views Python does not count, are made anew for each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from deep_bench.operators.native_code.call import Call, Slot

Place = Callable[[Any], Any]
"""Where an array is, as a call wants it."""

Judge = Callable[[Any], None]
"""Raises if what a function returned says that it failed."""


class Single:
    """One NumPy array: two take turns where the caller holds the last result while it asks for the next.

    Args:
        template: An array like it.
        call: The function.
        judge: For what it returns; ``None`` where it never says that it failed.
        place: Where an array is.
    """

    __slots__ = ("_alone", "_array", "_invoke", "_judge", "_other", "_other_where", "_place", "_slots", "_where")

    def __init__(self, template: np.ndarray, call: Call, judge: Judge | None, place: Place) -> None:
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


class Several:
    """Any number of arrays of any framework; ``None`` for those that the function does not give.

    Args:
        make: Makes each array.
        call: The function.
        judge: For what it returns; ``None`` where it never says that it failed.
        place: Where an array is.
    """

    def __init__(self, make: Sequence[Callable[[], Any] | None], call: Call, judge: Judge | None, place: Place) -> None:
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
        point(self._arrays, self._call.written, self._place)
        return self._arrays[0] if self._plain else self._arrays

    def reused(self) -> tuple[np.ndarray, ...]:
        """The arrays that will be used again: none."""
        return ()

    def _new(self) -> tuple[Any, ...]:
        return tuple(None if make is None else make() for make in self._make)


def point(arrays: Sequence[Any], slots: Sequence[Sequence[Slot]], place: Place) -> None:
    """Point a function at arrays for what it gives, ``None`` where it gives nothing."""
    for array, several in zip(arrays, slots, strict=True):
        if array is not None:
            where = place(array)
            for slot in several:
                slot.value = where
