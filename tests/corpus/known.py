"""What of the corpus made by hand the checker is known to misjudge, each with the reason."""

from __future__ import annotations

from collections.abc import Mapping

KNOWN: Mapping[str, str] = {
    "gradients, weights in float16, in Softmax": (
        "gradients are judged as a whole, with the slack that deep networks need: this error is in the grey zone, and there "
        "is no float64 to decide"
    ),
}
"""Name of an entry to the reason."""
