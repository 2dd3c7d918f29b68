"""Functions of apache-tvm-ffi on the arrays of several frameworks."""

from __future__ import annotations

import pickle
import subprocess
import sys
import textwrap
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.operators.native_code.library import BuildFailed

pytest.importorskip("tvm_ffi")

SOURCE = """
#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>
using tvm::ffi::TensorView;
void scaled(TensorView x, TensorView y, double alpha) {
  TVM_FFI_CHECK(x.numel() != 13, ValueError) << "thirteen";
  const float *in = static_cast<const float *>(x.data_ptr());
  float *out = static_cast<float *>(y.data_ptr());
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = in[i] > 0 ? in[i] : alpha * in[i];
}
void twice(TensorView x, TensorView y) { scaled(x, y, 2); }
void back(TensorView dy, TensorView x, TensorView y, TensorView dx) { scaled(x, dx, 3); }
TVM_FFI_DLL_EXPORT_TYPED_FUNC(scaled, scaled);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(twice, twice);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(back, back);
"""
X = np.array([-1, 0, 2], np.float32)


def twice(**options: Any) -> Any:
    return db.operators.native(SOURCE, **{"function": "twice", "computes": "Identity", "backward": "back", **options})


@pytest.mark.parametrize("device", ["cpu", "torch", "tensorflow"])
def test_one_source_serves_all_arrays(device: str) -> None:
    if device != "cpu":
        pytest.importorskip(device)
    operator = twice(device=device)
    assert operator.built.route == "tvm-ffi"
    operator.setup(db.Case.of("Identity", (3,)))
    x = operator.device.from_numpy(X)
    y = operator.forward(x)
    assert type(y) is type(x)
    np.testing.assert_array_equal(operator.device.to_numpy(y), [-2, 0, 2])
    (dx,) = operator.backward([x], [x], [y])
    np.testing.assert_array_equal(operator.device.to_numpy(dx), [-3, 0, 2])
    again = operator.forward(operator.device.from_numpy(-X))
    np.testing.assert_array_equal(operator.device.to_numpy(y), [-2, 0, 2])
    np.testing.assert_array_equal(operator.device.to_numpy(again), [1, 0, -4])


def test_attributes_by_signature() -> None:
    operator = twice(
        function="scaled", computes="LeakyRelu", backward=None, signature="const float *x, float *y, float alpha"
    )
    np.testing.assert_array_equal(operator.forward(X, alpha=0.5), [-0.5, 0, 2])
    np.testing.assert_array_equal(operator.forward(X, alpha=0.25), [-0.25, 0, 2])
    with pytest.raises(Unsupported, match="x of scaled is x"):
        operator.forward(X.astype(np.float64))


def test_read_only_arrays_and_views() -> None:
    fixed, view = X.copy(), np.stack([X, X], axis=1)[:, 0]
    fixed.flags.writeable = False
    np.testing.assert_array_equal(twice().forward(fixed), [-2, 0, 2])
    np.testing.assert_array_equal(twice().forward(view), [-2, 0, 2])


def test_what_the_function_raises_comes_through() -> None:
    with pytest.raises(ValueError, match="thirteen"):
        twice().forward(np.zeros(13, np.float32))


def test_an_element_type_that_numpy_cannot_pass_on() -> None:
    with pytest.raises(Unsupported, match="NumPy cannot pass bfloat16 on to tvm-ffi"):
        twice().forward(np.zeros(3, ml_dtypes.bfloat16))


def test_a_missing_function_says_which_there_are() -> None:
    with pytest.raises(InvalidArgument) as caught:
        twice(function="thrice").forward(X)
    assert "Expected: one of back, scaled, twice" in str(caught.value)
    assert "TVM_FFI_DLL_EXPORT_TYPED_FUNC(thrice, thrice)" in str(caught.value)


def test_compile_errors_are_the_compilers() -> None:
    operator = db.operators.native("// tvm/ffi\nvoid f(TensorVew x);", function="f", computes="Identity")
    with pytest.raises(BuildFailed, match=r"kernel.cpp:2:.* error: .TensorVew. was not declared"):
        _ = operator.built


def test_a_built_library_is_recognised_and_survives_pickling() -> None:
    built = twice().built
    operator = db.operators.native(built.path, function="twice", computes="Identity")
    assert operator.built.route == "tvm-ffi"
    copy = pickle.loads(pickle.dumps(operator))
    np.testing.assert_array_equal(copy.forward(X), [-2, 0, 2])


def test_building_does_not_import_it() -> None:
    code = f"""
    import sys
    import deep_bench as db
    operator = db.operators.native({SOURCE!r}, function="twice", computes="Identity")
    print(operator.built.route)
    print(*sys.modules)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("tvm-ffi\n")
    assert {name.partition(".")[0] for name in done.stdout.split()} & {"torch", "tvm_ffi"} == set()
