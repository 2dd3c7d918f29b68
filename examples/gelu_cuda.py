"""A kernel in CUDA, forward and backward, on torch's arrays. Needs a CUDA device, nvcc and torch.

python examples/gelu_cuda.py
"""

from pathlib import Path

import deep_bench as db

gelu = db.operators.native(
    Path(__file__).with_name("gelu.cu"),
    function="gelu",
    computes="Gelu",
    signature="int (const float *x, float *y, int64_t n = x.size, cudaStream_t stream)",
    backward="gelu_backward",
    backward_signature="int (const float *dy, const float *x, float *dx, int64_t n = x.size, cudaStream_t stream)",
    device="cuda",
)

case = db.Case.of("Gelu", (64, 768))
gelu.setup(case)
arrays = case.arrays(seed=0)
(expected,) = db.frameworks["reference"]().prepare(case.network())(arrays).values()
x = gelu.device.from_numpy(arrays["X"])
y = gelu.forward(x)
(dx,) = gelu.backward([y], [x], [y])
gelu.device.synchronize()
difference = abs(gelu.device.to_numpy(y) - expected).max()
print(f"differs by at most {difference:.1e}; its gradient has the shape {tuple(dx.shape)}")
