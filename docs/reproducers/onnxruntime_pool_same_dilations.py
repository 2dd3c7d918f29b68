"""Under SAME_UPPER the output is as long as the input over the stride, here 7, whatever the dilation."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1,1,7] x) => (float[n,c,l] y) {
    y = MaxPool <kernel_shape = [3], dilations = [2], auto_pad = "SAME_UPPER"> (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.arange(1, 8, dtype=np.float32).reshape(1, 1, 7)}
demanded = [3, 4, 5, 6, 7, 6, 7]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
