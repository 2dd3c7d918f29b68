"""What of the corpus made by hand the checker is known to misjudge, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {
    "QuantizeLinear with another scale in MatMul float8": (
        "a result in float8 may be off by a step wherever it is, as if it had been computed in float8; one that is rounded "
        "to float8 once may be so only next to the middle of two numbers"
    ),
    "gradients, weights in float16, in Softmax": (
        "gradients are judged as a whole, with the slack that deep networks need: this error is in the grey zone, and there "
        "is no float64 to decide"
    ),
}
"""Name of an entry to the reason."""
