"""Native functions called through pointers: what they get, and what becomes of what they give."""

from __future__ import annotations

import ctypes
import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.operators.native_code.library import KernelFailed
from deep_bench.workers.process import Worker

ADD = """
extern "C" void add(const float *a, const float *b, float *y, long n) { for (long i = 0; i < n; ++i) y[i] = a[i] + b[i]; }
"""
ADDED = "const float *a, const float *b, float *y, int64_t n = y.size"
SCALED = """
#include <cstdint>
extern "C" void scaled(const float *x, float *y, int64_t n, float alpha) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] > 0 ? x[i] : alpha * x[i];
}
extern "C" void scaled_backward(const float *dy, const float *x, float *dx, int64_t n, float alpha) {
  for (int64_t i = 0; i < n; ++i) dx[i] = x[i] > 0 ? dy[i] : alpha * dy[i];
}
"""


def add(**options: Any) -> Any:
    return db.operators.native(ADD, function="add", computes="Add", signature=ADDED, **options)


def leaky(**options: Any) -> Any:
    return db.operators.native(
        SCALED,
        function="scaled",
        computes="LeakyRelu",
        signature="const float *x, float *y, int64_t n = x.size, float alpha",
        backward="scaled_backward",
        backward_signature="const float *dy, const float *x, float *dx, int64_t n = x.size, float alpha",
        **options,
    )


def ramp(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return (np.arange(np.prod(shape)) - 2).reshape(shape).astype(dtype)


def test_a_function_gets_pointers_and_sizes() -> None:
    a, b = ramp(3, 4), np.ones((3, 4), np.float32)
    result = add().forward(a, b)
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, a + b)


def test_shapes_may_change_from_call_to_call_and_back() -> None:
    operator = add()
    for shape in [(3,), (2, 5), (3,), (0, 4), (1,), (2, 5)]:
        np.testing.assert_array_equal(operator.forward(ramp(*shape), ramp(*shape)), 2 * ramp(*shape))


def test_other_arrays_of_the_same_shape_are_noticed() -> None:
    operator = add()
    first, second = ramp(5), ramp(5) * 3
    operator.forward(first, first)
    np.testing.assert_array_equal(operator.forward(first, second), first + second)
    np.testing.assert_array_equal(operator.forward(second, second), second + second)
    second[:] = 1
    np.testing.assert_array_equal(operator.forward(second, second), np.full(5, 2))


def test_what_is_not_contiguous_or_aligned_is_copied() -> None:
    whole = ramp(4, 6)
    memory = np.zeros(4 * 6 + 1, np.uint8)[1:]
    odd = memory.view(np.float32)
    odd[:] = ramp(6)
    assert not odd.flags.aligned
    np.testing.assert_array_equal(add().forward(whole.T, whole.T), 2 * whole.T)
    np.testing.assert_array_equal(add().forward(odd, odd), 2 * ramp(6))
    source = 'extern "C" void f(const float *x, float *y) { y[0] = (unsigned long)x % sizeof(float); }'
    remainder = db.operators.native(source, function="f", computes="Identity", signature="const float *x, float *y")
    assert remainder.forward(odd)[0] == 0
    np.testing.assert_array_equal(add().forward(whole[:, ::2], whole[:, ::2]), 2 * whole[:, ::2])


def test_what_is_copied_is_copied_for_each_call() -> None:
    whole, one = ramp(4, 6), np.ones((6, 4), np.float32)
    operator = add()
    call = operator.bind(whole.T, one)
    for value in (3, 4):
        view = whole.T
        whole[:] = value
        for _ in range(2):
            np.testing.assert_array_equal(operator.forward(view, one), np.full((6, 4), value + 1))
            np.testing.assert_array_equal(call(), np.full((6, 4), value + 1))
            whole[:] = value = value + 10


def test_read_only_inputs_are_taken_and_stay_as_they_are() -> None:
    x = ramp(5)
    x.flags.writeable = False
    np.testing.assert_array_equal(add().forward(x, x), 2 * ramp(5))
    np.testing.assert_array_equal(x, ramp(5))


