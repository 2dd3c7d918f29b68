"""The sum of the squares is 2**33, which is beyond int32 and not beyond a float."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (int32[1,2] x) => (float[1,2] y) {
    y = ai.onnx.ml.Normalizer <norm = "L2"> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[65536, 65536]], np.int32)}
demanded = [[0.5**0.5, 0.5**0.5]]
came = session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.allclose(came, demanded, 1e-6)))
