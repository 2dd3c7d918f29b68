"""Without an initial condition the condition that the body computes is ignored: the sum of 0 ... 4."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 22]> network (int64 trips, int64 start) => (int64 sum) {
    sum = Loop (trips, , start) <body = body (int64 i, bool before, int64 a) => (bool after, int64 b) {
        after = Constant <value = bool {0}> ()
        b = Add (a, i)
    }>
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"trips": np.array(5), "start": np.array(0)}
demanded = 10
came = session.run(None, feeds)[0].item()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
