"""A draw with probability 0 is 0, one with probability 1 is 1."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 15]> network (float[4] p) => (float[4] y) { y = Bernoulli (p) }"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"p": np.array([0, 0, 1, 1], np.float32)}
demanded, came = [0, 0, 1, 1], session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
