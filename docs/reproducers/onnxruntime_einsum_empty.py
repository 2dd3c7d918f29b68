"""A sum over no elements is 0."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 12]> network (float[3,1,0] x, float[3,5,0] y) => (float[a,b,c] z) {
    z = Einsum <equation = "bij, bkj -> bik"> (x, y)
}"""
feeds = {"x": np.zeros((3, 1, 0), np.float32), "y": np.zeros((3, 5, 0), np.float32)}
print("demanded:", [0] * 15, "came:", flush=True)
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
print(session.run(None, feeds)[0].ravel().tolist())
