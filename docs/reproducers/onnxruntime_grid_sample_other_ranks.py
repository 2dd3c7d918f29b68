"""The standard allows any number of spatial axes: here the middle of three elements."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 20]> network (float[1,1,3] x, float[1,1,1] grid) => (float[1,1,1] y) {
    y = GridSample (x, grid)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[[1, 2, 3]]], np.float32), "grid": np.zeros((1, 1, 1), np.float32)}
demanded = 2.0
try:
    came = session.run(None, feeds)[0].item()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
