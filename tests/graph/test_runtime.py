"""The operator that ONNX Runtime writes in the standard's domain."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import deep_bench as db
from deep_bench.errors import InvalidNetwork
from deep_bench.graph.network import SIMPLIFIED_LAYER_NORMALIZATION, known_to_onnx


def network(op_type: str, **attributes: float) -> onnx.ModelProto:
    node = helper.make_node(op_type, ["x", "g"], ["y"], name="n", **attributes)
    x, y = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [2, 3]) for n in "xy")
    weight = onnx.numpy_helper.from_array(np.ones(3, np.float32), "g")
    return helper.make_model(helper.make_graph([node], "g", [x], [y], [weight]), opset_imports=[helper.make_opsetid("", 17)])


def test_it_is_loaded_and_upgraded_as_it_is(tmp_path: Path) -> None:
    onnx.save(network(SIMPLIFIED_LAYER_NORMALIZATION, epsilon=0.5), tmp_path / "n.onnx")
    upgraded = db.load(tmp_path / "n.onnx").upgraded()
    node = next(iter(upgraded.nodes))
    assert (node.op_type, node.domain, node.attributes["epsilon"].value) == (SIMPLIFIED_LAYER_NORMALIZATION, "", 0.5)


def test_others_are_still_unknown(tmp_path: Path) -> None:
    onnx.save(network("ComplicatedLayerNormalization"), tmp_path / "n.onnx")
    with pytest.raises(InvalidNetwork, match="ComplicatedLayerNormalization, unknown in opset 17"):
        db.load(tmp_path / "n.onnx")


def test_onnx_knows_it_for_a_while_only() -> None:
    assert not onnx.defs.has(SIMPLIFIED_LAYER_NORMALIZATION)
    with known_to_onnx(), known_to_onnx():
        assert onnx.defs.has(SIMPLIFIED_LAYER_NORMALIZATION)
    assert not onnx.defs.has(SIMPLIFIED_LAYER_NORMALIZATION)
