"""What causality masks is minus infinity in the scores: it is the mask that is added."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 23]> network
    (float[1,1,2,1] q, float[1,1,2,1] k, float[1,1,2,1] v)
    => (float[1,1,2,1] y, float[1,1,2,2] scores) {
    y, keys, values, scores = Attention <is_causal = 1, qk_matmul_output_mode = 2> (q, k, v)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = dict.fromkeys("qkv", np.ones((1, 1, 2, 1), np.float32))
demanded = [1, float("-inf"), 1, 1]
came = session.run(None, feeds)[1].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
