"""Maxima over windows that hold a NaN."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,1,4] x) => (float[n,c,l] y) {
    y = MaxPool <kernel_shape = [2], strides = [2]> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.float32([np.nan, 1, 1, 2]).reshape(1, 1, 4)}
demanded = [np.nan, 2]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.array_equal(came, demanded, equal_nan=True)))
