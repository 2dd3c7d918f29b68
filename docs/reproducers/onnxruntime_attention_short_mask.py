"""Where nonpad_kv_seqlen is given, the mask may be shorter than the keys: the rest is padding."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 24]> network
    (float[1,1,1,1] q, float[1,1,3,1] k, float[1,1,3,1] v, float[1,2] mask, int64[1] used)
    => (float[1,1,1,1] y) {
    y = Attention (q, k, v, mask, , , used)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {
    "q": np.ones((1, 1, 1, 1), np.float32),
    "k": np.ones((1, 1, 3, 1), np.float32),
    "used": np.array([2]),
    "v": np.array([[[[1], [3], [9]]]], np.float32),
    "mask": np.zeros((1, 2), np.float32),
}
demanded = [2]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
