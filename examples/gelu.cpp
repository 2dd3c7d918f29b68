// Gelu for deep_bench, as plain C functions. Start your own kernel from this file; gelu_cpp.py uses it.
#include <cmath>
#include <cstdint>
#include <cstring>

namespace {

constexpr float half_root = 0.70710678118654752f;  // sqrt(1/2)
constexpr float density = 0.39894228040143268f;    // 1 / sqrt(2 pi)
constexpr float slope = 0.79788456080286536f;      // sqrt(2 / pi)
constexpr float cubic = 0.044715f;

float exact(float x) { return 0.5f * x * (1 + std::erf(x * half_root)); }

float exact_gradient(float x) {
  return 0.5f * (1 + std::erf(x * half_root)) + x * density * std::exp(-0.5f * x * x);
}

float by_tanh(float x) { return 0.5f * x * (1 + std::tanh(slope * (x + cubic * x * x * x))); }

float by_tanh_gradient(float x) {
  const float t = std::tanh(slope * (x + cubic * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * slope * (1 + 3 * cubic * x * x);
}

bool is_tanh(const char *approximate) { return std::strcmp(approximate, "tanh") == 0; }

}  // namespace

extern "C" void gelu(const float *x, float *y, int64_t n, const char *approximate) {
  if (is_tanh(approximate)) {
    for (int64_t i = 0; i < n; ++i) y[i] = by_tanh(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = exact(x[i]);
  }
}

extern "C" void gelu_backward(const float *dy, const float *x, float *dx, int64_t n, const char *approximate) {
  if (is_tanh(approximate)) {
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * by_tanh_gradient(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * exact_gradient(x[i]);
  }
}
