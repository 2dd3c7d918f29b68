"""The zero points of QLinearAdd are optional; without one the network is refused."""

import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 21, "com.microsoft": 1]> network
    (uint8[2] a, float scale) => (uint8[2] y) {
    y = com.microsoft.QLinearAdd (a, scale, , a, scale, , scale)
}"""
demanded = came = "a session"
try:
    ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
except Exception as error:
    came = str(error)
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
