"""A kernel in C++, forward and backward, called through plain pointers: beside the reference, and with its memory checked.

python examples/gelu_cpp.py
"""

from pathlib import Path

import numpy as np

import deep_bench as db
from deep_bench.operators.native_code.guard import trespasses

gelu = db.operators.native(
    Path(__file__).with_name("gelu.cpp"),
    function="gelu",
    computes="Gelu",
    signature="const float *x, float *y, int64_t n = x.size, const char *approximate",
    backward="gelu_backward",
    backward_signature="const float *dy, const float *x, float *dx, int64_t n = x.size, const char *approximate",
)

for approximate in ("none", "tanh"):
    case = db.Case.of("Gelu", (64, 768), approximate=approximate)
    gelu.setup(case)
    arrays = case.arrays(seed=0)
    x = arrays["X"]
    y = gelu.forward(x, approximate=approximate)
    (expected,) = db.frameworks["reference"]().prepare(case.network())(arrays).values()
    (dx,) = gelu.backward([np.ones_like(y)], [x], [y], approximate=approximate)
    h = np.float32(1e-2)
    slope = (gelu.forward(x + h, approximate=approximate) - gelu.forward(x - h, approximate=approximate)) / (2 * h)
    print(f"{approximate}: differs by at most {abs(y - expected).max():.1e}, its gradient by {abs(dx - slope).max():.1e}")

print("outside of its tensors it touches", trespasses(gelu, [x]) or "nothing")
