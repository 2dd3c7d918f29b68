"""100.5 is not a member of a set that contains 100 only."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

members = onnx.numpy_helper.from_array(np.array([100, np.nan], np.float32))
weights = onnx.numpy_helper.from_array(np.array([1, 0], np.float32))
modes = onnx.numpy_helper.from_array(np.array([6], np.uint8))
splits = onnx.numpy_helper.from_array(np.zeros(1, np.float32))
leaves = {"leaf_weights": weights, "leaf_targetids": [0, 0], "n_targets": 1, "membership_values": members}
nodes = {"nodes_modes": modes, "nodes_splits": splits, "nodes_featureids": [0], "tree_roots": [0]}
branches = {"nodes_truenodeids": [0], "nodes_trueleafs": [1], "nodes_falsenodeids": [1], "nodes_falseleafs": [1]}
node = helper.make_node("TreeEnsemble", ["x"], ["y"], domain="ai.onnx.ml", **leaves, **nodes, **branches)
values = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [2, 1]) for name in ("x", "y")]
graph = helper.make_graph([node], "network", values[:1], values[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 5)], ir_version=9)
session = ort.InferenceSession(model.SerializeToString())
demanded, came = [1, 0], session.run(None, {"x": np.array([[100], [100.5]], np.float32)})[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
