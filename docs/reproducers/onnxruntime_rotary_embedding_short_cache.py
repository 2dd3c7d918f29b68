"""The positions, both 0, say which rows of the caches are used; the caches need not be as long as the sequence."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 23]> network
    (float[1,1,2,2] x, float[1,1] cosines, float[1,1] sines, int64[1,2] positions)
    => (float[a,b,c,d] y) {
    y = RotaryEmbedding (x, cosines, sines, positions)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {
    "x": np.ones((1, 1, 2, 2), np.float32),
    "cosines": np.ones((1, 1), np.float32),
    "sines": np.zeros((1, 1), np.float32),
    "positions": np.zeros((1, 2), np.int64),
}
demanded = [1, 1, 1, 1]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
