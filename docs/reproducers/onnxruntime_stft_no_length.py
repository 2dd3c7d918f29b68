"""Without a length and a window a frame is as long as the signal."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 17]> network (float[1,4,1] x) => (float[a,b,c,d] y) {
    step = Constant <value = int64 {1}> ()
    y = STFT (x, step)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 4, 1), np.float32)}
demanded = (1, 1, 3, 2)
try:
    came = session.run(None, feeds)[0].shape
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
