"""The region of interest may be in another floating-point type than the tensor."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 10, opset_import: ["": 19]>
network (float[1,1,1,2] x, double[8] roi, int64[4] sizes) => (float[a,b,c,d] y) {
    y = Resize <mode = "linear", coordinate_transformation_mode = "tf_crop_and_resize"> (x, roi, , sizes)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
roi = np.array([0, 0, 0, 0, 1, 1, 1, 1], np.float64)
feeds = {"x": np.array([[[[0, 2]]]], np.float32), "roi": roi, "sizes": np.array([1, 1, 1, 3])}
demanded = [0, 1, 2]
try:
    came = session.run(None, feeds)[0].ravel().tolist()
except Exception as error:  # ONNX Runtime's own types share no base
    came = f"an error: {error}"
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
