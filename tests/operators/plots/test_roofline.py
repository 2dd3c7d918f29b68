"""Pictures of roofs and points."""

from __future__ import annotations

from pathlib import Path

import pytest

from deep_bench.measure.roofline import Rate, Roofline
from deep_bench.operators.cost import Cost

pytest.importorskip("matplotlib")
from deep_bench.operators import plots as picture

ROOFS = Roofline(
    machine={"cpu_model": "AMD EPYC"},
    rates=[
        Rate(kind="gemm", by="numpy", dtype="float32", threads=2, value=2e11, low=1.9e11, high=2.1e11),
        Rate(kind="gemm", by="torch", dtype="bfloat16", threads=2, value=4e11),
        Rate(kind="gemm", by="torch", dtype="float16", threads=2, unavailable="none"),
        Rate(kind="copy", by="numpy", dtype="float64", threads=2, value=2e10, low=1.9e10, high=2.1e10),
    ],
    notes=["load: the load is 9.0 before anything is measured. End other work on this machine."],
)
POINTS = [
    picture.RooflinePoint("Gemm", Cost(10**10, 10**8, 10**7), 0.1, 0.09, 0.12, series="torch"),
    picture.RooflinePoint("Softmax", Cost(10**6, 10**6, 10**6), 1e-4, series="onnxruntime"),
    picture.RooflinePoint("Relu", Cost(0, 10**6, 10**6), 2e-4),
]


def texts(file: Path) -> str:
    """The text in a picture, which SVG keeps as comments."""
    return file.read_text(encoding="utf-8")


def test_roofs_points_and_what_has_no_flops_are_there(tmp_path: Path) -> None:
    found = texts(picture.plot_roofline(ROOFS, tmp_path / "roofs.svg", POINTS))
    for text in ("Roofline of AMD EPYC, 2 threads", "float32  200 GFLOP/s", "bfloat16  400 GFLOP/s",
                 "memory  20 GB/s", "Gemm", "Softmax", "Relu: 50 % of the bandwidth", "the load is 9.0"):  # fmt: skip
        assert text in found
    assert "float16  " not in found.replace("bfloat16  ", "")


def test_many_points_are_not_labelled(tmp_path: Path) -> None:
    found = texts(picture.plot_roofline(ROOFS, tmp_path / "roofs.svg", POINTS[:1] * 40))
    assert "40 points, not labelled" in found
    assert "Gemm" not in found


def test_without_points_or_roofs(tmp_path: Path) -> None:
    assert picture.plot_roofline(ROOFS, tmp_path / "roofs.png").stat().st_size > 10_000
    assert picture.plot_roofline(Roofline(), tmp_path / "none.png", POINTS).stat().st_size > 5_000
