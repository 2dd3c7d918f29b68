"""Contents of inputs: every distribution in every type, every draw in its domain, results finite where promised."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deep_bench as db
from deep_bench.errors import InvalidArgument
from deep_bench.facts import OPERATORS as FACTS
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.operators.draws import DISTRIBUTIONS, DRAWS, draw, limit_of
from deep_bench.tensor import TensorSpec, is_float

FLOATS = ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn"]
OTHERS = ["int8", "uint8", "int32", "int64", "uint64", "int4", "uint2", "bool", "complex64", "object"]


def drawn(
    kind: str, dtype: str, distribution: str, shape: tuple[int, ...] = (400,), seed: int = 0, limit: Any = None
) -> Any:
    dtype_ = np.dtype(getattr(ml_dtypes, dtype, dtype))
    found = draw(Argument(TensorSpec("x", shape, dtype_), draw=kind), np.random.default_rng(seed), distribution, limit)
    assert (found.shape, found.dtype) == (shape, dtype_)
    return found if dtype_.kind == "O" else found.astype(np.complex128 if dtype_.kind == "c" else np.float64)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", FLOATS + OTHERS)
def test_every_type_has_every_distribution(dtype: str, distribution: str) -> None:
    found = drawn("normal", dtype, distribution)
    assert len(np.unique(found.astype(str))) > 1 or dtype == "float8_e8m0fnu"
    if distribution != "special" and dtype != "object":
        assert np.isfinite(found).all()


def test_normal_numbers_are_standard_normal() -> None:
    found = drawn("normal", "float32", "normal", (20000,))
    assert abs(found.mean()) < 0.03
    assert abs(found.std() - 1) < 0.03


def test_wide_numbers_have_many_orders_of_magnitude() -> None:
    logarithms = np.log10(np.abs(drawn("normal", "float32", "wide")))
    assert logarithms.max() - logarithms.min() > 30


def test_ties_are_exact_and_near() -> None:
    found = drawn("normal", "float32", "ties")
    exact = found * 2 == np.round(found * 2)
    assert 0.3 < exact.mean() < 0.8
    assert np.abs(found - np.round(found * 2) / 2).max() < 1e-6
    assert len(np.unique(found[exact])) < len(found[exact]) / 4


def test_tiny_numbers_are_partly_subnormal() -> None:
    found = np.abs(drawn("normal", "float32", "tiny"))
    smallest = np.finfo(np.float32).smallest_normal
    assert (found < smallest).any()
    assert ((found >= smallest) & (found < 100 * smallest)).any()


def test_huge_numbers_are_near_the_limit() -> None:
    found = np.abs(drawn("normal", "float32", "huge", limit=1e30))
    assert found.min() >= 0.49e30
    assert found.max() <= 1e30


def test_special_numbers_are_all_there() -> None:
    found = drawn("normal", "float32", "special")
    assert np.isnan(found).any()
    assert set(found[np.isinf(found)]) == {np.inf, -np.inf}
    assert set(np.signbit(found[found == 0])) == {True, False}
    assert np.isfinite(found).mean() > 0.5


def test_special_whole_numbers_are_the_ends_of_the_type() -> None:
    assert {-128.0, 127.0, 0.0} <= set(drawn("normal", "int8", "special"))


# Draws that mean something


def within(low: float, high: float) -> Any:
    return lambda found: bool(((found >= low) & (found <= high)).all())


CHECKS: dict[str, tuple[str, str, Any]] = {
    "attention_mask": ("attention_mask", "bool", within(0, 1)),
    "below": ("below:7", "int64", within(0, 6)),
    "between": ("between:-1.5:2", "float32", within(-1.5, 2)),
    "boxes": ("boxes:3:5", "float32", within(0, 5)),
    "distinct": ("distinct:500:0", "int64", lambda found: len(set(found.ravel())) == found.size),
    "distinct_places": ("distinct_places:500", "int64", lambda found: len(set(found.ravel())) == found.size),
    "distinct_rows": ("distinct_rows:10:20:30:40", "int64", lambda found: len({tuple(r) for r in found}) == len(found)),
    "indices": ("indices:7", "int32", within(-7, 6)),
    "lengths": ("lengths:7", "int32", within(1, 7)),
    "log_probabilities": ("log_probabilities:1", "float32", lambda found: np.allclose(np.exp(found).sum(1), 1, atol=1e-5)),
    "mask": ("mask:0.3", "int32", lambda found: set(found.ravel()) == {0, 1}),
    "nonzero": ("nonzero", "float32", lambda found: bool((found != 0).all())),
    "positive": ("positive", "float32", lambda found: bool((found > 0).all())),
    "rows": ("rows:3:4:5:6", "int64", lambda found: bool((np.abs(found + 0.5) < [3, 4, 5, 6]).all())),
    "scale": ("scale", "float32", lambda found: bool((found > 0).all() and np.isfinite(found).all())),
}
"""Draw to how it is written, an element type, and what always holds."""


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("name", CHECKS)
def test_every_draw_stays_in_its_domain(name: str, distribution: str) -> None:
    written, dtype, holds = CHECKS[name]
    shape = (100, 4) if name != "distinct" else (400,)
    assert holds(drawn(written, dtype, distribution, shape))


def test_every_draw_is_checked() -> None:
    assert set(DRAWS) == {*CHECKS, "normal", "domain", "sparse", "scaled"}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_narrow_formats_do_not_round_past_a_bound(dtype: str, distribution: str) -> None:
    assert within(-1.2, 0.9)(drawn("between:-1.2:0.9", dtype, distribution))


@pytest.mark.parametrize("distribution", sorted(set(DISTRIBUTIONS) - {"special"}))
def test_a_function_is_given_what_it_is_real_for(distribution: str) -> None:
    assert within(-1, 1)(drawn("domain:-1:1", "float32", distribution))
    assert within(1, np.inf)(drawn("domain:1:inf", "float32", distribution))


def test_a_function_is_given_anything_among_special_numbers() -> None:
    found = drawn("domain:0:inf", "float32", "special")
    assert np.isnan(found).any()
    assert (found < 0).any()


def test_sparse_numbers_have_the_share_of_zeros() -> None:
    assert abs((drawn("sparse:0.95", "float32", "normal", (200, 200)) == 0).mean() - 0.95) < 0.01


def test_scaled_numbers_keep_the_size_of_a_sum() -> None:
    assert abs(drawn("scaled:100", "float32", "normal", (20000,)).std() - 0.1) < 0.01


def test_the_first_key_of_a_row_is_never_masked() -> None:
    assert drawn("attention_mask", "bool", "normal", (50, 3, 4))[..., 0].all()


def test_indices_reach_both_ends_and_count_from_both() -> None:
    assert set(drawn("below:5", "int64", "special")) == {0, 4}
    assert drawn("indices:5", "int64", "normal").min() == 0
    assert drawn("indices:5", "int64", "wide").min() < 0


@given(
    st.sampled_from(sorted(DISTRIBUTIONS)),
    st.lists(st.integers(0, 3), max_size=3).map(tuple),
    st.sampled_from([w for w, _, _ in CHECKS.values() if not w.startswith(("distinct", "rows", "log", "boxes"))]),
)
@settings(max_examples=60, deadline=None)
def test_any_shape_will_do(distribution: str, shape: tuple[int, ...], written: str) -> None:
    dtype = "bool" if written == "attention_mask" and shape else "float32"
    drawn(written if shape or written != "attention_mask" else "normal", dtype, distribution, shape)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("below:0", "indices below 0"),
        ("distinct:3:0", "400 different indices below 3"),
        ("distinct_places:3", "400 different"),
    ],
)
def test_what_cannot_be_drawn_is_refused(written: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        drawn(written, "int64", "normal")


# Operators

C = Case.of
OPERATORS = [
    C("Gemm", (8, 160), (160, 4), (4,)),
    C("Conv", (1, 3, 8, 8), (4, 3, 3, 3)),
    C("ConvTranspose", (1, 3, 8, 8), (3, 4, 3, 3)),
    C("Softmax", (4, 60)),
    C("LayerNormalization", (4, 60), (60,), (60,)),
    C("RMSNormalization", (4, 60), (60,)),
    C("BatchNormalization", (2, 3, 4, 4), (3,), (3,), (3,), (3,)),
    C("Attention", (1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 6, 8), "bool[4, 6]"),
    C("LSTM", (5, 2, 3), (1, 16, 3), (1, 16, 4), (1, 32), "int32[2]", hidden_size=4),
    C("Gather", (10, 4), (30,)),
    C("GatherND", (10, 4), (30, 2)),
    C("ScatterElements", (10, 4), (3, 4), (3, 4)),
    C("ScatterND", (10, 4), (3, 1), (3, 4)),
    C("SoftmaxCrossEntropyLoss", (40, 10), (40,)),
    C("NegativeLogLikelihoodLoss", (40, 10), (40,)),
    C("OneHot", (40,), 5, [0.0, 1.0]),
    C("RotaryEmbedding", (1, 2, 4, 8), (16, 4), (16, 4), (1, 4)),
    C("QLinearMatMul", "uint8[4, 6]", (), "uint8[]", "int8[6, 4]", (), "int8[]", (), "uint8[]"),
    C("DequantizeLinear", "int8[4, 6]", (), "int8[]"),
    C("Mod", (4, 6), (4, 6), dtype="int32"),
    C("Pow", (4, 6), (4, 6), dtype="int32"),
    C("Exp", (40,)),
    C("Acosh", (40,)),
    C("ReduceProd", (4, 6)),
    C("ReduceSumSquare", (4, 6)),
    C("LinearAttention", (1, 3, 8), (1, 3, 8), (1, 3, 8), None, (1, 3, 2), (1, 3, 2), q_num_heads=2, kv_num_heads=2,
      update_rule="gated_delta"),
    C("TensorScatter", (2, 3, 8, 4), (2, 3, 2, 4), (2,)),
    C("MaxUnpool", (1, 1, 2, 2), (1, 1, 2, 2), kernel_shape=[2, 2], strides=[2, 2]),
    C("RoiAlign", (1, 2, 5, 5), (3, 4), (3,), output_height=2, output_width=2),
    C("GridSample", (1, 2, 5, 5), (1, 3, 3, 2)),
    C("DeformConv", (1, 2, 5, 5), (3, 2, 2, 2), (1, 8, 4, 4)),
    C("ReverseSequence", (4, 3, 2), (3,)),
    C("BitShift", "uint8[40]", "uint8[40]", direction="LEFT"),
    C("CumProd", (3, 4), 0),
    C("Einsum", (3, 4), (4, 5), equation="ij,jk->ik"),
]  # fmt: skip


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
@pytest.mark.parametrize("case", OPERATORS, ids=lambda case: str(case.operator))
def test_operators_take_what_is_drawn_for_them(case: Case, distribution: str) -> None:
    executor = db.frameworks["reference"]().prepare(case.network())
    for seed in range(3):
        with np.errstate(all="ignore"):
            found = executor(case.arrays(seed, distribution))
        for name, array in found.items():
            if distribution != "special" and is_float(array.dtype):
                assert np.isfinite(array).all(), name


@pytest.mark.parametrize(
    ("case", "low"),
    [
        (C("Gemm", (8, 160), (160, 4)), 1e-3),
        (C("Relu", (40,)), 1e-1),
        (C("Exp", (40,)), 1e-20),
        (C("Mul", (40,), (40,)), 1e-2),
    ],
    ids=str,
)
def test_huge_inputs_bring_the_result_near_overflow(case: Case, low: float) -> None:
    with np.errstate(all="ignore"):
        (found,) = db.frameworks["reference"]().prepare(case.network())(case.arrays(0, "huge")).values()
    assert np.abs(found).max() > low * np.finfo(np.float32).max


def test_the_limit_is_that_of_the_narrowest_type_at_hand() -> None:
    wide, narrow = C("Cast", (4,), to=1), C("Cast", (4,), to=10)
    assert limit_of(wide, 0) == pytest.approx(np.finfo(np.float32).max / 4)
    assert limit_of(narrow, 0) == pytest.approx(np.finfo(np.float16).max / 4)
    assert limit_of(C("MatMulInteger", "uint8[2, 2]", "uint8[2, 2]"), 0) is None


def test_the_tables_name_inputs_that_exist() -> None:
    import onnx

    for operator, row in FACTS.items():
        draws = () if callable(row.draws) else row.draws
        if row.constants or draws:
            domain, _, name = operator.rpartition("::")
            schema = onnx.defs.get_schema(name, domain=domain)
            known = {formal.name for formal in schema.inputs}
            assert {*row.constants, *draws} <= known, operator


def test_large_arrays_with_ties_have_few_subnormal_numbers() -> None:
    found = drawn("normal", "float32", "ties", (300, 400))
    below = np.count_nonzero((found != 0) & (np.abs(found) < np.finfo(np.float32).smallest_normal))
    assert 256 <= below <= 512
    assert np.count_nonzero(found == 0) > 10_000
    assert np.count_nonzero(found * 2 != np.round(found * 2)) > 40_000