def test_a_result_that_someone_holds_is_never_written_to_again() -> None:
    operator, one = add(), np.ones(4, np.float32)
    held = [operator.forward(ramp(4) * i, one) for i in range(5)]
    for i, result in enumerate(held):
        np.testing.assert_array_equal(result, ramp(4) * i + 1)


def test_a_view_of_a_result_holds_it() -> None:
    operator, one = add(), np.ones(4, np.float32)
    views = [operator.forward(ramp(4) * i, one)[1:] for i in range(5)]
    for i, view in enumerate(views):
        np.testing.assert_array_equal(view, (ramp(4) * i + 1)[1:])


def test_memory_is_used_again_when_nobody_holds_it() -> None:
    operator, x = add(), ramp(4)
    places = {operator.forward(x, x).ctypes.data for _ in range(20)}
    assert len(places) <= 2


def test_poison_overwrites_what_would_be_used_again() -> None:
    source = 'extern "C" void once(const float *x, float *y) { static int calls; if (calls++ == 0) y[0] = x[0]; }'
    operator = db.operators.native(source, function="once", computes="Identity", signature="const float *x, float *y")
    x = ramp(1)
    assert operator.forward(x) == x
    assert operator.forward(x) == x  # the fault that poison shows: an earlier result survives
    operator.poison()
    assert np.isnan(operator.forward(x))


def test_bind_calls_with_the_same_arrays_each_time() -> None:
    a, b = ramp(3), np.ones(3, np.float32)
    operator = add()
    call = operator.bind(a, b)
    first = call()
    operator.forward(ramp(7), ramp(7))
    a[:] = 5
    assert call() is first
    np.testing.assert_array_equal(first, [6, 6, 6])


def test_attributes_are_passed_with_onnx_defaults() -> None:
    x = np.array([-1, 2], np.float32)
    np.testing.assert_array_equal(leaky().forward(x, alpha=0.5), np.array([-0.5, 2], np.float32))
    np.testing.assert_array_equal(leaky().forward(x), np.array([np.float32(-0.01), 2], np.float32))
    operator = leaky()
    assert [float(operator.forward(x, alpha=a)[0]) for a in (0.5, 0.25, 0.5)] == [-0.5, -0.25, -0.5]


def test_backward_gives_the_gradients() -> None:
    operator = leaky()
    x, dy = ramp(5), np.full(5, 3, np.float32)
    y = operator.forward(x, alpha=0.5)
    (dx,) = operator.backward([dy], [x], [y], alpha=0.5)
    np.testing.assert_array_equal(dx, np.where(x > 0, 3, 1.5))
    assert operator.differentiates
    assert not add().differentiates
    with pytest.raises(Unsupported, match="add has no gradient"):
        add().backward([dy], [x, x], [y])


def test_backward_leaves_out_what_it_does_not_give() -> None:
    source = 'extern "C" void f(const float *a, const float *b, float *y) {}\n'
    source += 'extern "C" void g(const float *dy, float *db) { db[0] = 7 * dy[0]; }'
    operator = db.operators.native(
        source,
        function="f",
        computes="Mul",
        signature="const float *a, const float *b, float *y",
        backward="g",
        backward_signature="const float *dy, float *db",
    )
    x = np.ones(1, np.float32)
    da, db_ = operator.backward([x], [x, x], [x])
    assert da is None
    assert db_ == 7
    assert operator.gradients(x, x)[0] is None


