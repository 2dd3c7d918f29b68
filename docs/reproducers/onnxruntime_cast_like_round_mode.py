"""Rounded down, 3 is 2 in float8_e8m0, which has powers of two only."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 13, opset_import: ["": 25]> network (float[1] x) => (float[1] y) {
    like = Cast <to = 24> (x)
    narrow = CastLike <round_mode = "down"> (x, like)
    y = Cast <to = 1> (narrow)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([3], np.float32)}
demanded = 2.0
came = session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
