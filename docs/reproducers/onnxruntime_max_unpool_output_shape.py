"""The indices count in the shape that kernel and strides give, 2 x 2, which output_shape pads; 3 is its corner (1, 1)."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network
    (float[1,1,1,1] x, int64[1,1,1,1] i, int64[4] shape)
    => (float[a,b,c,d] y) {
    y = MaxUnpool <kernel_shape = [2, 2], strides = [2, 2]> (x, i, shape)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.ones((1, 1, 1, 1), np.float32), "i": np.full((1, 1, 1, 1), 3), "shape": np.array([1, 1, 3, 3])}
demanded = [0, 0, 0, 0, 1, 0, 0, 0, 0]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
