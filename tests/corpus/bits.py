"""Significant bits of matrix products in several formats, over lengths: they must not drift."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from deep_bench.check.arithmetic import Rounding, as_plain, disturb
from deep_bench.check.estimate import Deviations, compare

from .patches import tf32

LENGTHS = (16, 64, 256, 1024, 2048)
_FLOAT32 = np.dtype(np.float32)


def bits(form: str, length: int, *, same_sign: bool) -> float:
    """The significant bits of a product whose factors are first rounded to a format, judged as float32."""
    rng = np.random.default_rng(length)
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((64, length), (length, 64)))
    if same_sign:
        a, b = np.abs(a), np.abs(b)
    deviations = Deviations(a.astype(np.float64) @ b.astype(np.float64))
    for seed in range(8):
        deviations.add(as_plain(disturb(a, Rounding(_FLOAT32, np.random.default_rng(seed))) @ b.astype(np.float64)))
    narrow = {
        "float32": lambda x: x,
        "TF32": tf32,
        "float16": lambda x: x.astype(np.float16).astype(np.float32),
        "bfloat16": lambda x: x.astype(ml_dtypes.bfloat16).astype(np.float32),
    }[form]
    return compare(narrow(a) @ narrow(b), deviations.expectation(_FLOAT32)).bits


def table() -> str:
    """All formats over all lengths, as a Markdown table."""
    lines = [f"| factors | {' | '.join(f'n = {n}' for n in LENGTHS)} |", f"|---|{'---|' * len(LENGTHS)}"]
    for same_sign, kind in ((False, "of random sign"), (True, "of one sign")):
        for form in ("float32", "TF32", "float16", "bfloat16"):
            cells = " | ".join(f"{bits(form, n, same_sign=same_sign):.1f}" for n in LENGTHS)
            lines.append(f"| {form}, {kind} | {cells} |")
    return "\n".join(lines)
