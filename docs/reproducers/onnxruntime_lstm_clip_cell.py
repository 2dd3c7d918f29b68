"""The clip bounds the input of every activation, the h of the cell among them: h = 1/2 * tanh(clip(1/2 * 4))."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network
    (float[1,1,1] x, float[1,4,1] w, float[1,4,1] r, float[1,1,1] h, float[1,1,1] c)
    => (float[a,b,d,e] y) {
    y = LSTM <hidden_size = 1, clip = 0.5> (x, w, r, , , h, c)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {
    "x": np.zeros((1, 1, 1), np.float32),
    "w": np.zeros((1, 4, 1), np.float32),
    "r": np.zeros((1, 4, 1), np.float32),
    "h": np.zeros((1, 1, 1), np.float32),
    "c": np.full((1, 1, 1), 4, np.float32),
}
demanded = 0.5 * float(np.tanh(0.5))
came = session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(abs(came - demanded) > 1e-5))
