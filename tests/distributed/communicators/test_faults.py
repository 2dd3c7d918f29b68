"""Communicators that are wrong on purpose: the suite finds each of them."""

import numpy as np
import pytest

from deep_bench.distributed import ANY, Received
from deep_bench.distributed.communicators.communicator import Communicator, CompletedRequest, Request
from deep_bench.testing.communicators import check_in_threads


class Wrong(Communicator):
    """Does all by another communicator's messages; subclasses do something wrong."""

    name = "wrong"

    def __init__(self, inner):
        self.inner, self.rank, self.size = inner, inner.rank, inner.size

    def isend(self, x, to, tag=0):
        return self.inner.isend(x, to, tag)

    def irecv(self, out, source=ANY, tag=0):
        return self.inner.irecv(out, source, tag)

    def split(self, color, key=0):
        group = self.inner.split(color, key)
        return None if group is None else type(self)(group)


class DropsRank0(Wrong):
    def reduce(self, x, op="sum", root=0):
        rows = self.gather(x, root)
        return None if rows is None else super().reduce(x, op, root) if len(rows) == 1 else _of(op)(rows[1:])


def _of(op):
    functions = {"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum}
    return lambda rows: functions[op].reduce(rows, axis=0, dtype=rows.dtype)


class SumForMax(Wrong):
    def allreduce(self, x, op="sum", out=None):
        return super().allreduce(x, "sum" if op == "max" else op, out)


class MeanForSum(Wrong):
    def allreduce(self, x, op="sum", out=None):
        total = super().allreduce(x, op)
        total = (total / self.size).astype(total.dtype) if op == "sum" else total
        if out is None:
            return total
        out[...] = total.reshape(out.shape)
        return out


class WrongOrder(Wrong):
    def allgather(self, x, counts=None, out=None):
        rows = super().allgather(x, counts, out)
        if counts is None:
            rows[...] = rows[::-1].copy()
        return rows


class StaleOut(Wrong):
    """Gives the same array for each result of one shape, as one that reuses its buffers would."""

    def allreduce(self, x, op="sum", out=None):
        if out is not None:
            return super().allreduce(x, op, out)
        kept = self.__dict__.setdefault("kept", {}).setdefault((x.shape, x.dtype), np.empty_like(x))
        return super().allreduce(x, op, kept)


class OutForgotten(Wrong):
    def allreduce(self, x, op="sum", out=None):
        return super().allreduce(x, op, None)


class RemembersContents(Wrong):
    """Sends again what the same array held the first time."""

    def allreduce(self, x, op="sum", out=None):
        kept = self.__dict__.setdefault("kept", {}).setdefault(id(x), (x, x.copy()))[1]
        return super().allreduce(kept, op, out)


class ChangesInput(Wrong):
    def allreduce(self, x, op="sum", out=None):
        result = super().allreduce(x, op, out)
        x[...] = result.reshape(x.shape)
        return result


class WiderSums(Wrong):
    def reduce(self, x, op="sum", root=0):
        rows = self.gather(x, root)
        return None if rows is None else np.add.reduce(rows.astype(np.float64), axis=0) if op == "sum" else _of(op)(rows)


class CountsFromTheStart(Wrong):
    def reduce_scatter(self, x, counts=None, op="sum", out=None):
        if counts is None:
            return super().reduce_scatter(x, counts, op, out)
        return self.allreduce(x, op)[: counts[self.rank]]


class Transposed(Wrong):
    def alltoall(self, x, out=None):
        super().alltoall(x, out)
        return x.copy() if out is None else out


class ForgetsTags(Wrong):
    def isend(self, x, to, tag=0):
        return super().isend(x, to, min(tag, 1))

    def irecv(self, out, source=ANY, tag=0):
        return super().irecv(out, source, min(tag, 1))


class WrongSource(Wrong):
    def recv(self, out, source=ANY, tag=0):
        came = super().recv(out, source, tag)
        return Received(0, came.tag, came.elements)


class FullLength(Wrong):
    def recv(self, out, source=ANY, tag=0):
        came = super().recv(out, source, tag)
        return Received(came.source, came.tag, out.size)


class IgnoresKey(Wrong):
    def split(self, color, key=0):
        return super().split(color, 0)


class NeverSplits(Wrong):
    def split(self, color, key=0):
        return type(self)(self.inner)


class NothingBegun(Wrong):
    def iallreduce(self, x, out, op="sum"):
        return CompletedRequest()


class AtOnceOnly(Wrong):
    """Says that a receive is done before it is."""

    def irecv(self, out, source=ANY, tag=0):
        begun = super().irecv(out, source, tag)

        class Early(Request):
            def wait(self):
                return begun.wait() if not self.asked else Received(source, tag, out.size)

            def test(self):
                self.asked = True
                return True

            asked = False

        return Early()


class AcceptsAnything(Wrong):
    def isend(self, x, to, tag=0):
        return super().isend(x, to % self.size, max(tag, 0))


class CutsWrongly(Wrong):
    def allreduce(self, x, op="sum", out=None):
        result = super().allreduce(x, op, out)
        if x.size > self.largest:
            result.flat[self.largest] = x.flat[self.largest]
        return result


FAULTS = [kind for kind in list(vars().values()) if isinstance(kind, type) and issubclass(kind, Wrong) and kind is not Wrong]


def test_without_a_fault_nothing_is_found():
    assert check_in_threads(Wrong, 3) == {}


@pytest.mark.long
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_every_fault_is_found(kind):
    found = check_in_threads(kind, 3)
    assert found, f"{kind.__name__} passes"
