"""Communicators that are wrong where few look: in the last bit, in large arrays, in distant tags. The suite finds each."""

import ml_dtypes
import numpy as np
import pytest

from deep_bench.distributed import ANY
from deep_bench.distributed.communicators.communicator import Communicator, check_reduction, reduced, written
from deep_bench.testing.communicators import check_in_threads

CHECKS = (
    "gathers_different_lengths",
    "takes_arrays_without_dimensions",
    "tells_distant_tags_apart",
    "keeps_every_bit",
    "sums_every_bit",
    "picks_and_multiplies_every_bit",
    "rounds_to_nearest",
    "keeps_what_is_not_finite",
    "agrees_bit_by_bit",
    "carries_middling_arrays",
    "carries_large_arrays",
)


class Whole(Communicator):
    """Does all by another communicator's messages. Subclasses change what is sent, or what comes of a sum."""

    name = "whole"

    def __init__(self, inner):
        self.inner, self.rank, self.size = inner, inner.rank, inner.size

    def isend(self, x, to, tag=0):
        return self.inner.isend(self.sent(x), to, tag)

    def irecv(self, out, source=ANY, tag=0):
        return self.inner.irecv(out, source, tag)

    def split(self, color, key=0):
        group = self.inner.split(color, key)
        return None if group is None else type(self)(group)

    def sent(self, x):
        return x

    # Reductions, each of which a subclass may be wrong in

    wrong_in = ("allreduce", "reduce", "reduce_scatter")

    def allreduce(self, x, op="sum", out=None):
        return written(self.changed(super().allreduce(x, op), x, op, "allreduce"), out)

    def reduce(self, x, op="sum", root=0):
        check_reduction(op)
        rows = self.gather(x, root)
        return None if rows is None else self.changed(reduced(op, list(rows)), x, op, "reduce")

    def reduce_scatter(self, x, counts=None, op="sum", out=None):
        return written(self.changed(super().reduce_scatter(x, counts, op), x, op, "reduce_scatter"), out)

    def changed(self, total, x, op, operation):
        return self.wrong(total, op) if operation in self.wrong_in else total

    def wrong(self, total, op):
        return total


def through(total, **narrower):
    """A result that went through narrower types."""
    narrow = narrower.get(total.dtype.name)
    with np.errstate(all="ignore"):
        return total if narrow is None else total.astype(narrow).astype(total.dtype)


class Float64InFloat32(Whole):
    def wrong(self, total, op):
        return through(total, float64="float32")


class Float64InFloat16(Whole):
    def wrong(self, total, op):
        return through(total, float64="float16")


class Float32InBfloat16(Whole):
    def wrong(self, total, op):
        return through(total, float32=ml_dtypes.bfloat16)


class Int64InInt32(Whole):
    def wrong(self, total, op):
        return through(total, int64="int32", uint64="uint32")


class Int64InFloat64(Whole):
    def wrong(self, total, op):
        return through(total, int64="float64")


class Complex128InComplex64(Whole):
    def wrong(self, total, op):
        return through(total, complex128="complex64")


class DenormalSumsFlushed(Whole):
    def wrong(self, total, op):
        if total.dtype.kind in "f":
            total[np.abs(total) < np.finfo(total.dtype).tiny] = 0
        return total


class NanLost(Whole):
    def wrong(self, total, op):
        if total.dtype.kind == "f":
            total[np.isnan(total)] = 0
        return total


class TooLargeIsTheLargest(Whole):
    def wrong(self, total, op):
        return np.nan_to_num(total, nan=np.nan) if total.dtype.kind == "f" else total


class LastElementOfLongArraysIsZero(Whole):
    def wrong(self, total, op):
        if total.size > 100_000:
            total.flat[-1] = 0
        return total


class LargeInFloat32(Whole):
    def wrong(self, total, op):
        return through(total, complex128="complex64", int64="float32") if total.size > 1000 else total


class OtherOnEachRank(Whole):
    """Begins the sum with its own numbers."""

    wrong_in = ()

    def allreduce(self, x, op="sum", out=None):
        rows = np.roll(self.allgather(x), -self.rank, axis=0)
        return written(reduced(op, list(rows)), out)


