"""1 / (1 + exp(20)), which float32 holds to 7 digits."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1] x) => (float[1] y) {
    y = Sigmoid (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([-20], np.float32)}
demanded = 1 / (1 + float(np.exp(20.0)))
came = session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came / demanded - 1) > 1e-5))
