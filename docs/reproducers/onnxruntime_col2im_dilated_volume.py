"""A block of 1 x 2 x 2, dilated along the last axis, lies at the ends of both rows of an image of 1 x 2 x 3."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 18]>
network (float[1,4,1] x, int64[3] image, int64[3] block) => (float[n,c,d,h,w] y) {
    y = Col2Im <dilations = [1, 1, 2]> (x, image, block)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[[1], [2], [3], [4]]], np.float32), "image": np.array([1, 2, 3]), "block": np.array([1, 2, 2])}
demanded = [1, 0, 2, 3, 0, 4]
came = session.run(None, feeds)[0].reshape(-1).tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
