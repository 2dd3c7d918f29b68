"""The standard allows a zero point for each row."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 10]> network
    (uint8[2,1] x, uint8[1,1] w, uint8[2] x0)
    => (int32[2,1] y) {
    y = MatMulInteger (x, w, x0)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.full((2, 1), 3, np.uint8), "w": np.ones((1, 1), np.uint8), "x0": np.array([1, 2], np.uint8)}
demanded = [2, 1]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
