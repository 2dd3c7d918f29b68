"""The faults of torch 2.13 on the CPU that are known here."""

from __future__ import annotations

from deep_bench.fault import KnownFault, nowhere

FAULTS = (
    KnownFault(
        "det_gradient_singular",
        ("Det",),
        "wrong values",
        "The gradient of a determinant is the adjugate, transposed, which is not 0 for a singular matrix of rank n - 1; "
        "that of torch is. The adapter computes the adjugate.",
        avoided=True,
    ),
    KnownFault(
        "gelu_tanh_gradient",
        ("Gelu",),
        "wrong values",
        "The slope of Gelu goes to 1 on the right and to 0 on the left; that of the form with tanh is no number in torch "
        "beyond 1.8e19, where x squared leaves float32. The values themselves are right.",
        applies=nowhere,
    ),
    KnownFault(
        "interpolate_nearest_coordinates",
        ("Resize",),
        "less accurate",
        "Coordinates are exact fractions; torch's interpolate rounds them to float32, so that one that falls on an "
        "element may give the neighbour. The adapter uses it only for lengths where that does not happen.",
        avoided=True,
    ),
)
"""In alphabetical order."""