GENERAL = r"""
#include <deep_bench.h>
#include <stdio.h>
DB_EXPORT const char *report(const db_tensor *inputs, int64_t n_inputs, const db_tensor *outputs, int64_t n_outputs,
                             const db_attributes *attributes) {
  static char text[400];
  int at = snprintf(text, sizeof text, "%ld in, %ld out;", (long)n_inputs, (long)n_outputs);
  for (int64_t i = 0; i < n_inputs; ++i) {
    const db_tensor *t = &inputs[i];
    at += snprintf(text + at, sizeof text - at, " %s%d:%d:%ld", t->data ? "" : "none", t->type, t->rank, (long)t->size);
    for (int d = 0; d < t->rank; ++d) at += snprintf(text + at, sizeof text - at, "/%ld", (long)t->shape[d]);
  }
  at += snprintf(text + at, sizeof text - at, "; %s %ld %g", db_text(attributes, "mode", "?"),
                 (long)db_integer(attributes, "axis", -9), db_float(attributes, "epsilon", -9));
  const db_attribute *pads = db_find(attributes, "pads");
  if (pads) at += snprintf(text + at, sizeof text - at, " %ld:%ld", (long)pads->size, (long)pads->integers[1]);
  return text;
}
"""


def reported(*inputs: Any, **attributes: Any) -> str:
    def computes(x: Any, y: Any = None, *, mode: str = "m", axis: int = -9, epsilon: float = -9.0, pads: Any = None) -> Any:
        return x

    operator = db.operators.native(GENERAL, function="report", computes=computes)
    with pytest.raises(KernelFailed) as caught:
        operator.forward(*inputs, **attributes)
    return str(caught.value)


def test_the_general_prototype_gets_tensors_and_attributes() -> None:
    text = reported(ramp(2, 3), np.array(1.5), mode="reflect", axis=2, epsilon=0.5, pads=[3, 4])
    assert text == "report failed: 2 in, 1 out; 1:2:6/2/3 11:0:1; reflect 2 0.5 2:4"


def test_the_general_prototype_is_told_of_omitted_inputs_and_of_narrow_types() -> None:
    text = reported(np.zeros((1, 0), ml_dtypes.bfloat16), None)
    assert text == "report failed: 2 in, 1 out; 16:2:0/1/0 none0:0:0; m -9 -9"


def test_the_general_prototype_in_c(tmp_path: Path) -> None:
    source = tmp_path / "twice.c"
    source.write_text(
        """
        #include <deep_bench.h>
        DB_EXPORT const char *twice(const db_tensor *inputs, int64_t n_inputs, const db_tensor *outputs, int64_t n_outputs,
                                    const db_attributes *attributes) {
          const float *x = inputs[0].data;
          float *y = outputs[0].data;
          if (inputs[0].type != DB_FLOAT) return "only float32";
          for (int64_t i = 0; i < inputs[0].size; ++i) y[i] = 2 * x[i];
          return NULL;
        }
        DB_EXPORT const char *back(const db_tensor *inputs, int64_t n_inputs, const db_tensor *outputs, int64_t n_outputs,
                                   const db_attributes *attributes) {
          if (n_inputs != 3 || n_outputs != 1) return "not a gradient, an input, an output";
          const float *dy = inputs[0].data;
          float *dx = outputs[0].data;
          for (int64_t i = 0; i < inputs[0].size; ++i) dx[i] = 2 * dy[i];
          return NULL;
        }
        """
    )
    operator = db.operators.native(source, function="twice", computes=lambda x: x + x, backward="back")
    np.testing.assert_array_equal(operator.forward(ramp(4)), 2 * ramp(4))
    (dx,) = operator.backward([ramp(4)], [ramp(4)], [ramp(4)])
    np.testing.assert_array_equal(dx, 2 * ramp(4))
    with pytest.raises(KernelFailed, match="twice failed: only float32"):
        operator.forward(ramp(4, dtype=np.float64))


def test_two_outputs_come_as_a_tuple() -> None:
    source = """extern "C" void top(const float *x, const long *k, float *v, long *i) { v[0] = x[2]; i[0] = 2; }"""
    operator = db.operators.native(
        source, function="top", computes="TopK", signature="const float *x, const int64_t *k, float *v, int64_t *i"
    )
    values, indices = operator.forward(ramp(3), np.array([1]))
    assert (values.shape, values[0], indices.dtype, indices[0]) == ((1,), 0, np.int64, 2)


