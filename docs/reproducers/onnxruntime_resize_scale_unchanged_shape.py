"""A scale of 1.25 puts the elements at 0, 0.8 and 1.6, though 3 * 1.25 rounds down to a length of 3."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 19]> network (float[1,1,3] x, float[3] scales) => (float[n,c,l] y) {
    y = Resize <mode = "linear", coordinate_transformation_mode = "asymmetric"> (x, , scales)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[[0, 10, 20]]], np.float32), "scales": np.array([1, 1, 1.25], np.float32)}
demanded = [0, 8, 16]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.allclose(came, demanded)))
