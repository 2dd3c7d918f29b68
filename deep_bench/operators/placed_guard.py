"""Arguments of kernels in a network that must stay as they are: others read the same memory.

NumPy arrays come read-only. Where nothing keeps a kernel from writing (native code, tensors of torch), it gets copies in its
first call with arrays of given shapes, and is refused if it changes these: no other array is touched then.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from deep_bench.operators.checks.native import equal

Groups = Sequence[Sequence[Any]]


class Guard:
    """What one kernel is given.

    Args:
        to_numpy: Reads an array of its device.
    """

    def __init__(self, to_numpy: Callable[[Any], np.ndarray]) -> None:
        self._to_numpy = to_numpy
        self._seen: set[Any] = set()

    def given(self, groups: Groups) -> tuple[tuple[tuple[Any, ...], ...], bool]:
        """The arguments, NumPy's read-only, and whether they are copies: no arrays of such shapes were seen before."""
        if _forms(groups) in self._seen:
            return tuple(tuple(map(_read_only, group)) for group in groups), False
        return tuple(tuple(_read_only(_copied(x)) for x in group) for group in groups), True

    def changed(self, groups: Groups, given: Groups) -> tuple[int, int] | None:
        """The group and the place of the first argument whose copy is no longer like it.

        Where there is none, arrays of such shapes are given themselves from now on.
        """
        for g, (group, copies) in enumerate(zip(groups, given, strict=True)):
            for i, (x, copy) in enumerate(zip(group, copies, strict=True)):
                if _writable(x) and not equal(self._read(x), self._read(copy)):
                    return g, i
        self._seen.add(_forms(groups))
        return None

    def _read(self, x: Any) -> np.ndarray:
        return x if isinstance(x, np.ndarray) else np.asarray(self._to_numpy(x))


def _writable(x: Any) -> bool:
    return isinstance(x, np.ndarray) or hasattr(x, "clone")


def _forms(groups: Groups) -> Any:
    return tuple(tuple((x.shape, x.dtype) if _writable(x) else None for x in group) for group in groups)


def _copied(x: Any) -> Any:
    return np.array(x) if isinstance(x, np.ndarray) else x.clone() if _writable(x) else x


def _read_only(x: Any) -> Any:
    if not isinstance(x, np.ndarray) or not x.flags.writeable:
        return x
    view = x.view()
    view.flags.writeable = False
    return view
