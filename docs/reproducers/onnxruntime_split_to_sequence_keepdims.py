"""keepdims is ignored where the lengths of the parts are given."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 11]> network (int64[3] x, int64 length) => (seq(int64[n]) y) {
    y = SplitToSequence <keepdims = 0> (x, length)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.arange(3), "length": np.array(2)}
demanded = [[0, 1], [2]]
try:
    came = [part.tolist() for part in session.run(None, feeds)[0]]
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
