"""A custom scale is used if it is given, says the documentation; it changes nothing."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> network
    (float[1,1,2] x, int64[1] first, float[2,1] angle) => (float[1,1,2] y, float[1,1,2] z) {
    y = com.microsoft.RotaryEmbedding (x, first, angle, angle)
    z = com.microsoft.RotaryEmbedding <scale = 5.0> (x, first, angle, angle)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 1, 2), np.float32), "first": np.array([1]), "angle": np.ones((2, 1), np.float32)}
plain, scaled = session.run(None, feeds)
print("demanded: another result, came:", plain.tolist(), scaled.tolist())
raise SystemExit(int(np.array_equal(plain, scaled)))
