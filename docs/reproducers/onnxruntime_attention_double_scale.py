"""One product of ones, scaled by 1 / sqrt(3)."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 23]> network
    (double[1,1,1,3] q, double[1,1,1,3] k, double[1,1,1,1] v)
    => (double[1,1,1,1] y, double[1,1,1,1] scores) {
    y, keys, values, scores = Attention (q, k, v)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"q": np.ones((1, 1, 1, 3)), "k": np.ones((1, 1, 1, 3)), "v": np.ones((1, 1, 1, 1))}
demanded = float(np.sqrt(3))
came = session.run(None, feeds)[1].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came - demanded) > 1e-12))
