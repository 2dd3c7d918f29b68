// Gelu for deep_bench in CUDA, as plain C functions. Start your own kernel from this file; gelu_cuda.py uses it.
#include <cstdint>
#include <cuda_runtime.h>

namespace {

constexpr int threads = 256;

unsigned blocks(int64_t n) { return static_cast<unsigned>((n + threads - 1) / threads); }

__global__ void forward(const float *x, float *y, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < n) y[i] = 0.5f * x[i] * (1 + erff(x[i] * 0.70710678f));
}

__global__ void backward(const float *dy, const float *x, float *dx, int64_t n) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * threads + threadIdx.x;
  if (i < n) dx[i] = dy[i] * (0.5f * (1 + erff(x[i] * 0.70710678f)) + x[i] * 0.39894228f * expf(-0.5f * x[i] * x[i]));
}

}  // namespace

// They return an error of the launch, or 0; what goes wrong later shows when the device is synchronized.
extern "C" int gelu(const float *x, float *y, int64_t n, cudaStream_t stream) {
  if (n > 0) forward<<<blocks(n), threads, 0, stream>>>(x, y, n);
  return cudaGetLastError();
}

extern "C" int gelu_backward(const float *dy, const float *x, float *dx, int64_t n, cudaStream_t stream) {
  if (n > 0) backward<<<blocks(n), threads, 0, stream>>>(dy, x, dx, n);
  return cudaGetLastError();
}
