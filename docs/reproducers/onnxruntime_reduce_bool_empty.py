"""The greatest of no truth values is false, as the standard says."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 20]> network (bool[0] x) => (bool y) {
    y = ReduceMax <keepdims = 0> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.zeros(0, bool)}
demanded = False
try:
    came = session.run(None, feeds)[0].item()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
