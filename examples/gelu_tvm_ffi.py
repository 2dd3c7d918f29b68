"""One source in C++ that works on the arrays of several frameworks: apache-tvm-ffi (pip install 'deep-bench[native,torch]').

python examples/gelu_tvm_ffi.py
"""

from pathlib import Path

import deep_bench as db

source = Path(__file__).with_name("gelu_tvm_ffi.cpp")
case = db.Case.of("Gelu", (64, 768))
arrays = case.arrays(seed=0)
(expected,) = db.frameworks["reference"]().prepare(case.network())(arrays).values()

for device in ("cpu", "torch"):  # "cpu" stands for NumPy's arrays
    gelu = db.operators.native(source, function="gelu", computes="Gelu", backward="gelu_backward", device=device)
    gelu.setup(case)
    x = gelu.device.from_numpy(arrays["X"])
    y = gelu.forward(x)
    (dx,) = gelu.backward([y], [x], [y])
    difference = abs(gelu.device.to_numpy(y) - expected).max()
    print(f"{type(y).__module__}: differs by at most {difference:.1e}; its gradient has the shape {tuple(dx.shape)}")
