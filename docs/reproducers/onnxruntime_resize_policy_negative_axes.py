"""Four elements as six, where the only axis that is resized is counted from the back."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 19]> network (float[1,1,4] x, int64[1] sizes) => (float[a,b,c] y) {
    y = Resize <mode = "linear", axes = [-1], keep_aspect_ratio_policy = "not_larger"> (x, , , sizes)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 1, 4), np.float32), "sizes": np.array([6])}
demanded = (1, 1, 6)
came = session.run(None, feeds)[0].shape
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