def test_a_few_integers_may_decide_the_shape_of_the_result() -> None:
    source = (
        'extern "C" void f(const float *x, const long *s, float *y, long n) { for (long i = 0; i < n; ++i) y[i] = x[i]; }'
    )
    operator = db.operators.native(
        source,
        function="f",
        computes="Reshape",
        signature="const float *x, const int64_t *s, float *y, int64_t n = x.size",
    )
    assert operator.forward(ramp(6), np.array([2, 3])).shape == (2, 3)
    assert operator.forward(ramp(6), np.array([3, 2])).shape == (3, 2)
    operator.setup(db.Case.of("Reshape", (6,), [2, 3]))
    x, shape = ramp(6), np.array([2, 3])
    assert operator.forward(x, shape).shape == (2, 3)
    shape[:] = [6, 1]
    assert operator.forward(x, shape).shape == (6, 1)


def test_a_few_integers_that_decide_no_shape_are_contents_like_others() -> None:
    source = 'extern "C" void f(const float *x, const long *i, float *y) { y[0] = x[i[0]]; }'
    signature = "const float *x, const int64_t *i, float *y"
    operator = db.operators.native(source, function="f", computes="Gather", signature=signature)
    x, index = ramp(6), np.array([4])
    assert operator.forward(x, index) == x[4]
    index[0] = 5
    assert operator.forward(x, index) == x[5]
    assert operator.forward(x, np.array([1])) == x[1]


def test_setup_makes_it_ready_for_a_case() -> None:
    case = db.Case.of("LeakyRelu", (3, 4), alpha=0.25)
    operator = leaky()
    operator.setup(case)
    x = case.arrays()["X"]
    np.testing.assert_array_equal(operator.forward(x, **case.attributes), np.where(x > 0, x, np.float32(0.25) * x))


def test_a_status_other_than_zero_is_an_error() -> None:
    source = 'extern "C" int f(const float *x, float *y) { y[0] = x[0]; return x[0] > 0 ? 0 : 3; }'
    operator = db.operators.native(source, function="f", computes="Identity", signature="int (const float *x, float *y)")
    assert operator.forward(np.ones(1, np.float32)) == 1
    with pytest.raises(KernelFailed, match="f failed: it returned 3"):
        operator.forward(-np.ones(1, np.float32))
    with pytest.raises(KernelFailed, match="it returned 3"):
        operator.bind(-np.ones(1, np.float32))()


def test_sizes_shapes_texts_and_lists_by_signature() -> None:
    source = """
    extern "C" void f(long rank, const long *shape, const float *x, double *y, const char *text,
                      const long *list, long count, int last, bool flag) {
      y[0] = rank; y[1] = shape[1]; y[2] = text[1]; y[3] = list[1]; y[4] = count; y[5] = last; y[6] = flag;
    }"""

    def computes(x: Any, *, text: str = "ab", numbers: Any = (1, 2), flag: bool = True) -> Any:
        return np.zeros(7)

    operator = db.operators.native(
        source,
        function="f",
        computes=computes,
        signature="int64_t r = x.rank, const int64_t *s = x.shape, const float *x, double *y, const char *text, "
        "const int64_t *list = attributes.numbers, int64_t c = attributes.numbers.size, "
        "int last = x.shape[-1], bool flag = 0",
    )
    np.testing.assert_array_equal(operator.forward(ramp(5, 8), numbers=[4, 6, 9]), [2, 8, ord("b"), 6, 3, 8, 1])


def test_a_default_in_the_signature_stands_in_for_an_attribute_without_one() -> None:
    source = 'extern "C" void f(const float *x, float *y, float e) { y[0] = e; }'
    signature = "const float *x, float *y, float epsilon"
    x = np.ones(1, np.float32)
    given = db.operators.native(source, function="f", computes=lambda x: x, signature=f"{signature} = 0.5")
    assert given.forward(x) == 0.5
    with pytest.raises(InvalidArgument, match="the attribute epsilon for f is missing"):
        db.operators.native(source, function="f", computes=lambda x: x, signature=signature).forward(x)