def cut_off(x, bits):
    """Two-byte floats' float32 results without their last bits."""
    return (x.astype(np.float32).view(np.uint32) >> np.uint32(bits) << np.uint32(bits)).view(np.float32)


class Truncated(Whole):
    """Sums two-byte floats in float32, and cuts the rest off."""

    wrong_in = ()

    def allreduce(self, x, op="sum", out=None):
        bits = {"bfloat16": 16, "float16": 13}.get(x.dtype.name)
        if bits is None or op != "sum":
            return super().allreduce(x, op, out)
        total = super().allreduce(x.astype(np.float32), op)
        with np.errstate(all="ignore"):
            return written(np.where(np.isfinite(total), cut_off(total, bits), total).astype(x.dtype), out)


class TagsIn8Bits(Whole):
    bits = 8

    def isend(self, x, to, tag=0):
        return super().isend(x, to, tag % 2**self.bits if tag >= 0 else tag)

    def irecv(self, out, source=ANY, tag=0):
        return super().irecv(out, source, tag % 2**self.bits if tag >= 0 else tag)


class TagsIn16Bits(TagsIn8Bits):
    bits = 16


class TagsIn20Bits(TagsIn8Bits):
    """Tags of users are those of its operations."""

    bits = 20


class EqualCountsRotated(Whole):
    def allgather(self, x, counts=None, out=None):
        found = super().allgather(x, counts)
        if counts is not None and len(set(counts)) == 1:
            found = np.roll(found, x.size)
        return written(found, out)


class EqualCountsScatteredInReverse(Whole):
    def reduce_scatter(self, x, counts=None, op="sum", out=None):
        if counts is not None and len(set(counts)) == 1 and sum(counts) == x.size:
            x = x.reshape(self.size, -1)[::-1].reshape(-1)
        return super().reduce_scatter(x, counts, op, out)


class LosesTheLastElement(Whole):
    """Of messages that are too long for one packet."""

    packet = 2**16

    def sent(self, x):
        if x.nbytes <= self.packet:
            return x
        x = np.array(x)
        x.flat[-1] = 0
        return x


class LosesTheLastElementOf4MiB(LosesTheLastElement):
    packet = 2**22


class LosesWhatIsDenormal(Whole):
    def sent(self, x):
        return np.where(np.abs(x) < np.finfo(x.dtype).tiny, x * 0, x) if x.dtype.kind == "f" else x


class LosesBitsOfNan(Whole):
    def sent(self, x):
        return np.where(np.isnan(x), np.nan, x).astype(x.dtype) if x.dtype.kind == "f" else x


class NarrowExtremes(Whole):
    """Wrong in the smallest and largest, on the root only."""

    wrong_in = ("reduce",)

    def wrong(self, total, op):
        return through(total, float64="float32", int64="float64") if op in ("min", "max") else total


class ScalarsForArrays(Whole):
    wrong_in = ("allreduce",)

    def wrong(self, total, op):
        return total[()]


FAULTS = [kind for kind in list(vars().values()) if isinstance(kind, type) and issubclass(kind, Whole) and kind is not Whole]
IN_ONE = ("Float64InFloat32", "Float64InFloat16", "Int64InInt32")


def test_without_a_fault_nothing_is_found():
    assert check_in_threads(Whole, 3) == {}


@pytest.mark.long
@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.__name__)
def test_every_fault_is_found(kind):
    assert check_in_threads(kind, 3, CHECKS), f"{kind.__name__} passes"


@pytest.mark.parametrize("operation", Whole.wrong_in)
@pytest.mark.parametrize("kind", [kind for kind in FAULTS if kind.__name__ in IN_ONE], ids=lambda kind: kind.__name__)
def test_a_fault_of_one_operation_is_found_and_named(kind, operation):
    alone = type(kind.__name__, (kind,), {"wrong_in": (operation,)})
    found = check_in_threads(alone, 3, ["sums_every_bit"])
    assert operation in found["sums_every_bit"]
