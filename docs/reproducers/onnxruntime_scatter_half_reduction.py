"""The standard allows float16."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 18]> network
    (float16[1] x, int64[1] i, float16[1] u)
    => (float16[1] y) {
    y = ScatterElements <reduction = "add"> (x, i, u)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones(1, np.float16), "i": np.zeros(1, np.int64), "u": np.ones(1, np.float16)}
demanded = [2]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
