"""Where a transpose is moved past a Pad that names axes, the pads are taken for those of all axes."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 21]>
network (float[2,3,4] x) => (float[a,b,c] y) <int64[6] pads = {0, 1, 0, 0, 0, 0}, int64[3] axes = {2, 0, 1}> {
    before = Transpose <perm = [0, 2, 1]> (x)
    padded = Pad (before, pads, , axes)
    y = Transpose <perm = [0, 2, 1]> (padded)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
demanded = (3, 3, 4)
came = session.run(None, {"x": np.ones((2, 3, 4), np.float32)})[0].shape
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
