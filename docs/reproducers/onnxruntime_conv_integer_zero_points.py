"""The standard allows a zero point of the weights for each output channel."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 10]> network
    (uint8[1,1,2] x, uint8[2,1,1] w, uint8 x0, uint8[2] w0)
    => (int32[n,c,l] y) {
    y = ConvInteger (x, w, x0, w0)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {
    "x": np.array([[[2, 3]]], np.uint8),
    "w": np.ones((2, 1, 1), np.uint8),
    "x0": np.array(1, np.uint8),
    "w0": np.array([0, 1], np.uint8),
}
demanded = [1, 2, 0, 0]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
