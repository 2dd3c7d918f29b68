"""The second row of a matrix of strings."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 13]> network (string[2,2] x, int64[1] i) => (string[1,2] y) {
    y = Gather <axis = 0> (x, i)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([["a", "b"], ["c", "d"]], object), "i": np.array([1])}
demanded = [["c", "d"]]
came = session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
