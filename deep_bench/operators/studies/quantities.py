"""What is timed of an operator on a case."""

from __future__ import annotations

FORWARD = "forward"
"""The operator on its own arrays."""

BOTH = "forward and backward"
"""The operator, and the gradients of its inputs for given gradients of its outputs. Frameworks differentiate the sum of the
outputs' elements weighted by these, which is part of it."""

BACKWARD = "backward"
"""The gradients alone, where an operator computes them apart."""

COLD = "forward, cold caches"
"""As `FORWARD`, after the last-level cache was emptied."""

NUMPY = "from NumPy"
"""From NumPy arrays to NumPy arrays, checks of the inputs included."""

DISPATCH = "empty call"
"""A call of the same signature that computes nothing: what calling costs before anything is computed."""

QUANTITIES = (FORWARD, BOTH, BACKWARD, COLD, NUMPY, DISPATCH)

VERDICT = "verdict"
"""Not timed; among what is unavailable where there is no reference."""
