"""GRU ignores the clip: with W = R = 0, h = 1/2 * tanh(clip(3))."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

TEXT = """<ir_version: 10, opset_import: ["": 22]> network
    (float[1,1,1] x, float[1,3,1] w, float[1,3,1] r, float[1,6] b)
    => (float[t,d,n,h] y) {
    y = GRU <hidden_size = 1, clip = 0.5> (x, w, r, b)
}"""
feeds = {
    "x": np.zeros((1, 1, 1), np.float32),
    "w": np.zeros((1, 3, 1), np.float32),
    "r": np.zeros((1, 3, 1), np.float32),
    "b": np.array([[0, 0, 3, 0, 0, 0]], np.float32),
}
demanded = 0.5 * float(np.tanh(0.5))
came = ReferenceEvaluator(onnx.parser.parse_model(TEXT)).run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came - demanded) > 1e-6))
