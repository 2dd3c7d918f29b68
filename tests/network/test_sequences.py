"""Networks that take sequences run, but are neither drawn for nor timed."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import deep_bench as db
from deep_bench.errors import InvalidInput, InvalidNetwork
from deep_bench.graph import Network
from deep_bench.network.problem import make_problem


@pytest.fixture
def network() -> Network:
    """The second tensor of a sequence."""
    graph = helper.make_graph(
        [helper.make_node("Constant", [], ["one"], value_int=1), helper.make_node("SequenceAt", ["xs", "one"], ["y"])],
        "second",
        [helper.make_tensor_sequence_value_info("xs", TensorProto.FLOAT, None)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n"])],
    )
    return Network.from_proto(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10))


def test_an_executor_takes_a_list_of_arrays(network: Network) -> None:
    executor = db.frameworks["reference"]().prepare(network)
    found = executor({"xs": [np.zeros(3, np.float32), np.ones(2, np.float32)]})
    np.testing.assert_array_equal(found["y"], [1, 1])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.zeros((2, 3), np.float32), "a list of arrays"),
        (None, "a list of arrays"),
        ([np.zeros(2)], r"'xs\[0\]' has float64"),
    ],
)
def test_anything_else_is_refused(network: Network, value: object, message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        db.frameworks["reference"]().prepare(network)({"xs": value})


def test_an_experiment_refuses_it(network: Network) -> None:
    with pytest.raises(InvalidNetwork, match="xs: sequence of float32 tensors"):
        make_problem(network)
