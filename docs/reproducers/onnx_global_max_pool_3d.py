"""The maximum over all but the first two axes, which stay as axes of length 1."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,2,3] x) => (float[a,b,c] y) {
    y = GlobalMaxPool (x)
}"""
feeds = {"x": np.ones((1, 2, 3), np.float32)}
demanded = (1, 2, 1)
came = ReferenceEvaluator(onnx.parser.parse_model(TEXT)).run(None, feeds)[0].shape
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
