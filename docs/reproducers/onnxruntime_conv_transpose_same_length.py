"""Under SAME_UPPER the output is as long as the input times the stride, here 3 * 2."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,1,3] x, float[1,1,1] w) => (float[n,c,l] y) {
    y = ConvTranspose <strides = [2], auto_pad = "SAME_UPPER"> (x, w)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 1, 3), np.float32), "w": np.ones((1, 1, 1), np.float32)}
demanded = (1, 1, 6)
came = session.run(None, feeds)[0].shape
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
