"""Below opset 14, BatchNormalization with one output is inference: the identity for mean 0, variance 1 and epsilon 0."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

TEXT = """<ir_version: 10, opset_import: ["": 9]> network
    (float[2,1] x, float[1] s, float[1] b, float[1] m, float[1] v)
    => (float[2,1] y) {
    y = BatchNormalization <epsilon = 0.0> (x, s, b, m, v)
}"""
feeds = {
    "x": np.array([[1], [3]], np.float32),
    "s": np.ones(1, np.float32),
    "b": np.zeros(1, np.float32),
    "m": np.zeros(1, np.float32),
    "v": np.ones(1, np.float32),
}
demanded = [1, 3]
came = ReferenceEvaluator(onnx.parser.parse_model(TEXT)).run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
