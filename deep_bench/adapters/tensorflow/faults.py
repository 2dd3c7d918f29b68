"""The faults of TensorFlow 2.21 on the CPU that are known here."""

from __future__ import annotations

from deep_bench.fault import KnownFault, nowhere

FAULTS = (
    KnownFault(
        "cumsum_half_sums",
        ("CumSum",),
        "less accurate",
        "A running sum of 16-bit floats is rounded once at the end; TensorFlow's cumsum rounds after every addition, so "
        "that a sum of ones stops at 256 in bfloat16 and at 2,048 in float16. The adapter adds up in float32.",
        avoided=True,
    ),
    KnownFault(
        "depthwise_explicit_pads",
        ("Conv",),
        "crashes",
        "With oneDNN's kernels TensorFlow's graph optimiser fuses a bias with a depthwise convolution that has explicit "
        "pads, and then ends the process. The adapter pads beforehand.",
        avoided=True,
    ),
    KnownFault(
        "depthwise_half_sums",
        ("Conv",),
        "less accurate",
        "A product of 16-bit floats is rounded once at the end; TensorFlow's depthwise convolution adds up in 16 bits, "
        "so that a sum of ones stops at 2,048 in float16. The adapter computes in float32.",
        avoided=True,
    ),
    KnownFault(
        "elu_near_zero",
        ("Elu", "Selu"),
        "less accurate",
        "exp(x) - 1 is close to x for small x; TensorFlow subtracts in the working precision, so that for negative x "
        "near 0 no digit is left: at -1e-06 the second is wrong. The adapter uses expm1.",
        avoided=True,
    ),
    KnownFault(
        "erf_at_infinity",
        ("Erf",),
        "wrong values",
        "erf is 1 at infinity and -1 at minus infinity; in float64 TensorFlow's kernel for vectors gives no number there. "
        "The adapter clips at 8.",
        avoided=True,
    ),
    KnownFault(
        "gelu_tanh_gradient",
        ("Gelu",),
        "wrong values",
        "The slope of Gelu goes to 1 on the right and to 0 on the left; that of the form with tanh is no number in "
        "TensorFlow beyond 1.8e19, where x squared leaves float32. The values themselves are right.",
        applies=nowhere,
    ),
    KnownFault(
        "max_pool_nan",
        ("MaxPool",),
        "wrong values",
        "The maximum of numbers and a NaN is NaN, as IEEE 754 defines it and TensorFlow's reduce_max and relu give it; its "
        "pooling gives the largest number instead, and of NaN alone the lowest there is. A loss stays finite on images of "
        "NaN.",
        applies=nowhere,
    ),
    KnownFault(
        "softmax_nan",
        ("Softmax",),
        "wrong values",
        "Each element is divided by the sum of all, so where one is NaN, or infinite, all are NaN, as TensorFlow's own "
        "log_softmax, and its softmax in float16 and float64, have it. In float32 and bfloat16 oneDNN's kernel gives 0 for "
        "most of the others.",
        applies=nowhere,
    ),
    KnownFault(
        "subnormals",
        ("Add", "Div", "Mul", "Relu", "Sub"),
        "less accurate",
        "Numbers below 1.2e-38 lose digits and are not 0 in float32; TensorFlow's kernels take and give 0 for them, and "
        "there is no option. The adapter says so among its facts.",
        applies=nowhere,
    ),
)
"""In alphabetical order."""
