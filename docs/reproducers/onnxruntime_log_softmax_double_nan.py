"""NaN is in the sum that every element is divided by."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 13]> network (double[3] x) => (double[3] y) {
    y = LogSoftmax (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([1, np.nan, 2])}
demanded = [np.nan, np.nan, np.nan]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.isnan(came).all()))
