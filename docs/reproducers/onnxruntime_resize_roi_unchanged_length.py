"""The first half of an axis, cropped and stretched to the axis's own length."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 19]> network
    (float[1,1,4] x, float[6] roi, int64[3] sizes)
    => (float[n,c,l] y) {
    y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, , sizes)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {
    "x": np.array([[[1, 2, 3, 4]]], np.float32),
    "roi": np.array([0, 0, 0, 1, 1, 0.5], np.float32),
    "sizes": np.array([1, 1, 4]),
}
demanded = [1.0, 1.5, 2.0, 2.5]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
