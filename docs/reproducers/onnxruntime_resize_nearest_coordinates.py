"""With a scale of 0.625 = 5/8 the coordinate is 3/2 * (1 - 8/15) + 4/5 - 1/2 = 1 exactly, so its floor is 1."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 19]> network (float[1,1,3] x, float[3] scales) => (float[n,c,l] y) {
    y = Resize <coordinate_transformation_mode = "half_pixel_symmetric", nearest_mode = "floor"> (x, , scales)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[[0, 1, 2]]], np.float32), "scales": np.array([1, 1, 0.625], np.float32)}
demanded = [1]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
