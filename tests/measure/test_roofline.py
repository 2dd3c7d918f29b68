"""The roofs of a machine: how they are measured, kept and used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure import roofline as take
from deep_bench.measure import roofline_systems
from deep_bench.measure.roofline import Rate, Roofline, as_text, roofline
from deep_bench.measure.roofline_systems import FrameworkRoofs, NumpyRoofs, product_network, width
from deep_bench.measure.session import Plan, measure


@dataclass(frozen=True)
class Cost:
    flops: int
    bytes: int


def gemm(value: float | None, dtype: str = "float32", threads: int = 1, by: str = "numpy") -> Rate:
    return Rate(kind="gemm", by=by, dtype=dtype, threads=threads, value=value)


def copy(value: float, threads: int = 1, by: str = "numpy") -> Rate:
    return Rate(kind="copy", by=by, dtype="float64", threads=threads, value=value)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Small arrays, and a cache of the test's own."""
    monkeypatch.setattr(roofline_systems, "array_bytes", lambda: 1 << 16)
    monkeypatch.setattr(roofline_systems, "_SMALLEST", 64)
    monkeypatch.setattr(roofline_systems, "_LARGEST", 64)
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path))


ROOFS = Roofline(
    rates=[gemm(100e9), gemm(150e9, threads=2), gemm(90e9, by="torch"), gemm(200e9, "bfloat16", by="torch"),
           gemm(None, "float16"), copy(10e9), copy(15e9, threads=2)]
)  # fmt: skip


def test_the_best_of_all_or_of_those_asked_for() -> None:
    def value(rate: Rate | None) -> float | None:
        return None if rate is None else rate.value

    assert value(ROOFS.peak()) == 150e9
    assert value(ROOFS.peak(threads=1)) == 100e9
    assert value(ROOFS.peak(threads=1, by="torch")) == 90e9
    assert value(ROOFS.bandwidth(threads=1)) == 10e9
    assert ROOFS.peak("float16") is None
    assert ROOFS.peak("float64") is None


def test_the_lower_roof_bounds() -> None:
    # 100 FLOP a byte: at 10 GB/s the memory would feed 1000 GFLOP/s
    product = ROOFS.share(0.1, Cost(10**9 * 5, 5 * 10**7), threads=1)
    assert (product.compute, product.memory, product.bound, product.intensity) == (0.5, 0.05, "compute", 100)
    assert product.roof == 0.5
    # 1 FLOP a byte
    sum_ = ROOFS.share(0.1, Cost(8 * 10**8, 8 * 10**8), threads=1)
    assert (sum_.compute, sum_.memory, sum_.bound) == (pytest.approx(0.08), pytest.approx(0.8), "memory")
    assert sum_.roof == pytest.approx(0.8)


def test_no_flops_are_bound_by_memory() -> None:
    found = ROOFS.share(0.1, Cost(0, 5 * 10**8), dtype="float16", threads=1)
    assert (found.memory, found.bound, found.roof, found.flops) == (0.5, "memory", 0.5, 0)


def test_without_a_peak_nobody_knows() -> None:
    found = ROOFS.share(0.1, Cost(10**9, 10**8), dtype="float64")
    assert (found.compute, found.bound, found.roof) == (None, "unknown", None)
    with pytest.raises(InvalidArgument, match="above 0"):
        ROOFS.share(0.0, Cost(1, 1))


