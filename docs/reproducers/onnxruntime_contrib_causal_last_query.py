"""A query attends to no later key: two queries see 1 and 2 of four keys, or 3 and 4 where the last ones are aligned."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> network
    (float[1,2,1] q, float[1,4,1] k) => (float[1,2,1] y) {
    y = com.microsoft.MultiHeadAttention <num_heads = 1, unidirectional = 1> (q, k, k)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"q": np.zeros((1, 2, 1), np.float32), "k": np.arange(4, dtype=np.float32).reshape(1, 4, 1)}
demanded = [[0.0, 0.5], [1.0, 1.5]]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded: one of", demanded, "came:", came)
raise SystemExit(int(came not in demanded))
