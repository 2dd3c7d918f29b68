"""An optional input may be left out by an empty name."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 17]> network (float[2] x, float[2] scale) => (float[2] y) {
    y = LayerNormalization (x, scale)
}"""
feeds = {"x": np.array([1, -1], np.float32), "scale": np.ones(2, np.float32)}
print("demanded:", [1, -1], "came:", flush=True)
model = onnx.parser.parse_model(TEXT)
model.graph.node[0].input.append("")
session = ort.InferenceSession(model.SerializeToString())
print(session.run(None, feeds)[0].ravel().tolist())
