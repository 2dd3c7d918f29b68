"""The centre of the only pixel of an axis, as in the torch function that the standard defines the operator by, is 0."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 20]> network
    (float[1,2,3] theta, int64[4] size)
    => (float[n,h,w,d] grid) {
    grid = AffineGrid <align_corners = 1> (theta, size)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"theta": np.array([[[1, 0, 0], [0, 1, 0]]], np.float32), "size": np.array([1, 1, 1, 3])}
demanded = [-1, 0, 0, 0, 1, 0]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
