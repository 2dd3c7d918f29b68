"""Weights of two bits, all 1, with the zero point 2 by default: -1 each, in whatever group their columns are."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> network
    (float[1,16] a, uint8[1,1,4] b, float[1,1] scales, int32[16] group) => (float[1,1] y) {
    y = com.microsoft.MatMulNBits <K = 16, N = 1, bits = 2, block_size = 16> (a, b, scales, , group)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"a": np.eye(1, 16, dtype=np.float32), "b": np.full((1, 1, 4), 0b01010101, np.uint8)}
feeds |= {"scales": np.ones((1, 1), np.float32), "group": np.zeros(16, np.int32)}
demanded, came = -1.0, session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
