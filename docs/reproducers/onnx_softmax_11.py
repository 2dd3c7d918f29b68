"""Below opset 13, Softmax runs over all axes from axis 1 on."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

TEXT = """<ir_version: 10, opset_import: ["": 11]> network (float[1,2,2] x) => (float[1,2,2] y) {
    y = Softmax (x)
}"""
feeds = {"x": np.zeros((1, 2, 2), np.float32)}
demanded = [0.25, 0.25, 0.25, 0.25]
came = ReferenceEvaluator(onnx.parser.parse_model(TEXT)).run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
