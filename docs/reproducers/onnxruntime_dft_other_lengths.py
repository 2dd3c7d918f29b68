"""Length 1000: float32 allows an error of about log2(1000) = 10 roundings of the largest value; 100 are granted."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 20]> network (float[1,1000,1] x) => (float[a,b,c] y) {
    y = DFT (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.arange(1000, dtype=np.float32).reshape(1, 1000, 1)}
demanded = np.fft.fft(np.arange(1000))
came = session.run(None, feeds)[0][0] @ [1, 1j]
roundings = abs(came - demanded).max() / abs(demanded).max() * 2**24
print("demanded: at most 100 roundings of the largest value; came:", round(roundings))
raise SystemExit(int(roundings > 100))
