"""Four numbers that differ."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 11]> network (double[4] x) => (double[n] y) {
    y = Unique <sorted = 0> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([np.nan, 1, 2, 3])}
demanded = (4,)
came = session.run(None, feeds)[0].shape
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
