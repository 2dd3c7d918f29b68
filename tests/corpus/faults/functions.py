"""Faults of functions of single elements, and of what moves them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..patches import after, attributes, bfloat16, gelu_tanh, scaled, without
from ..subjects import Patch

FAULTS: Mapping[tuple[str, str], Patch] = {
    ("Gelu", "Gelu by tanh"): gelu_tanh,
    ("Gelu", "Gelu by sigmoid"): lambda f, x, a: x[0] / (1 + np.exp(x[0].dtype.type(-1.702) * x[0])),
    ("Elu", "Elu with alpha ignored"): attributes(alpha=1.0),
    ("Selu", "Selu with short constants"): attributes(alpha=1.6733, gamma=1.0507),
    ("LeakyRelu", "LeakyRelu with the default slope"): attributes(alpha=0.01),
    ("HardSwish", "HardSwish by sigmoid"): lambda f, x, a: x[0] / (1 + np.exp(-x[0])),
    ("Resize", "Resize with aligned corners"): attributes(coordinate_transformation_mode="align_corners"),
    ("Resize", "Resize asymmetric"): attributes(coordinate_transformation_mode="asymmetric"),
    ("Transpose", "Transpose with another order"): lambda f, x, a: np.ascontiguousarray(x[0].transpose(2, 1, 0)).reshape(
        7, 8, 6
    ),
    ("Pad", "Pad symmetric"): lambda f, x, a: np.pad(x[0], ((0, 0), (2, 1), (1, 3)), "symmetric"),
    ("Clip", "Clip without its upper limit"): without(2),
    ("Pow", "Pow with a rounded exponent"): scaled(1, 1.001),
    ("Tanh", "Tanh in bfloat16"): after(bfloat16),
    ("Erf", "Erf by tanh"): lambda f, x, a: np.tanh(
        x[0] * (x[0].dtype.type(1.1283792) + x[0].dtype.type(0.1009) * x[0] * x[0])
    ),
    ("Add", "Add with a wrong broadcast"): lambda f, x, a: x[0] + np.resize(x[1][::-1], x[1].shape),
}
