"""Values that tell nothing: nothing is said of a framework by them, and where NaN comes from is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.check.special import nothing_in
from deep_bench.cli import main
from deep_bench.errors import InvalidArgument
from deep_bench.network import diverge, profile
from deep_bench.network.divergence import first_nan
from deep_bench.network.reduction import Slower

CHAIN = "g (float[n,4] x) => (float[n,4] y) <float[4] w = {1, 1, 1, 1}> { a = Mul(x, w)  b = Neg(a)  y = Sqrt(b) }"
NAN, ONES = np.full((2, 4), np.nan, np.float32), np.ones((2, 4), np.float32)


def network(text: str = CHAIN) -> db.Network:
    return db.Network.from_proto(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}'))


@pytest.mark.parametrize("framework", ["reference", "onnxruntime"])
def test_nan_in_the_input_leaves_nothing_to_judge(framework: str) -> None:
    found = diverge(network(), framework, {"x": NAN})
    assert not found.judged
    assert {node.word for node in found.nodes} == {"no information"}
    assert "nothing to judge: 3 nodes: what it should give is without a finite element" in found.table()
    assert "NaN is in the input 'x' already: 8 of 8 elements" in found.table()
    assert "rounding explains" not in found.table()


@pytest.mark.parametrize("framework", ["reference", "onnxruntime"])
def test_empty_inputs_leave_nothing_to_judge(framework: str) -> None:
    found = diverge(network(), framework, {"x": NAN[:0]})
    assert not found.judged
    assert "nothing to judge: 3 nodes: what it should give is empty" in found.table()
    assert "the input 'x' is empty: its shape is [0, 4]" in found.table()
    assert "rounding explains" not in found.table()


def test_where_nan_first_appears() -> None:
    found = diverge(network(), "reference", {"x": ONES})
    assert [node.word for node in found.nodes] == ["right", "right", "no information"]
    assert found.judged
    text = found.table()
    assert "NaN first appears in the output 'y' of node 'Sqrt_1' (Sqrt): 8 of 8 elements, from inputs without NaN" in text
    assert "rounding explains what each node that tells something gives alone" in text
    assert "1 of 3 nodes tell nothing" in text
    some = ONES * np.array([1, -1, -1, -1], np.float32)
    found = diverge(network(), "reference", {"x": some})
    assert [node.word for node in found.nodes] == ["right"] * 3
    assert ": 2 of 8 elements, from inputs without NaN" in found.table()


def test_nan_in_a_constant() -> None:
    assert first_nan(network(), {"x": ONES}, {}) == []
    proto = network().to_proto()
    proto.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.array([1, np.nan, 1, 1], np.float32), "w"))
    (said,) = first_nan(db.Network.from_proto(proto), {"x": ONES}, {})
    assert said == "NaN is in the constant 'w' already: 1 of 4 elements"


def test_a_wrong_number_in_the_place_of_nan_is_still_wrong() -> None:
    from deep_bench.reference.network import ReferenceAdapter

    class Hiding(ReferenceAdapter):
        name = "hiding"

        def prepare(self, network: db.Network, **options: object) -> object:
            executor = super().prepare(network, **options)
            own = executor.forward
            executor.forward = lambda inputs: {n: np.nan_to_num(y) for n, y in own(inputs).items()}
            return executor

    found = diverge(network(), Hiding(), {"x": NAN})
    assert found.judged
    assert found.first is not None
    assert found.first.word == "wrong"


@pytest.mark.long
@pytest.mark.parametrize(("x", "said"), [(NAN, "without a finite element"), (NAN[:0], "empty")])
def test_gradients_without_information(x: np.ndarray, said: str) -> None:
    pytest.importorskip("torch")
    found = diverge(network().with_loss("Sum", output="y"), "torch:threads=1", {"x": x}, gradients="loss")
    print(found.table())
    assert said in found.table()
    assert "rounding explains what every replayed node gives" not in found.table()


def test_what_tells_nothing() -> None:
    assert nothing_in([]) == ""
    assert nothing_in([np.zeros(0, np.int64)]) == "empty"
    assert nothing_in([np.zeros(0), np.array([np.inf])]) == "without a finite element"
    assert nothing_in([np.array(["a"], object)]) == ""


def test_the_command_line_does_not_pass_what_it_could_not_judge(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    file = network().save(tmp_path / "net.onnx")
    np.savez(tmp_path / "nan.npz", x=NAN)
    words = ["--on", "reference", "--input", str(tmp_path / "nan.npz"), "--json", str(tmp_path / "d.json")]
    with pytest.raises(SystemExit) as ended:
        main(["diverge", str(file), *words])
    assert ended.value.code == 1
    assert "nothing to judge" in capsys.readouterr().out
    (written,) = json.loads((tmp_path / "d.json").read_text())
    assert (written["judged"], written["interrupted"]) == (False, False)


def test_a_network_without_nodes() -> None:
    empty = network("g (float[2] x) => (float[2] x) { }")
    found = diverge(empty, "reference")
    assert not found.judged
    assert found.table() == "nothing to judge: g has no nodes"
    text = profile(empty, "reference", repeat=1, in_process=True, progress=False).table()
    assert text.startswith("g has no nodes: its outputs are its inputs or constants")
    assert "medians" not in text
    assert "(at )" not in text
    assert "overheads" in text


@pytest.mark.parametrize("times", [0.0, 1.0, -2.0, float("nan"), float("inf")])
def test_slower_by_what_is_no_factor(times: float) -> None:
    with pytest.raises(InvalidArgument, match="above 1"):
        Slower("reference", "onnxruntime", times)
    with pytest.raises(InvalidArgument, match="slower than itself"):
        Slower("reference", "reference", 2.0)
