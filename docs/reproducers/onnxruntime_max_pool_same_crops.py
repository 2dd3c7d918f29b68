"""SAME pads; where the windows do not reach the end there is nothing to pad."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,1,7] x) => (float[n,c,l] y) {
    y = MaxPool <kernel_shape = [1], strides = [4], auto_pad = "SAME_UPPER"> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)}
demanded = [1, 5]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
