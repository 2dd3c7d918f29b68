"""A sum over no products is 0; of unsigned integers ONNX Runtime fails at the call."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 13]> network (uint32[n,k] x, uint32[k,m] w) => (uint32[n,m] y) {
    y = MatMul (x, w)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
demanded = [[0]]
try:
    came = session.run(None, {"x": np.zeros((1, 0), np.uint32), "w": np.zeros((0, 1), np.uint32)})[0].tolist()
except Exception as error:
    came = error
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
