// Gelu for deep_bench through apache-tvm-ffi, which takes the arrays of NumPy, torch and TensorFlow alike.
// Start your own kernel from this file; gelu_tvm_ffi.py uses it.
#include <cmath>
#include <cstdint>

#include <tvm/ffi/container/tensor.h>
#include <tvm/ffi/error.h>
#include <tvm/ffi/function.h>

namespace {

using tvm::ffi::TensorView;

float *floats(const TensorView &tensor) {
  const DLDataType type = tensor.dtype();
  TVM_FFI_CHECK(type.code == kDLFloat && type.bits == 32, TypeError) << "gelu computes in float32";
  return static_cast<float *>(tensor.data_ptr());
}

void gelu(TensorView x, TensorView y) {
  const float *in = floats(x);
  float *out = floats(y);
  for (int64_t i = 0; i < x.numel(); ++i) out[i] = 0.5f * in[i] * (1 + std::erf(in[i] * 0.70710678f));
}

// The gradient of each output, each input, each output, and then the gradient of each input, which is to be filled.
void gelu_backward(TensorView dy, TensorView x, TensorView, TensorView dx) {
  const float *in = floats(x);
  const float *given = floats(dy);
  float *out = floats(dx);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const float cdf = 0.5f * (1 + std::erf(in[i] * 0.70710678f));
    out[i] = given[i] * (cdf + in[i] * 0.39894228f * std::exp(-0.5f * in[i] * in[i]));
  }
}

}  // namespace

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gelu, gelu);
TVM_FFI_DLL_EXPORT_TYPED_FUNC(gelu_backward, gelu_backward);
