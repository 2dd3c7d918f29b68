"""The operators that ONNX Runtime adds to the standard, in its domain ``com.microsoft``, as its tools write them.

Most join several of ONNX's operators into one, and are written here in terms of those; some have no kernel but in ONNX
Runtime, and files that its optimizer or quantizer made cannot run without them.

Source:
    ONNX Runtime, Contrib Operators.
"""

from deep_bench.reference.operators.contrib import (
    activation,
    attention,
    convolution,
    embedding,
    grouped,
    layout,
    linear,
    normalization,
    quantize,
    recurrent,
)

FAMILIES = (
    activation,
    attention,
    convolution,
    embedding,
    grouped,
    layout,
    linear,
    normalization,
    quantize,
    recurrent,
)
"""The families of the domain."""
