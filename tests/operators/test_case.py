"""The case: made from shapes, checked against the schema, a value, a network, arrays."""

from __future__ import annotations

import pickle
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import DeepBenchError, InvalidArgument, UnknownName
from deep_bench.graph import OPSET
from deep_bench.operators.argument import Argument
from deep_bench.operators.case import Case
from deep_bench.tensor import TensorSpec


def silu_gate(x: np.ndarray, gate: np.ndarray, *, slope: float = 1.0) -> np.ndarray:
    """``x sigmoid(slope x) gate``."""
    return x / (1 + np.exp(-slope * x)) * gate


def halves(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first and the second half of a vector."""
    return x[: len(x) // 2], x[len(x) // 2 :]


def specs(case: Case) -> list[str]:
    return [str(a) for a in case.arguments]


# Making one


def test_names_are_those_of_the_schema() -> None:
    network = Case.of("Gemm", (2, 3), (4, 3), (4,), transB=1).network()
    assert [str(s) for s in network.inputs] == ["A: float32[2, 3]", "B: float32[4, 3]", "C: float32[4]"]
    assert [str(s) for s in network.outputs] == ["Y: float32[2, 4]"]
    assert [(n.name, n.op_type) for n in network.nodes] == [("Gemm", "Gemm")]
    assert network.opset == OPSET


def test_variadic_inputs_and_outputs_are_numbered() -> None:
    assert specs(Case.of("Sum", (2,), (2,))) == ["data_0_0: float32[2]", "data_0_1: float32[2]"]
    assert [r.name for r in Case.of("Split", (6,), [2, 4]).results] == ["outputs_0", "outputs_1"]
    assert [r.shape for r in Case.of("Split", (6,), num_outputs=3).results] == [(2,)] * 3


def test_an_output_never_has_the_name_of_an_input() -> None:
    network = Case.of(lambda y: 2 * y, (3,)).network()
    assert [s.name for s in network.inputs] + [s.name for s in network.outputs] == ["y", "y_out"]


def test_arrays_lists_and_numbers_are_constants() -> None:
    case = Case.of("Clip", (2, 3), 0, np.float32(6))
    assert specs(case)[1:] == ["min: float32[] = 0.", "max: float32[] = 6."]
    assert [s.name for s in case.network().inputs] == ["input"]
    assert set(case.network().initializers) == {"min", "max"}
    assert list(case.arrays()) == ["input"]
    axes = Case.of("ReduceSum", (2, 3), [1], keepdims=0)
    assert axes.results[0].shape == (2,)
    assert axes.arguments[1] is not None
    assert axes.arguments[1].dtype == np.int64


def test_omitted_inputs_stay_omitted() -> None:
    case = Case.of("Clip", (2,), None, 1.0)
    node = case.network().nodes[0]
    assert [v.name if v is not None else None for v in node.inputs] == ["input", None, "max"]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "float32"])
def test_the_element_type_goes_where_it_fits(dtype: str) -> None:
    data, indices = Case.of("Gather", (9, 4), (2,), dtype=dtype).arguments
    assert data is not None
    assert indices is not None
    assert (str(data.dtype), str(indices.dtype)) == (dtype, "int64")


def test_an_element_type_that_one_input_states_holds_for_its_kin() -> None:
    assert specs(Case.of("Add", "float16[2, 3]", (3,)))[1] == "B: float16[3]"
    assert specs(Case.of("QLinearMatMul", "uint8[2, 3]", (), "uint8[]", "int8[3, 4]", (), "int8[]", (), "uint8[]"))[1] == (
        "a_scale: float32[]"
    )


@pytest.mark.parametrize(
    ("operator", "shapes", "attributes", "label"),
    [
        ("Gemm", [(5124, 2048), (2048, 700)], {}, "5124x700x2048"),
        ("Gemm", [(3, 2), (4, 3)], {"transA": 1, "transB": 1}, "2x4x3 TT"),
        ("MatMul", [(8, 2, 3), (3, 4)], {}, "8 2x4x3"),
        ("Gelu", [(2, 3)], {}, "2x3"),
        ("Gelu", [()], {}, "scalar"),
        ("Add", [(2, 3), ()], {}, "2x3"),
        ("Reshape", [(2, 3), [6]], {}, "2x3"),
    ],
)
def test_labels_are_made_from_sizes(operator: str, shapes: list[Any], attributes: dict[str, Any], label: str) -> None:
    assert Case.of(operator, *shapes, **attributes).label == label


def test_attributes_are_stored_as_the_schema_has_them() -> None:
    network = Case.of("Elu", (2,), alpha=2).network()
    assert network.nodes[0].attributes["alpha"].as_float() == 2.0
    constant = Case.of("ConstantOfShape", [2, 3], value=np.array([7], np.int32))
    assert constant.results[0] == TensorSpec("output", (2, 3), np.dtype("int32"))
    cast = Case.of("EyeLike", (2, 2), settings={"dtype": 7})
    assert cast.results[0].dtype == np.int64


def test_operators_of_other_domains() -> None:
    case = Case.of("com.microsoft::BiasGelu", (2, 3), (3,))
    assert (case.domain, case.op_type) == ("com.microsoft", "BiasGelu")
    assert [r.shape for r in case.results] == [(2, 3)]
    network = case.network()
    assert network.opsets["com.microsoft"] == 1
    assert db.frameworks["reference"]().prepare(network)(case.arrays())["y"].shape == (2, 3)


def test_an_operator_without_a_schema_that_does_not_run_says_why() -> None:
    with pytest.raises(
        InvalidArgument, match=r"BiasGelu\(x0: float32\[2, 3\], x1: float32\[4\]\) cannot be run: ValueError"
    ):
        Case.of("com.microsoft::BiasGelu", (2, 3), (4,)).network()
    with pytest.raises(DeepBenchError, match=r"com\.microsoft:NoSuch"):
        Case.of("com.microsoft::NoSuch", (2, 3)).network()


def test_a_schema_that_infers_nothing_is_run() -> None:
    assert Case.of("SimplifiedLayerNormalization", (2, 3), (3,)).results[0].shape == (2, 3)


def test_a_dimension_that_depends_on_contents_has_a_name() -> None:
    assert Case.of("NonZero", (2, 3)).results[0].shape[0] == 2
    assert isinstance(Case.of("NonZero", (2, 3)).results[0].shape[1], str)


# Functions


def test_a_numpy_function_becomes_a_node_of_the_domain_numpy() -> None:
    case = Case.of(silu_gate, (2, 3), (2, 3), slope=1.5)
    network = case.network()
    node = network.nodes[0]
    assert (node.domain, node.op_type, node.name) == ("numpy", "silu_gate", "silu_gate")
    assert [s.name for s in network.inputs] == ["x", "gate"]
    assert [str(s) for s in network.outputs] == ["y: float32[2, 3]"]
    assert node.attributes["slope"].as_float() == 1.5


def test_a_function_says_how_many_arrays_it_returns() -> None:
    assert [r.shape for r in Case.of(halves, (5,), outputs=2).results] == [(2,), (3,)]
    with pytest.raises(InvalidArgument, match=r"halves returned 2 arrays, and its case says outputs=1"):
        _ = Case.of(halves, (5,)).results


def test_a_function_that_fails_says_why() -> None:
    with pytest.raises(InvalidArgument, match=r"silu_gate\(x: float32\[2\], gate: float32\[3\]\) cannot be run: ValueError"):
        Case.of(silu_gate, (2,), (3,)).network()


# What is refused


@pytest.mark.parametrize(
    ("arguments", "attributes", "message"),
    [
        (["Gemm", (2, 3)], {}, r"Gemm of 1 input\nExpected: Gemm\(A, B, \[C\]; alpha=1.0"),
        (["Gelu", (2,), (3,)], {}, r"Gelu of 2 inputs"),
        (["Gemm", None, (3, 2)], {}, r"Gemm without its input A"),
        (["Gemm", (2, 3), (3, 2)], {"transb": 1}, r"no attribute 'transb'[\s\S]*did you mean 'transB'"),
        (["Gelu", (2,)], {"approximate": 3}, r"approximate=3"),
        (["Cast", (2,)], {}, r"Cast without its attribute 'to'"),
        (["Gelu", "int32[2]"], {}, r"X of int32\nExpected: one of"),
        (["Gelu", (2,)], {"dtype": "int32"}, r"Gelu of int32\nExpected: X: bfloat16"),
        (["Gelu", (2,)], {"dtype": "flot32"}, r"element type 'flot32'"),
        (["Add", "float16[2]", "float32[2]"], {}, r"A of float16 and B of float32"),
        (["Gemm", (2, 3), (4, 2)], {}, r"A: float32\[2, 3\], B: float32\[4, 2\]\) do not fit each other"),
        (["Reshape", (2, 3), (2,)], {}, r"shape: int64\[2\] to be drawn\nExpected: the numbers that shape holds"),
        (["ReduceSum", (2, 3), [0.5]], {}, r"the constant \[0.5\]\nExpected: numbers of int64"),
        (["Gelu", "2x3"], {}, r"an input '2x3'"),
        (["Gelu", (2, -3)], {}, r"an input \(2, -3\)"),
        (["If", True], {}, r"If with the graph 'else_branch'"),
        (["Gelu", (2,)], {"draws": {"x": "normal"}}, r"a draw for 'x'\nExpected: one of its inputs: X"),
        (["Gelu", (2,)], {"count": 0}, r"count=0"),
    ],
)
def test_what_does_not_fit_is_refused(arguments: list[Any], attributes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        Case.of(*arguments, **attributes)
    assert re.search(message, str(caught.value))


def test_an_unknown_operator_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'LayerNormalization'"):
        Case.of("LayerNormalisation", (2, 3))


def test_an_argument_must_agree_with_its_value() -> None:
    with pytest.raises(InvalidArgument, match=r"float64\[2\] for x: float32\[2\]"):
        Argument(TensorSpec("x", (2,), np.dtype("float32")), np.ones(2))
    with pytest.raises(InvalidArgument, match="dimensions are all numbers"):
        Argument(TensorSpec("x", ("n",), np.dtype("float32")))


# Cases are values


def cases() -> list[Case]:
    return [
        Case.of("Gemm", (2, 3), (3, 4)),
        Case.of("Gemm", (2, 3), (3, 4), alpha=1),
        Case.of("Gemm", (2, 3), (3, 4), alpha=1.0),
        Case.of("Gemm", (2, 3), (3, 4), tags=["a"]),
        Case.of("Gemm", (2, 3), (3, 4), label="x"),
        Case.of("Gemm", (2, 3), (3, 4), count=2),
        Case.of("Gemm", (2, 3), (3, 4), dtype="float16"),
        Case.of("Gemm", (2, 3), (3, 4), draws={"A": "sparse:0.5"}),
        Case.of("Gemm", (2, 3), (3, 4), None),
        Case.of("Reshape", (2, 3), [3, 2]),
        Case.of("Reshape", (2, 3), [2, 3]),
        Case.of("Cast", "int4[3]", to=7),
        Case.of(silu_gate, (2,), (2,)),
        Case.of("Add", np.array([1, 2], ml_dtypes.bfloat16), (2,)),
    ]


def test_equality_is_of_content() -> None:
    assert cases() == cases()
    assert len(set(cases())) == len(cases())
    assert [hash(a) == hash(b) for a, b in zip(cases(), cases(), strict=True)] == [True] * len(cases())


def test_pickling_keeps_all() -> None:
    found = pickle.loads(pickle.dumps(cases()))
    assert found == cases()
    assert [str(r) for r in found[0].results] == ["Y: float32[2, 4]"]


def test_cases_cannot_be_changed() -> None:
    case = cases()[9]
    assert case.arguments[1] is not None
    value = case.arguments[1].value
    assert value is not None
    with pytest.raises(ValueError, match="read-only"):
        value[0] = 7
    with pytest.raises(TypeError):
        case.attributes["allowzero"] = 1  # type: ignore[index]
    given = np.array([3, 2])
    reshape = Case.of("Reshape", (2, 3), given)
    given[:] = [6, 1]
    assert reshape == Case.of("Reshape", (2, 3), [3, 2])


def test_the_problem_leaves_out_what_only_names_it() -> None:
    plain, tagged = Case.of("Gelu", (2,)), Case.of("Gelu", (2,), label="x", tags=["a"], count=3, source="s")
    assert plain != tagged
    assert plain.problem == tagged.problem
    assert Case.of("Gelu", (2,)).problem != Case.of("Gelu", (3,)).problem


# Running one


@pytest.mark.parametrize("case", [c for c in cases() if isinstance(c.operator, str)], ids=str)
def test_the_reference_runs_it(case: Case) -> None:
    found = db.frameworks["reference"]().prepare(case.network())(case.arrays(seed=3))
    assert [(n, a.shape, a.dtype) for n, a in found.items()] == [(r.name, r.shape, r.dtype) for r in case.results]


def test_arrays_are_pure_in_the_seed() -> None:
    case = Case.of("Add", (4,), (4,))
    first, again, other = case.arrays(1), case.arrays(1), case.arrays(2)
    assert all(np.array_equal(first[n], again[n]) for n in first)
    assert not np.array_equal(first["A"], other["A"])
    assert not np.array_equal(first["A"], first["B"])


def test_a_function_may_draw() -> None:
    def sevens(rng: np.random.Generator, spec: TensorSpec) -> np.ndarray:
        return np.full(spec.shape, 7, spec.dtype)

    assert Case.of("Gelu", (2,), draws={"X": sevens}).arrays()["X"].tolist() == [7, 7]
    wrong = Case.of("Gelu", (2,), draws={"X": lambda rng, spec: np.zeros(3)})
    with pytest.raises(InvalidArgument, match=r"a draw gave float64\[3\]"):
        wrong.arrays()


def test_unknown_draws_and_distributions_suggest_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'positive'"):
        Case.of("Gelu", (2,), draws={"X": "positiv"}).arrays()
    with pytest.raises(UnknownName, match="did you mean 'wide'"):
        Case.of("Gelu", (2,)).arrays(distribution="wid")
    with pytest.raises(DeepBenchError, match="numbers after colons"):
        Case.of("Gelu", (2,), draws={"X": "below:x"}).arrays()
