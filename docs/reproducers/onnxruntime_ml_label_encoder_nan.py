"""Keys are compared bit by bit, so that NaN can be mapped, says version 2."""

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper

node = helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", keys_floats=[np.nan, 1.0], values_int64s=[5, 6])
inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [2])]
outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [2])]
graph = helper.make_graph([node], "network", inputs, outputs)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 2)], ir_version=9)
session = ort.InferenceSession(model.SerializeToString())
demanded, came = [5, 6], session.run(None, {"x": np.array([np.nan, 1], np.float32)})[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
