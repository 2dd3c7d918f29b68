"""Of the scores p and 1 - p, the quantiles of the normal distribution are opposite numbers."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (float[2,1] x) => (int64[2] a, float[2,2] y) {
    a, y = ai.onnx.ml.LinearClassifier <
        coefficients = [1.0], intercepts = [0.0], classlabels_ints = [4, 5], post_transform = "PROBIT"
    > (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[0.25], [0.75]], np.float32)}
demanded = [[0.6745, -0.6745], [-0.6745, 0.6745]]  # of the scores 0.75, 0.25 and 0.25, 0.75
came = session.run(None, feeds)[1].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.allclose(came, demanded, 1e-3)))
