"""The quantiles of the normal distribution at 0.001 and 0.1."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (float[1,1] x) => (float[1,2] y) {
    y = ai.onnx.ml.LinearRegressor <coefficients = [0.001, 0.1], targets = 2, post_transform = "PROBIT"> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 1), np.float32)}
demanded = [[-3.0902323, -1.2815516]]
came = session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.allclose(came, demanded, 1e-5)))
