"""exp(x) - 1 for x = -1e-6, which float32 holds to 7 digits."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (float[1] x) => (float[1] y) {
    y = Elu (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([-1e-6], np.float32)}
demanded = float(np.expm1(np.float64(np.float32(-1e-6))))
came = session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came / demanded - 1) > 1e-5))
