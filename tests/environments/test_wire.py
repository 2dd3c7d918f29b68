"""Messages between environments: what goes in comes out, and what was not made by the other end is refused."""

from __future__ import annotations

import array
import json
import os
import resource
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from deep_bench.errors import (
    DeepBenchError,
    InvalidInput,
    UnknownName,
    Unsupported,
    UnsupportedOperator,
    WorkerError,
)
from deep_bench.fault import Exposure
from deep_bench.framework import Forms
from deep_bench.measure.timing import WarmUp, sample_block
from deep_bench.workers.wire import MAGIC, SHARED_FROM_BYTES, ForeignObject, Wire

Ends = tuple[Wire, Wire]


@pytest.fixture
def ends() -> Iterator[Ends]:
    one, other = (Wire(end) for end in socket.socketpair())
    yield one, other
    one.close()
    other.close()


def sent(ends: Ends, value: Any) -> Any:
    """A value as it comes out of the other end."""
    encoded = ends[0].encode(value)
    sender = threading.Thread(target=ends[0].write, args=(encoded,))
    sender.start()
    found = ends[1].decode(ends[1].read())
    sender.join()
    return found


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -(2**70),
        1.5,
        float("inf"),
        "ö\n",
        b"\0\xff",
        [1, [2.5, None]],
        (1, (b"",)),
        {"a": {"b": (1,)}, "": 0},
        {1: "a", (2, 3): b"x"},
        {"$": "array"},
    ],
    ids=repr,
)
def test_plain_data_stay_what_they_are(ends: Ends, value: Any) -> None:
    found = sent(ends, value)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "U3", "O"])
@pytest.mark.parametrize("shape", [(), (0, 3), (2, 3), (200, 300)], ids=str)
def test_arrays_keep_element_type_shape_and_contents(ends: Ends, dtype: str, shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).integers(0, 100, shape)
    value = numbers.astype(str).astype(dtype) if dtype in ("U3", "O") else numbers.astype(dtype)
    found = sent(ends, {"x": value})["x"]
    assert found.dtype == value.dtype
    assert found.shape == value.shape
    assert np.array_equal(found, value)
    assert found.flags.writeable


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4])
def test_narrow_element_types_go_through(ends: Ends, dtype: Any) -> None:
    value = np.arange(7).astype(dtype)
    found = sent(ends, value)
    assert found.dtype == dtype
    assert found.tobytes() == value.tobytes()


def test_views_big_endian_arrays_and_scalars(ends: Ends) -> None:
    square = np.arange(16.0).reshape(4, 4)
    turned, big, number = sent(ends, [square.T[::2], np.arange(3, dtype=">i4"), np.float32(0.1)])
    assert np.array_equal(turned, square.T[::2])
    assert big.tolist() == [0, 1, 2]
    assert type(number) is np.float32
    assert number == np.float32(0.1)


def test_results_of_a_worker_go_through(ends: Ends) -> None:
    block = sample_block(lambda: None, lambda: None, min_ns=0, min_calls=10, cpu_time=True, resumed=True)
    forms = Forms(("a",), (), {"b": "strings"})
    exposure, warm = Exposure("slow", "fails", "why", ("n",)), WarmUp(True, 1, 2, 3, (1.0,), 1, "steady")
    found = sent(ends, {"block": block, "forms": forms, "exposures": [exposure], "warm": warm})
    assert found["forms"] == forms
    assert found["exposures"] == [exposure]
    assert found["warm"] == warm
    assert np.array_equal(found["block"].ns, block.ns)
    assert found["block"].batch == block.batch


def test_who_cannot_import_a_class_names_it(ends: Ends) -> None:
    assert sent(ends, ForeignObject("Forms", {"native": ("a",)})) == Forms(("a",))


def test_large_arrays_leave_nothing_in_shared_memory(ends: Ends) -> None:
    before, descriptors = set(Path("/dev/shm").iterdir()), len(os.listdir("/proc/self/fd"))
    value = np.ones(SHARED_FROM_BYTES, np.float64)
    assert isinstance(ends[0].encode(np.ones(4))[1], bytes)
    encoded = ends[0].encode(value)
    assert isinstance(encoded[1], int)
    assert set(Path("/dev/shm").iterdir()) == before
    ends[0].write(encoded)
    assert np.array_equal(ends[1].decode(ends[1].read()), value)
    assert len(os.listdir("/proc/self/fd")) == descriptors


