"""The sign of NaN is NaN, as ONNX Runtime itself has it in float32 and float64."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 13]> network (float16[1] x) => (float16[1] y) {
    y = Sign (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([np.nan], np.float16)}
demanded = np.nan
came = session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.isnan(came)))
