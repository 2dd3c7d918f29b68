"""The suite, and those that ship: their counts, and that their sizes are the published ones."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from importlib.metadata import EntryPoint, EntryPoints
from math import prod
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench import registry as registry_module
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.operators.case import Case
from deep_bench.operators.suites import convnet, deepbench, transformer
from deep_bench.operators.suites.from_network import suite_of
from deep_bench.operators.suites.suite import Suite

COUNTS = {
    "gemm": {"training": 160, "server": 75, "device": 13},
    "conv": {"training": 94, "server": 107, "device": 16},
    "rnn": {"training": 53, "server": 69, "device": 3},
    "sparse_gemm": {"server": 24, "device": 8},
}
LISTS = [(kind, part, count) for kind, parts in COUNTS.items() for part, count in parts.items()]


def mine() -> Suite:
    cases = [
        Case.of("Gelu", (2, 3), tags=["small", "float"]),
        Case.of("Gelu", (20, 30), tags=["float"]),
        Case.of("Softmax", (2, 3), tags=["small"]),
        Case.of("Gemm", (2, 3), (3, 4), count=3),
        Case.of("Gemm", (2, 3), (3, 4), alpha=0.5),
    ]
    return Suite("mine", cases, "me", "MIT", ("a note",))


# The suite


def test_labels_are_told_apart() -> None:
    assert mine().labels == ("Gelu 2x3", "20x30", "Softmax 2x3", "2x4x3", "2x4x3 #2")


def test_a_case_is_found_by_its_label_or_its_name() -> None:
    suite = mine()
    assert suite.case("20x30") is suite.case("Gelu 20x30") is suite[1]
    with pytest.raises(UnknownName, match="did you mean 'Gelu 2x3'"):
        suite.case("Gelu 2x4")


def test_slices_and_sums_are_suites() -> None:
    suite = mine()
    assert suite[1:3].labels == ("20x30", "Softmax 2x3")
    both = suite + Suite("yours", suite[:1].cases, "you", "", ("another",))
    assert (both.name, both.source, both.licence, both.notes) == ("mine + yours", "me; you", "MIT", ("a note", "another"))
    assert both.labels[-1] == "Gelu 2x3 #2"
    more = (Case.of("Relu", (n,)) for n in (3, 4))
    assert (suite + more).labels[-2:] == ("3", "4")


def test_filters_hold_together() -> None:
    suite = mine()
    assert suite.filter("Gemm*").labels == ("2x4x3", "2x4x3 #2")
    assert suite.filter(tags=["small", "float"]).labels == ("Gelu 2x3",)
    assert suite.filter(tags="small", operator="Softmax").labels == ("Softmax 2x3",)
    assert suite.filter(where=lambda case: case.count > 1).labels == ("2x4x3",)


def test_a_filter_that_leaves_nothing_says_what_there_is() -> None:
    with pytest.raises(InvalidArgument, match=r"tags smal and the operator Gelu\n.*tags float, small"):
        mine().filter(tags="smal", operator="Gelu")


def test_samples_are_pure_in_the_seed_and_in_order() -> None:
    suite = db.suites["deepbench/gemm/training"]
    first, again, other = suite.sample(10, 1), suite.sample(10, 1), suite.sample(10, 2)
    assert first == again
    assert first != other
    places = [suite.labels.index(label) for label in first.labels]
    assert places == sorted(set(places))
    assert len(mine().sample(99)) == 5
    with pytest.raises(InvalidArgument, match="a sample of 0 cases"):
        suite.sample(0)


def test_another_element_type() -> None:
    narrow = (db.suites["transformer/embedding"][:1] + mine()).with_dtype("bfloat16")
    assert [str(a) for a in narrow[0].arguments] == ["data: bfloat16[30522, 768]", "indices: int64[8, 128]"]
    assert narrow[-1].results[0].dtype == np.dtype("bfloat16")
    masked = Case.of("Attention", (1, 2, 4, 8), (1, 2, 6, 8), (1, 2, 6, 8), "bool[4, 6]")
    (found,) = Suite("masked", [masked]).with_dtype("float16")
    assert [str(a.dtype) for a in found.arguments if a is not None] == ["float16"] * 3 + ["bool"]
    with pytest.raises(InvalidArgument, match="Gelu 2x3 in int8"):
        mine().with_dtype("int8")


def test_suites_are_values() -> None:
    assert mine() == mine()
    assert pickle.loads(pickle.dumps(mine())) == mine()
    with pytest.raises(InvalidArgument, match=r"'Gemm' in the suite 'x'"):
        Suite("x", ["Gemm"])  # type: ignore[list-item]


# From anything


def test_a_suite_from_whatever_there_is(tmp_path: Any) -> None:
    assert suite_of(mine()) == mine()
    assert suite_of("deepbench/gemm/device").name == "deepbench/gemm/device"
    assert suite_of(list(mine())).labels == mine().labels
    assert suite_of(mine().save(tmp_path / "mine.toml")) == mine()
    assert suite_of(db.load("digits-cnn")).name == "digits-cnn"
    with pytest.raises(InvalidArgument, match="3 as a suite"):
        suite_of(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="'collections:abc' is a module\nExpected: a suite"):
        suite_of("collections:abc")


# The registry


def test_iterating_imports_nothing() -> None:
    code = (
        "import sys; from deep_bench import suites; list(suites); 'transformer/gelu' in suites; "
        "print([m for m in sys.modules if m.startswith(('onnx', 'deep_bench.operators'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", list(db.suites))
def test_a_name_gives_the_suite(name: str) -> None:
    suite = db.suites[name]
    assert isinstance(suite, Suite)
    assert suite.name == name
    assert suite.source
    assert all(case.source and case.tags for case in suite)
    assert suite == db.suites[name]


def test_an_unknown_name_suggests_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'transformer/gelu'"):
        db.suites["transformer/glu"]


def test_other_packages_add_suites(monkeypatch: pytest.MonkeyPatch) -> None:
    points = [EntryPoint("theirs", f"{mine.__module__}:mine", "deep_bench.suites")]
    monkeypatch.setattr(registry_module, "entry_points", lambda group: EntryPoints(points).select(group=group))
    monkeypatch.setattr(EntryPoint, "load", lambda self: mine)
    assert db.suites["theirs"] == mine()


# deepbench


@pytest.mark.parametrize(("kind", "part", "count"), LISTS)
def test_deepbench_is_whole(kind: str, part: str, count: int) -> None:
    suite = db.suites[f"deepbench/{kind}/{part}"]
    assert len(suite) == count == len(deepbench.rows(kind, part))
    assert suite.licence == "Apache-2.0"


def test_deepbench_has_no_other_lists() -> None:
    assert [name for name in db.suites if name.startswith("deepbench/")] == sorted(f"deepbench/{k}/{p}" for k, p, _ in LISTS)
    assert len(deepbench.all_reduce_sizes()) == 7


def column_major(array: np.ndarray) -> np.ndarray:
    """A matrix whose first dimension is contiguous, as a BLAS in Fortran has it, of the same bytes as a row-major array."""
    return array.reshape(-1).reshape(array.shape[::-1], order="F")


@pytest.mark.parametrize(
    "row",
    [
        {"m": 5, "n": 3, "k": 4, "a_transposed": a, "b_transposed": b}
        for a, b in ((False, False), (True, False), (False, True))
    ],
)
def test_matrix_products_are_deepbenchs_on_the_same_bytes(row: dict[str, Any]) -> None:
    case = deepbench._gemm(row)
    given = case.arrays()
    found = db.frameworks["reference"]().prepare(case.network())(given)["Y"]
    a, b = column_major(given["B"]), column_major(given["A"])
    assert a.shape == ((4, 5) if row["a_transposed"] else (5, 4))
    assert b.shape == ((3, 4) if row["b_transposed"] else (4, 3))
    expected = (a.T if row["a_transposed"] else a) @ (b.T if row["b_transposed"] else b)
    np.testing.assert_allclose(column_major(found), expected, rtol=1e-5)


@pytest.mark.parametrize(("kind", "part", "count"), [lists for lists in LISTS if "gemm" in lists[0]])
def test_matrix_products_have_the_published_sizes(kind: str, part: str, count: int) -> None:
    for case, row in zip(db.suites[f"deepbench/{kind}/{part}"], deepbench.rows(kind, part), strict=True):
        assert case.results[0].shape == (row["n"], row["m"])
        assert prod(case.arguments[0].shape) == row["n"] * row["k"]  # type: ignore[union-attr]
        assert case.label.split(" ")[0] == f"{row['m']}x{row['n']}x{row['k']}"


def test_sparse_products_have_the_published_share_of_zeros() -> None:
    case = db.suites["deepbench/sparse_gemm/device"][0]
    arrays = case.arrays()
    assert abs((arrays["B"] == 0).mean() - 0.95) < 0.001
    assert (arrays["A"] != 0).all()
    assert arrays["B"].shape == (2560, 7680)


@pytest.mark.parametrize("part", ["training", "server", "device"])
def test_convolutions_have_the_published_sizes(part: str) -> None:
    for case, row in zip(db.suites[f"deepbench/conv/{part}"], deepbench.rows("conv", part), strict=True):
        made = [
            (row[side] + 2 * row[f"pad_{side}"] - row[f"filter_{side}"]) // row[f"stride_{side}"] + 1 for side in ("h", "w")
        ]
        assert case.results[0].shape == (row["n"], row["k"], *made)


def test_width_and_height_are_not_mixed_up() -> None:
    row = {"w": 20, "h": 10, "c": 2, "n": 3, "k": 5, "filter_w": 4, "filter_h": 3}
    case = deepbench._conv(row | {"pad_w": 2, "pad_h": 0, "stride_w": 3, "stride_h": 1})
    assert case.results[0].shape == (3, 5, 8, 7)


def test_convolutions_listed_twice_stay_two() -> None:
    suite = db.suites["deepbench/conv/training"]
    assert sum(label.endswith("#2") for label in suite.labels) == 4
    assert suite.case("7x7x512x8 512 3x3 p1x1 s1x1 #2").problem == suite.case("7x7x512x8 512 3x3 p1x1 s1x1").problem


def test_recurrent_networks_are_of_the_named_cells() -> None:
    suite = db.suites["deepbench/rnn/server"] + db.suites["deepbench/rnn/device"]
    operators = {"vanilla": "RNN", "lstm": "LSTM", "gru": "GRU"}
    for case, row in zip(suite, deepbench.rows("rnn", "server") + deepbench.rows("rnn", "device"), strict=True):
        assert case.operator == operators[row["cell"]]
        assert case.results[0].shape == (row["steps"], 1, row["batch"], row["hidden"])
        assert row["cell"] in case.tags


@pytest.mark.parametrize("cell", ["vanilla", "lstm", "gru"])
def test_recurrent_networks_run(cell: str) -> None:
    case = deepbench._rnn({"hidden": 6, "batch": 2, "steps": 3, "cell": cell})
    found = db.frameworks["reference"]().prepare(case.network())(case.arrays())["Y"]
    assert found.shape == (3, 1, 2, 6)
    assert (found.min() >= 0) == (cell == "vanilla")  # a ReLU cell


# transformer


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        (transformer.BERT_BASE, 109_482_240),
        (transformer.BERT_LARGE, 335_141_888),
        (transformer.GPT2, 124_439_808),
        (transformer.GPT2_XL, 1_557_611_200),
        (transformer.LLAMA3_8B, 8_030_261_248),
        (transformer.LLAMA3_70B, 70_553_706_496),
        (transformer.MISTRAL_7B, 7_241_732_096),
        (transformer.VIT_B16, 86_567_656),
        (transformer.VIT_L16, 304_326_632),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_models_have_exactly_their_published_number_of_parameters(
    model: transformer.TransformerModel, parameters: int
) -> None:
    width, inner = model.hidden, model.feed_forward
    table, places = model.vocabulary * width, model.context * width
    if model in transformer._GATED:  # no biases; one weight for a normalisation; its own table for the output
        block = 2 * width * width + 2 * width * model.kv_heads * model.head + 3 * width * inner + 2 * width
        assert 2 * table + model.layers * block + width == parameters
        return
    block = 4 * (width * width + width) + 2 * width * inner + inner + width + 4 * width
    kinds = {
        "bert": table + places + 2 * width + 2 * width + width * width + width,  # two segments; what pools the first token
        "gpt2": table + places + 2 * width,
        "vit": 3 * 16 * 16 * width + width + width + places + 2 * width + 1000 * width + 1000,  # patches, class token, head
    }
    assert model.layers * block + kinds[model.name.partition("-")[0]] == parameters


def test_gelu_is_what_the_models_compute() -> None:
    forms = {
        case.label.partition(" ")[0]: case.attributes.get("approximate", "none") for case in db.suites["transformer/gelu"]
    }
    exact = dict.fromkeys(["bert-base", "bert-large"], "none")
    assert forms == exact | dict.fromkeys(["vit-b16", "vit-l16", "gpt2", "gpt2-xl"], "tanh")


def test_attention_covers_what_it_says() -> None:
    suite = db.suites["transformer/attention"]
    assert {"encode", "prefill", "decode", "append", "gqa", "long-context", "sliding-window"} <= suite.tags
    for case in suite:
        queries, keys, values = (a.shape for a in case.arguments[:3] if a is not None)
        assert keys == values
        assert queries[1] % keys[1] == 0
        assert ("gqa" in case.tags) == (queries[1] > keys[1])
        assert ("decode" in case.tags) == (queries[2] == 1)


def elements(case: Case) -> int:
    """How many it is given and gives."""
    return sum(prod(map(int, spec.shape)) for spec in (*case.drawn, *case.results))


@pytest.mark.parametrize("name", [name for name in db.suites if name.startswith("transformer/")])
def test_the_smallest_case_of_each_operator_runs(name: str) -> None:
    case = min(db.suites[name], key=elements)
    found = db.frameworks["reference"]().prepare(case.network())(case.arrays())
    assert [a.shape for a in found.values()] == [r.shape for r in case.results]
    assert all(np.isfinite(a).all() for a in found.values())


def test_counts_are_of_one_pass() -> None:
    linear = db.suites["transformer/linear"].filter("llama3-8b prefill 1x512*")
    assert sum(case.count for case in linear) == 32 * 5
    assert db.suites["transformer/layer_norm"].case("gpt2 prefill 1x1024").count == 25
    assert transformer.rms_norm().case("mistral-7b decode 1x1").count == 65


# convnet


def test_convolutions_are_counted() -> None:
    suite = db.suites["convnet/resnet50"]
    counted = Counter(convnet.resnet50_convolutions())
    assert [case.count for case in suite] == list(counted.values())
    assert sum(case.count for case in suite) == 53
    assert suite.case("1x256x14x14 256x256x3x3 p1").count == 5
    assert sum(case.count for case in db.suites["convnet/mobilenet_v2"]) == 52
    assert sum(case.count for case in db.suites["convnet/unet"]) == 23


@pytest.mark.parametrize(
    ("network", "features", "products", "parameters"),
    [  # products (multiply-adds) from the papers; parameters as torchvision lists them
        (convnet.resnet50_convolutions, 2048, 4.09e9, 25_557_032),
        (convnet.resnext50_convolutions, 2048, 4.23e9, 25_028_904),
        (convnet.mobilenet_v2_convolutions, 1280, 0.300e9, 3_504_872),
    ],
)
def test_architectures_have_their_published_cost(
    network: Callable[[], Any], features: int, products: float, parameters: int
) -> None:
    layers = list(network())
    assert sum(layer.products for layer in layers) + features * 1000 == pytest.approx(products, rel=0.005)
    normalised = sum(layer.parameters + 2 * layer.filters for layer in layers)
    assert normalised + features * 1000 + 1000 == parameters


def test_conv_tasnet_dilates_in_three_stacks() -> None:
    depthwise = [c for c in convnet.conv_tasnet_convolutions() if c.groups > 1]
    assert [c.dilation for c in depthwise] == [2**power for power in range(8)] * 3


@pytest.mark.parametrize("name", [name for name in db.suites if name.startswith("convnet/")])
def test_outputs_are_as_large_as_the_architecture_says(name: str) -> None:
    sources: dict[str, list[Any]] = {
        "convnet/resnet50": list(convnet.resnet50_convolutions()),
        "convnet/mobilenet_v2": list(convnet.mobilenet_v2_convolutions()),
        "convnet/unet": list(convnet.unet_convolutions()),
        "convnet/3d": list(convnet.c3d_convolutions()),
        "convnet/1d": [*convnet.wav2vec2_convolutions(), *convnet.conv_tasnet_convolutions()],
        "convnet/dilated": list(convnet.deeplab_v3_convolutions()),
        "convnet/grouped": [c for c in convnet.resnext50_convolutions() if c.groups > 1],
        "convnet/depthwise": [
            *(c for c in convnet.mobilenet_v2_convolutions() if c.groups > 1),
            *convnet.convnext_tiny_convolutions(),
        ],
    }
    layers = list(dict.fromkeys(sources[name]))
    assert [case.results[0].shape for case in db.suites[name]] == [(1, layer.filters, *layer.made) for layer in layers]


def test_networks_end_where_their_papers_say() -> None:
    assert list(convnet.unet_convolutions())[-1].made == (388, 388)
    assert list(convnet.wav2vec2_convolutions())[-1].made == (49,)  # 20 ms of 16 kHz
    assert {c.made for c in convnet.conv_tasnet_convolutions()} == {(2001,)}
    assert {c.made for c in convnet.deeplab_v3_convolutions()} == {(33, 33)}
    assert list(convnet.resnet50_convolutions())[-1].made == (7, 7)


def test_kinds_are_tagged() -> None:
    assert {"depthwise", "pointwise", "strided"} <= db.suites["convnet/mobilenet_v2"].tags
    assert "transposed" in db.suites["convnet/unet"].tags
    assert all("dilated" in case.tags for case in db.suites["convnet/dilated"])
    assert all("grouped" in case.tags for case in db.suites["convnet/grouped"])
    assert {"1d", "dilated"} <= db.suites["convnet/1d"].tags


def test_another_batch() -> None:
    assert convnet.resnet50(batch=4)[0].arguments[0].shape == (4, 3, 224, 224)  # type: ignore[union-attr]