def test_shared_memory_that_is_full_is_told(ends: Ends) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    descriptors = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, hard))
    try:
        with pytest.raises(WorkerError, match="no shared memory for 8388608 bytes of arrays"):
            ends[0].encode(np.ones(2**20))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.parametrize(
    "value",
    [print, object(), Path("/"), np.array([None]), np.array(["2020"], "datetime64[Y]")],
    ids=["function", "object", "path", "objects", "dates"],
)
def test_what_is_no_plain_data_is_refused(ends: Ends, value: Any) -> None:
    with pytest.raises(Unsupported, match="another environment"):
        ends[0].encode({"a": [value]})


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("came", "expected", "advice"),
        UnknownName("framework", "torhc", ["torch"]),
        UnsupportedOperator("n", "Relu", 13, "because"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_our_errors_come_back_as_they_were(ends: Ends, error: DeepBenchError) -> None:
    found = ends[1].original(sent(ends, ends[0].error(error)))
    assert type(found) is type(error)
    assert str(found) == str(error)


def test_errors_of_other_classes_keep_their_text(ends: Ends) -> None:
    class Own(DeepBenchError):
        pass

    found = ends[1].original(sent(ends, ends[0].error(Own("came", "expected", "advice"))))
    assert type(found) is DeepBenchError
    assert found.advice == "advice"
    assert ends[0].error(ValueError()) is None
    assert ends[1].original({"kind": "Registry", "arguments": []}) is None
    assert ends[1].original({"kind": "InvalidInput"}) is None


# What a stranger may send

TREES = {
    "a class that is not listed": {"$": "Popen", "fields": {"args": "touch x"}},
    "bytes beyond the body": {"$": "bytes", "at": [0, 99]},
    "bytes before the body": {"$": "bytes", "at": [-4, 8]},
    "more elements than bytes": {"$": "array", "dtype": "float32", "shape": [9], "scalar": False, "at": [0, 4]},
    "a negative size": {"$": "array", "dtype": "float32", "shape": [-1, -1], "scalar": False, "at": [0, 4]},
    "an element type that is none": {"$": "array", "dtype": "O8", "shape": [1], "scalar": False, "at": [0, 8]},
    "objects": {"$": "array", "dtype": "object", "shape": [1], "scalar": False, "at": [0, 8]},
    "strings that are missing": {"$": "array", "dtype": "O", "shape": [3], "scalar": False, "items": []},
    "an array without a shape": {"$": "array", "dtype": "float32"},
    "fields that the class has not": {"$": "Forms", "fields": {"x": 1}},
}


@pytest.mark.parametrize("name", TREES)
def test_trees_that_lie_are_refused(ends: Ends, name: str) -> None:
    with pytest.raises((WorkerError, InvalidInput)):
        ends[0].decode((json.dumps(TREES[name]).encode(), bytes(16)))


@pytest.mark.parametrize("header", [b"{", b"\xff", b"[" * 100_000], ids=["cut", "bytes", "deep"])
def test_headers_that_are_no_json_are_refused(ends: Ends, header: bytes) -> None:
    with pytest.raises(WorkerError, match="cannot be read"):
        ends[0].decode((header, b""))


@pytest.mark.parametrize(
    ("prefix", "words"),
    [
        (b"HELLO WORLD, I AM", "a message of another environment"),
        (MAGIC + b"\xff\xff\xff\xff" + bytes(9), "a message of another environment"),
        (MAGIC + bytes(4) + b"\xff" * 8 + b"\0", "a message of another environment"),
        (MAGIC + bytes(4) + bytes(7) + b"\1" + b"\1", "a message of another environment"),
    ],
    ids=["no magic", "long header", "long body", "shared without memory"],
)
def test_prefixes_that_are_none_are_refused(prefix: bytes, words: str) -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(prefix)
        wire = Wire(ours)
        with pytest.raises(WorkerError, match=words):
            wire.read()
        wire.close()


def test_memory_that_is_smaller_than_announced_is_refused() -> None:
    ours, theirs = socket.socketpair()
    memory = os.memfd_create("short")
    os.truncate(memory, 10)
    prefix = MAGIC + (2).to_bytes(4) + (2**20).to_bytes(8) + b"\1"
    with theirs:
        theirs.sendmsg([prefix + b"[]"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [memory]))])
        os.close(memory)
        wire = Wire(ours)
        with pytest.raises(WorkerError, match="shared memory of 10 bytes"):
            wire.read()
        wire.close()


def test_an_end_that_closes_is_an_end() -> None:
    ours, theirs = socket.socketpair()
    theirs.sendall(MAGIC)
    theirs.close()
    wire = Wire(ours)
    with pytest.raises(EOFError):
        wire.read()
    wire.close()
