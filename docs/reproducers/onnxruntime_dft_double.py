"""The inverse transform in float64 divides by a length that is rounded to float32."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 20]>
network (double[1,10,2] x) => (double[a,b,c] y) { y = DFT <inverse = 1> (x) }"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
x = np.random.default_rng(0).random((1, 10, 2))
real, imaginary = np.moveaxis(session.run(None, {"x": x})[0], -1, 0)
demanded = np.fft.ifft(x[..., 0] + 1j * x[..., 1])
error = float(np.abs(real + 1j * imaginary - demanded).max() / np.abs(demanded).max())
print("demanded: an error below 1e-13", "came:", error)
raise SystemExit(int(error > 1e-13))
