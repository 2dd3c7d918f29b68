"""The indices may be shorter than the data along other axes than the one gathered from."""

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[2,3] x, int64[1,2] i) => (float[a,b] y) {
    y = GatherElements <axis = 1> (x, i)
}"""
feeds = {"x": np.ones((2, 3), np.float32), "i": np.zeros((1, 2), np.int64)}
demanded = [1, 1]
try:
    came = ReferenceEvaluator(onnx.parser.parse_model(TEXT)).run(None, feeds)[0].ravel().tolist()
except ValueError as error:
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