def test_products_are_as_wide_as_their_time_allows() -> None:
    assert width(lambda n: 2 * n**3 // 1000) == 2112  # 1 TFLOP/s
    assert width(lambda n: n**3 * 1000) == 256
    assert width(lambda n: 0) == 8192


@pytest.mark.usefixtures("small")
def test_numpy_computes_what_is_counted() -> None:
    system = NumpyRoofs(["float32", "float64", "int8"], threads=2)
    facts = system.prepare()
    assert set(facts["sizes"]) == {"gemm float32", "gemm float64", "copy float64", "triad float64"}
    a, b = np.zeros(100_000), np.arange(100_000.0)
    roofline_systems._triad(a, b, np.full(100_000, 2.0))()
    assert np.array_equal(a, b + 6)
    for call in system.calls().values():
        call()


@pytest.mark.usefixtures("small")
def test_a_framework_multiplies_each_element_type_it_has() -> None:
    system = FrameworkRoofs("reference", ["float32", "bfloat16", "int8"], threads=1)
    facts = system.prepare()
    assert set(facts["sizes"]) == {"gemm float32", "gemm bfloat16", "gemm int8", "add float32"}
    assert facts["failed"] == {}
    (result,) = system.calls()["gemm int8"]().values()  # type: ignore[attr-defined]
    assert (result.shape, result.dtype) == ((64, 64), np.int32)
    assert product_network(64, "float16").outputs[0].dtype == np.float16


@pytest.mark.usefixtures("small")
def test_what_a_framework_refuses_is_said() -> None:
    pytest.importorskip("onnxruntime")
    facts = FrameworkRoofs("onnxruntime", ["float32", "bfloat16"]).prepare()
    assert set(facts["sizes"]) == {"gemm float32", "add float32"}
    assert "MatMul" in facts["failed"]["gemm bfloat16"]


@pytest.mark.usefixtures("small")
def test_measured_in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(take, "Plan", lambda **options: Plan(**{**options, "min_ns": 100_000, "warm_up_s": 0.01}))
    found = roofline(["reference"], dtypes=["float32", "float16"], threads=[1], budget=0.2, in_process=True)
    kinds = [(rate.kind, rate.by, rate.dtype) for rate in found.rates]
    assert kinds == [
        ("gemm", "numpy", "float32"), ("copy", "numpy", "float64"), ("triad", "numpy", "float64"),
        ("gemm", "reference", "float32"), ("gemm", "reference", "float16"), ("add", "reference", "float32"),
    ]  # fmt: skip
    assert all(rate.value and rate.value > 1e6 and rate.n >= 5 for rate in found.rates)
    text = as_text(found)
    assert "FLOP a byte the memory limits" in text
    assert text.count("reference") == 3


@pytest.mark.usefixtures("small")
def test_what_was_measured_is_kept_and_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(take, "disturbances", lambda environment: [])
    asked = {"dtypes": ["float32"], "threads": [1], "budget": 1.0}
    first = roofline(**asked)  # type: ignore[arg-type]
    (file,) = (tmp_path / "roofline").iterdir()
    assert json.loads(file.read_text())["rates"][0]["kind"] == "gemm"
    assert roofline(**asked) == first  # type: ignore[arg-type]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("it was measured again")

    monkeypatch.setattr(take, "measure", refuse)
    assert roofline(**asked) == first  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="again"):
        roofline(**asked, again=True)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="again"):
        roofline(dtypes=["float64"], threads=[1], budget=1.0)
    file.write_text(first.model_copy(update={"notes": ["load: the load is 9"]}).model_dump_json())
    with pytest.raises(AssertionError, match="again"):  # the machine is quiet now
        roofline(**asked)  # type: ignore[arg-type]
    file.write_text("{}}")
    with pytest.raises(AssertionError, match="again"):
        roofline(**asked)  # type: ignore[arg-type]


@pytest.mark.usefixtures("small")
def test_what_cannot_be_kept_is_found_all_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DEEP_BENCH_CACHE", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(take, "measure", lambda them, plan, **_: measure(them, plan, in_process=True))
    found = roofline(dtypes=["float32"], threads=[1], budget=0.2)
    assert found.peak("float32") is not None
    text = " ".join(as_text(found).split())
    assert f"not kept for the next time: {tmp_path / 'file' / 'cache' / 'roofline'} cannot be written" in text
    assert "name a folder in the environment variable DEEP_BENCH_CACHE" in text


def test_the_table_is_as_wide_as_it_may_be_and_no_figure_is_broken() -> None:
    text = as_text(Roofline(rates=[gemm(150e9, by="onnxruntime:threads=2"), copy(10e9)]), 80)
    assert max(map(len, text.splitlines())) <= 80
    assert "150 GFLOP/s" in text
    assert text.count("onnxruntime:threads=2") == sum(line.startswith("what ") for line in text.splitlines()) > 1


def test_bad_arguments() -> None:
    with pytest.raises(InvalidArgument, match="'float3'"):
        roofline(dtypes=["float3"])
    with pytest.raises(InvalidArgument, match="0 threads"):
        roofline(threads=[0])
    with pytest.raises(InvalidArgument, match="at least one"):
        roofline(threads=[])
    with pytest.raises(UnknownName, match="nothing"):
        roofline(["nothing"])
