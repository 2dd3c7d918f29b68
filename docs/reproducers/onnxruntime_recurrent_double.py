"""The standard allows float64, and ONNX Runtime accepts the network."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 22]> network
    (double[1,1,1] x, double[1,3,1] w, double[1,3,1] r)
    => (double[a,b,c,d] y) {
    y = GRU <hidden_size = 1> (x, w, r)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.zeros((1, 1, 1)), "w": np.zeros((1, 3, 1)), "r": np.zeros((1, 3, 1))}
demanded = [0]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
