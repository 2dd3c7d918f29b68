"""Without saturation what is beyond the largest float8_e5m2, 57344, becomes infinity, which the format has."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 19]> network (float[1] x) => (float[1] y) {
    narrow = Cast <to = 19, saturate = 0> (x)
    y = Cast <to = 1> (narrow)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([62000], np.float32)}
demanded = np.inf
came = session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
