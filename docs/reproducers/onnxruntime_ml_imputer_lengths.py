"""There may be one value for all columns or one for each; here are two values for three columns."""

import numpy as np
import onnx
import onnxruntime as ort

ort.set_default_logger_severity(4)
TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network (float[1,3] x) => (float[1,3] y) {
    y = ai.onnx.ml.Imputer <imputed_value_floats = [1.0, 2.0], replaced_value_float = 0.0> (x)
}"""
demanded = "an error"
try:
    session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
    came = session.run(None, {"x": np.zeros((1, 3), np.float32)})[0].tolist()
except Exception:  # ONNX Runtime's own types share no base
    came = demanded
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
