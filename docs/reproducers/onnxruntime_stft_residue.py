"""The last bin of a real signal of even length is a real number: its sines are all 0."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 17]> network (float[1,16,1] x) => (float[a,b,c,d] y) {
    step = Constant <value = int64 {16}> ()
    y = STFT (x, step, , step)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.arange(16, dtype=np.float32).reshape(1, 16, 1)}
demanded = 0.0
came = session.run(None, feeds)[0][0, 0, 8, 1].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came) > 1e-7))
