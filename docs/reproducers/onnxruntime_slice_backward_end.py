"""Backwards from 3, an end beyond the axis stands for its last element, 4, so that nothing lies between."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 13]> network
    (int64[5] x, int64[1] start, int64[1] end, int64[1] axis, int64[1] step)
    => (int64[n] y) {
    y = Slice (x, start, end, axis, step)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {
    "x": np.arange(5),
    "start": np.array([3]),
    "end": np.array([2**63 - 1]),
    "axis": np.array([0]),
    "step": np.array([-1]),
}
demanded = []
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
