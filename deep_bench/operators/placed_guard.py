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

    def given(self, groups: Groups) -> tuple[tuple[Any, ...], ...]:
        """The arguments, NumPy's read-only; copies where no arrays of such shapes were seen before."""
        key = tuple(tuple(_form(x) for x in group) for group in groups)
        known = key in self._seen
        self._seen.add(key)
        return tuple(tuple(_read_only(x if known else _copied(x)) for x in group) for group in groups)

    def changed(self, groups: Groups, given: Groups) -> tuple[int, int] | None:
        """The group and the place of the first argument of which a copy was given that is no longer like it."""
        for g, (group, copies) in enumerate(zip(groups, given, strict=True)):
            for i, (x, copy) in enumerate(zip(group, copies, strict=True)):
                if _writable(x) and not _alias(x, copy) and not equal(self._read(x), self._read(copy)):
                    return g, i
        return None

    def _read(self, x: Any) -> np.ndarray:
        return x if isinstance(x, np.ndarray) else np.asarray(self._to_numpy(x))


def _writable(x: Any) -> bool:
    return isinstance(x, np.ndarray) or hasattr(x, "clone")


def _form(x: Any) -> Any:
    return (x.shape, x.dtype) if _writable(x) else None


def _copied(x: Any) -> Any:
    return np.array(x) if isinstance(x, np.ndarray) else x.clone() if _writable(x) else x


def _read_only(x: Any) -> Any:
    if not isinstance(x, np.ndarray) or not x.flags.writeable:
        return x
    view = x.view()
    view.flags.writeable = False
    return view


def _alias(x: Any, given: Any) -> bool:
    """Whether what was given is no copy."""
    return given is x or (isinstance(x, np.ndarray) and (given.base is x or given.base is x.base is not None))
