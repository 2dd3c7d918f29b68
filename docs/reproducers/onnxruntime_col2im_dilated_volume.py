"""Two elements of a block dilated along the second axis of an image of 1 x 3 x 1 lie at its ends."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 18]> network (float[1,2,1] x, int64[3] image, int64[3] block) => (float[n,c,d,h,w] y) {
    y = Col2Im <dilations = [1, 2, 1]> (x, image, block)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[[1], [2]]], np.float32), "image": np.array([1, 3, 1]), "block": np.array([1, 2, 1])}
demanded = [1, 0, 2]
came = session.run(None, feeds)[0].reshape(-1).tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
