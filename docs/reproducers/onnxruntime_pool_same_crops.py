"""SAME pads; where the windows do not reach the end there is nothing to pad, and nothing to cut off either."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,1,7] x) => (float[n,c,l] y) {
    y = AveragePool <kernel_shape = [1], strides = [4], auto_pad = "SAME_UPPER"> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)}
demanded = [1, 5]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