def test_what_the_signature_does_not_fit_is_refused() -> None:
    x = ramp(3)
    with pytest.raises(Unsupported, match=r"a of add is a: float64\[3\]"):
        add().forward(x.astype(np.float64), x.astype(np.float64))
    with pytest.raises(InvalidArgument, match="1 inputs and 1 outputs for add"):
        db.operators.native(ADD, function="add", computes="Relu", signature=ADDED).forward(x)
    silent = db.operators.native(
        SCALED,
        function="scaled",
        computes="LeakyRelu",
        signature="const float *x, float *y, int64_t n = x.size, float beta = 1",
    )
    assert silent.forward(x, alpha=0.01) is not None  # as it is by default
    with pytest.raises(Unsupported, match=r"alpha=0\.5 for scaled, whose signature has no such attribute"):
        silent.forward(x, alpha=0.5)


def test_outputs_of_a_size_that_only_contents_decide_are_refused() -> None:
    operator = db.operators.native(
        'extern "C" void f(const float *x, long *y) {}',
        function="f",
        computes="NonZero",
        signature="const float *x, int64_t *y",
    )
    with pytest.raises(Unsupported, match="whose size only its contents decide"):
        operator.forward(ramp(3))


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the input b is a list"):
        add().forward(ramp(2), [1.0, 2.0])


def test_given_arrays_for_results_must_fit() -> None:
    x, y = ramp(3), np.empty(3, np.float32)
    add().forward_into([y], [x, x], {})
    np.testing.assert_array_equal(y, 2 * x)
    operator, other = add(), np.empty(3, np.float32)
    operator.forward(x, x)
    operator.forward_into([other], [x, x], {})
    other[:] = 7
    np.testing.assert_array_equal(operator.forward(x, x), 2 * x)
    np.testing.assert_array_equal(other, np.full(3, 7))
    for wrong in (np.empty(4, np.float32), np.empty(3), np.empty(6, np.float32)[::2]):
        with pytest.raises(InvalidInput):
            add().forward_into([wrong], [x, x], {})


def test_it_survives_pickling_and_reaches_a_worker(tmp_path: Path) -> None:
    operator = leaky(flags=["-O1"])
    x = ramp(4)
    operator.forward(x)
    copy = pickle.loads(pickle.dumps(operator))
    assert copy.recipe == operator.recipe
    np.testing.assert_array_equal(copy.forward(x, alpha=0.5), operator.forward(x, alpha=0.5))
    with Worker(f"{__name__}:leaky", log=tmp_path / "log", path=[Path(__file__).parent]) as worker:
        result = worker.call("forward", x, alpha=0.5)
        np.testing.assert_array_equal(result, operator.forward(x, alpha=0.5))


def test_a_library_that_is_built_already(tmp_path: Path) -> None:
    (tmp_path / "add.cpp").write_text(ADD)
    library = tmp_path / "libadd.so"
    subprocess.run(["g++", "-shared", "-fPIC", tmp_path / "add.cpp", "-o", library], check=True)
    operator = db.operators.native(library, function="add", computes="Add", signature=ADDED)
    np.testing.assert_array_equal(operator.forward(ramp(3), ramp(3)), 2 * ramp(3))
    assert operator.built.compiler is None
    assert ctypes.CDLL(str(library)).add


def test_native_kernels_load_no_framework() -> None:
    code = f"""
    import sys
    import numpy as np
    import deep_bench as db
    add = db.operators.native({ADD!r}, function="add", computes="Add", signature={ADDED!r})
    add.forward(np.ones(3, np.float32), np.ones(3, np.float32))
    print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert {name.partition(".")[0] for name in done.stdout.split()} & {
        "torch",
        "tvm_ffi",
        "tensorflow",
        "matplotlib",
    } == set()
