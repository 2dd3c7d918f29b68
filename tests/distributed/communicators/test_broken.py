"""Communicators that are broken in one way: the suite finds each."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deep_bench.distributed.communicators.communicator import Communicator, Request
from deep_bench.testing.communicators import check_in_threads


class Passing(Communicator):
    """Hands messages on, as they are."""

    name = "passing"

    def __init__(self, comm: Communicator) -> None:
        self.inner, self.rank, self.size = comm, comm.rank, comm.size

    def isend(self, x: np.ndarray, to: int, tag: int = 0) -> Request:
        return self.inner.isend(self.sent(x), to, tag)

    def irecv(self, out: np.ndarray, source: int = -1, tag: int = 0) -> Request:
        return self.inner.irecv(out, source, tag)

    def split(self, color: int | None, key: int = 0) -> Any:
        made = self.inner.split(color, key)
        return None if made is None else type(self)(made)

    def sent(self, x: np.ndarray) -> np.ndarray:
        return x


class Narrow(Passing):
    """Sends numbers of eight bytes in four."""

    def sent(self, x: np.ndarray) -> np.ndarray:
        narrow = {"float64": "float32", "int64": "int32", "uint64": "uint32"}.get(x.dtype.name)
        with np.errstate(all="ignore"):
            return x if narrow is None else x.astype(narrow).astype(x.dtype)


class NoNan(Passing):
    """Makes numbers of what is none."""

    def sent(self, x: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(x), np.zeros(1, x.dtype), x) if x.dtype == ml_dtypes.bfloat16 else x


class NoZeroSign(Passing):
    """Loses the sign of zeros."""

    def sent(self, x: np.ndarray) -> np.ndarray:
        return x + np.zeros(1, x.dtype) if x.dtype == np.float16 else x


class NoBarrier(Passing):
    """Waits for nobody."""

    def barrier(self) -> None:
        pass


@pytest.mark.parametrize(
    ("broken", "check"),
    [
        (Narrow, "keeps_every_bit"),
        (NoNan, "keeps_every_bit"),
        (NoZeroSign, "keeps_every_bit"),
        (NoBarrier, "waits_for_everyone"),
    ],
)
def test_each_is_found(broken: Any, check: str) -> None:
    checks = ["keeps_every_bit", "waits_for_everyone"]
    assert check_in_threads(Passing, 3, checks) == {}
    assert list(check_in_threads(broken, 3, checks)) == [check]
