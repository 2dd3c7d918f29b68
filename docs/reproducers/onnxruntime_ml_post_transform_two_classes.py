"""What SOFTMAX makes of two scores lies between 0 and 1 and has the sum 1."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (float[1,1] x) => (int64[1] a, float[1,2] raw, int64[1] b, float[1,2] soft) {
    a, raw = ai.onnx.ml.SVMClassifier <
        coefficients = [1.0, -1.0], support_vectors = [1.0, 2.0], vectors_per_class = [1, 1],
        rho = [0.5], kernel_params = [0.0, 0.0, 0.0], classlabels_ints = [4, 5]
    > (x)
    b, soft = ai.onnx.ml.SVMClassifier <
        coefficients = [1.0, -1.0], support_vectors = [1.0, 2.0], vectors_per_class = [1, 1],
        rho = [0.5], kernel_params = [0.0, 0.0, 0.0], classlabels_ints = [4, 5],
        post_transform = "SOFTMAX"
    > (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 1), np.float32)}
_, raw, _, soft = session.run(None, feeds)
demanded = (np.exp(raw) / np.exp(raw).sum()).tolist()
came = soft.tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.allclose(came, demanded, 1e-6)))
