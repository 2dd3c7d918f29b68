"""The systems of ``native_call_cost.py``: one function that does nothing, called in several ways."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from _side_by_side import TimedCall

import deep_bench as db

NOTHING = 'extern "C" void nothing(const float *a, const float *b, float *y, long n) {}\n'
NOTHING_TVM = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/function.h>
void nothing(tvm::ffi::TensorView a, tvm::ffi::TensorView b, tvm::ffi::TensorView y) {}
TVM_FFI_DLL_EXPORT_TYPED_FUNC(nothing, nothing);
"""


def operator(source: str = NOTHING) -> Any:
    """The function as an operator."""
    signature = "const float *a, const float *b, float *y, int64_t n = y.size" if source == NOTHING else None
    return db.operators.native(source, function="nothing", computes="Add", signature=signature)


def arrays() -> list[np.ndarray]:
    """Three arrays of 1,024 floats."""
    return [np.ones(1024, np.float32) for _ in range(3)]


def pointers_made_before() -> TimedCall:
    """The floor: ctypes with all of its arguments made before."""

    def make() -> Any:
        held = arrays()
        function = ctypes.CDLL(str(operator().built.path)).nothing
        function.restype = None
        a, b, y = (ctypes.c_void_p(x.ctypes.data) for x in held)
        n = ctypes.c_int64(1024)

        def call() -> Any:
            function(a, b, y, n)
            return held[2]

        return call

    return TimedCall(make)


def pointers_taken_each_time() -> TimedCall:
    """As it is usually written."""

    def make() -> Any:
        a, b, y = arrays()
        function = ctypes.CDLL(str(operator().built.path)).nothing
        pointer = ctypes.POINTER(ctypes.c_float)
        function.argtypes = [pointer, pointer, pointer, ctypes.c_int64]
        function.restype = None

        def call() -> Any:
            function(a.ctypes.data_as(pointer), b.ctypes.data_as(pointer), y.ctypes.data_as(pointer), ctypes.c_int64(y.size))
            return y

        return call

    return TimedCall(make)


def bound() -> TimedCall:
    """Arrays bound once, as an executor's."""
    return TimedCall(lambda: operator().bind(*arrays()[:2]))


def forward() -> TimedCall:
    """The operator's own method, its result let go."""
    return TimedCall(lambda: _forward(operator()))


def forward_kept() -> TimedCall:
    """The same, its result kept until the next call returns: two arrays take turns."""

    def make() -> Any:
        call, kept = _forward(operator()), [None]

        def keeping() -> None:
            kept[0] = call()

        return keeping

    return TimedCall(make)


def forward_other_inputs() -> TimedCall:
    """The same, with one other input each time."""

    def make() -> Any:
        made = operator().forward
        a, b, c = arrays()
        turns = [a, c]

        def call() -> Any:
            turns.reverse()
            return made(turns[0], b)

        return call

    return TimedCall(make)


def tvm_bound() -> TimedCall:
    """apache-tvm-ffi with arrays that were converted before."""
    return TimedCall(lambda: operator(NOTHING_TVM).bind(*arrays()[:2]))


def tvm_forward() -> TimedCall:
    """The operator's method through apache-tvm-ffi."""
    return TimedCall(lambda: _forward(operator(NOTHING_TVM)))


def numpy_add() -> TimedCall:
    """NumPy's addition into an array that is there: what a call of work this small costs anyway."""

    def make() -> Any:
        a, b, y = arrays()
        return lambda: np.add(a, b, out=y)

    return TimedCall(make)


def _forward(made: Any) -> Any:
    a, b, _ = arrays()
    function = made.forward
    return lambda: function(a, b)
