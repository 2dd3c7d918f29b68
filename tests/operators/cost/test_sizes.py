"""What is known of the sizes of values, and from where."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

import deep_bench as db
from deep_bench.operators.cost import KnownSizes


def parsed(text: str) -> db.Network:
    imports = '<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]>'
    return db.Network.from_proto(onnx.parser.parse_model(f"{imports} g {text}"))


def test_what_is_like_an_input_is_known_outside_the_standard_too() -> None:
    network = parsed("(float16[2, 3] x) => (float16[2, 3] y) { a = com.microsoft.Gelu(x)  y = Exp(a) }")
    sizes = KnownSizes(network)
    assert [sizes(node.outputs[0]) for node in network.nodes] == [(2, 3), (2, 3)]
    assert [sizes.nbytes(node.outputs[0]) for node in network.nodes] == [12, 12]


def test_what_only_a_run_shows_is_unknown_without_one() -> None:
    network = parsed("(float[4] x) => (float[n] y) { i = NonZero(x)  j = Squeeze(i)  g = Gather(x, j)  y = Exp(g) }")
    last = network.nodes[-1].outputs[0]
    assert (KnownSizes(network)(last), KnownSizes(network).nbytes(last)) == (None, None)
    sizes = KnownSizes(network, {"x": np.array([1, 0, 2, 3], np.float32)})
    assert (sizes(last), sizes.nbytes(last)) == ((3,), 12)


def test_what_inference_knows_needs_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr(KnownSizes, "_run", refuse)
    network = parsed("(float[4] x) => (float[4] y) { y = Exp(x) }")
    assert KnownSizes(network, {"x": np.zeros(4, np.float32)})(network.nodes[0].outputs[0]) == (4,)


def test_strings_have_a_shape_and_no_size() -> None:
    network = parsed("(string[4] x) => (string[4] y) { y = Identity(x) }")
    y = network.nodes[0].outputs[0]
    for sizes in (KnownSizes(network), KnownSizes(network, {"x": np.array(["a", "b", "c", "d"], object)})):
        assert (sizes(y), sizes.nbytes(y)) == ((4,), None)
