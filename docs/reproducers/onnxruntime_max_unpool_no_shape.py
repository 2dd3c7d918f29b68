"""An optional input may be left out by an empty name."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,1,1] x, int64[1,1,1] i) => (float[a,b,c] y) {
    y = MaxUnpool <kernel_shape = [2], strides = [2]> (x, i)
}"""
model = onnx.parser.parse_model(TEXT)
model.graph.node[0].input.append("")
session = ort.InferenceSession(model.SerializeToString())
feeds = {"x": np.ones((1, 1, 1), np.float32), "i": np.array([[[1]]])}
demanded = [0, 1]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
