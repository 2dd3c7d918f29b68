"""The last zero point of QLinearSigmoid is optional; without it the process aborts when it makes a session."""

import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> network
    (uint8[2] x, float scale, uint8 zero) => (uint8[2] y) {
    y = com.microsoft.QLinearSigmoid (x, scale, zero, scale)
}"""
ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
