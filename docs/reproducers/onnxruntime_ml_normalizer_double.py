"""Each of two equal numbers is half of their sum, beyond the range of float32 too."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (double[1,2] x) => (float[1,2] y) {
    y = ai.onnx.ml.Normalizer <norm = "L1"> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[1e100, 1e100]])}
demanded = [[0.5, 0.5]]
came = session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.allclose(came, demanded, 1e-6)))
