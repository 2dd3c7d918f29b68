"""Functions of single elements, and operators that move, interpolate or cut them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from ..problem import Problem, normal, positive, single, tails

_IMAGE = {"x": normal(1, 3, 9, 11)}
_SCALES = {"": np.zeros(0, np.float32), "scales": np.array([1, 1, 1.7, 2.3], np.float32)}

PROBLEMS: Mapping[str, Callable[[], Problem]] = {
    "Sigmoid": single("Sigmoid", {"x": normal(64, 64, scale=4)}),
    "Tanh": single("Tanh", {"x": tails(64, 64)}),
    "Erf": single("Erf", {"x": tails(64, 64)}),
    "Gelu": single("Gelu", {"x": normal(64, 64, scale=2)}),
    "Elu": single("Elu", {"x": tails(64, 64)}, alpha=0.7),
    "Selu": single("Selu", {"x": normal(64, 64)}),
    "Softplus": single("Softplus", {"x": normal(64, 64, scale=4)}),
    "HardSwish": single("HardSwish", {"x": normal(64, 64, scale=3)}),
    "LeakyRelu": single("LeakyRelu", {"x": normal(64, 64)}, alpha=0.1),
    "Resize": single("Resize", _IMAGE, _SCALES, mode="linear"),
    "Add": single("Add", {"x": normal(32, 1, 48), "w": normal(24, 1)}),
    "Div": single("Div", {"x": normal(48, 48), "w": positive(48)}),
    "Exp": single("Exp", {"x": normal(64, 64, scale=5)}),
    "Log": single("Log", {"x": np.abs(tails(64, 64))}),
    "Pow": single("Pow", {"x": positive(64, 64), "p": np.array(2.5, np.float32)}),
    "Sqrt": single("Sqrt", {"x": np.abs(tails(64, 64))}),
    "Transpose": single("Transpose", {"x": normal(6, 7, 8)}, perm=[1, 2, 0]),
    "Pad": single("Pad", {"x": normal(4, 9, 9)}, {"pads": np.array([0, 2, 1, 0, 1, 3])}, mode="reflect"),
    "Clip": single("Clip", {"x": normal(64, 64)}, {"low": np.array(-0.5, np.float32), "high": np.array(0.8, np.float32)}),
}
