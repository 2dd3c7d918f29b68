"""Sizes for open dimensions: stated, from inputs, or chosen and said."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from deep_bench.errors import InvalidArgument, InvalidInput
from deep_bench.graph import Network
from deep_bench.graph.drawing import choose_sizes


def network_of(**shapes: list[str | int | None]) -> Network:
    helper = onnx.helper
    values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in shapes.items()]
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in shapes]
    outputs = [helper.make_tensor_value_info(f"{n}_out", onnx.TensorProto.FLOAT, s) for n, s in shapes.items()]
    graph = helper.make_graph(nodes, "sized", values, outputs)
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))


def test_choices_go_by_name_and_place() -> None:
    network = network_of(image=["batch", 3, None, None], audio=["n", "samples"], tokens=["batch", "seq"])
    sizes = choose_sizes(network, {})
    assert sizes.given == {}
    assert sizes.chosen == {"batch": 1, "image.2": 224, "image.3": 224, "n": 1, "samples": 16_000, "seq": 128}


def test_what_is_stated_wins() -> None:
    network = network_of(tokens=["batch", "seq"])
    sizes = choose_sizes(network, {"seq": 7}, batch=3)
    assert sizes.given == {"batch": 3, "seq": 7}
    assert sizes.chosen == {}


def test_given_inputs_have_their_sizes() -> None:
    network = network_of(tokens=["batch", "seq"])
    assert choose_sizes(network, {}, inputs={"tokens": np.zeros((2, 5), np.float32)}).given == {"batch": 2, "seq": 5}


def test_inputs_of_another_rank_are_refused() -> None:
    with pytest.raises(InvalidInput, match="tokens"):
        choose_sizes(network_of(tokens=["batch", "seq"]), {}, inputs={"tokens": np.zeros(5, np.float32)})


def test_unknown_dimensions_are_refused_with_those_that_exist() -> None:
    with pytest.raises(InvalidArgument, match="batch, seq"):
        choose_sizes(network_of(tokens=["batch", "seq"]), {"length": 3})


def test_a_batch_needs_an_open_first_dimension() -> None:
    with pytest.raises(InvalidArgument, match="leave --batch out"):
        choose_sizes(network_of(tokens=[1, "seq"]), {}, batch=4)


def test_a_batch_and_another_size_for_it_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="leave one of them out"):
        choose_sizes(network_of(tokens=["batch", "seq"]), {"batch": 2}, batch=3)
