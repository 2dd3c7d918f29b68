"""The first class has the higher score."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (float[1,1] x) => (int64[1] y, float[1,2] z) {
    y, z = ai.onnx.ml.SVMClassifier <
        coefficients = [0.5, -0.25], rho = [0.0], kernel_params = [0.0, 0.0, 0.0], classlabels_ints = [4, 5]
    > (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 1), np.float32)}
demanded = [4]
came = session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
