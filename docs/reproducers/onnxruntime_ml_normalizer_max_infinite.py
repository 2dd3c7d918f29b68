"""Y = X / max(X), and minus infinity over minus infinity is NaN."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (float[1,2] x) => (float[1,2] y) {
    y = ai.onnx.ml.Normalizer <norm = "MAX"> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.full((1, 2), -np.inf, np.float32)}
demanded = [[np.nan, np.nan]]
came = session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.all(np.isnan(came))))
