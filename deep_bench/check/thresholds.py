"""The few numbers that verdicts rest on, each with its reason. Held-out faults were never used to choose them."""

from __future__ import annotations

ROUNDING_BITS = 2.5
"""How many bits an error may exceed its estimate by and still be rounding: kernels order and block their sums differently.

Correct kernels were measured between 0.5 bits above and 1.8 bits below the estimate.
"""

GREY_BITS = 7.0
"""How many bits an error may exceed its estimate by before rounding in the working format is out of the question.

Between the two lie naive summation, fast-math functions, and small faults: further tests decide.
"""

GREY_SHARE = 0.5
"""The share of a format's bits that may be missing at most for an error to be in the grey zone.

bfloat16 has 8: a result with one or two left is no result of rounding, although fewer than `GREY_BITS` are missing.
"""

LARGEST_RATIO = 24.0
"""How often the largest error may exceed its own estimate.

Estimates from four samples, shrunk towards those of their neighbours, are rarely too small by more than three; a rounding
error rarely exceeds five times its root mean square in a million draws.
"""

LINEAR_SHARE = 0.75
"""The share of the error that is a linear function of the result, above which an error in the grey zone counts as a fault.

Rounding gives under 0.12 on long outputs. Short outputs and results that share one rounded factor give more, so this never
decides outside the grey zone.
"""

LINEAR_POINTS = 32
"""The fewest elements that a linear share is computed from."""

END_TO_END_RATIO = 16.0
"""How often the root-mean-square error of a network's output may exceed the largest one among its samples.

All errors of one evaluation are carried to the output by the same few directions, so single evaluations scatter widely.
"""

INFORMATION = 0.1
"""The estimate of an error, relative to the spread of the result itself, from which an output no longer tells anything."""

MARGIN_RATIO = 24.0
"""How often the distance of a decision from its boundary may exceed the estimate and the decision still be open."""

NORM_WISE = 8.0
"""How many times the largest estimate an operator may be off by that is declared to be accurate norm-wise only.

Winograd's convolutions lose up to three bits of the largest result everywhere.
"""

SHRINKS_BY = 2.0**-12
"""How much smaller an error must become in float64, relative to what it was, to have been rounding.

float64 has 29 bits more than float32; functions that a runtime only has in float32 precision keep part of it.
"""

FEWEST_BITS = 6.0
"""An error that leaves fewer bits than this is no rounding of any format that networks compute in, even if it is gone in
float64: that only shows that another kernel ran there. bfloat16 has 8."""

EXACT_BITS = 53.0
"""The significant bits that are reported where there is no error at all."""
