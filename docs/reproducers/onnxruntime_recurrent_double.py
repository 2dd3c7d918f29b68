"""GRU and LSTM in float64 are accepted when the network is loaded, and fail at the call."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 20]>
network (double[2,1,2] x, double[1,6,2] w, double[1,6,2] r) => (double[a,b,c,d] y) { y = GRU <hidden_size = 2> (x, w, r) }"""
options = ort.SessionOptions()
options.log_severity_level = 4
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString(), options)
came = "an output"
try:
    session.run(None, {"x": np.ones((2, 1, 2)), "w": np.ones((1, 6, 2)), "r": np.ones((1, 6, 2))})
except Exception as error:
    came = str(error)
print("demanded: an output, or a refusal when it is loaded", "came:", came)
raise SystemExit(int(came != "an output"))
