"""An optional input may be left out by an empty name."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 20]> network (float[1,2,1] x, int64 length) => (float[a,b,c] y) {
    y = DFT (x, length)
}"""
feeds = {"x": np.ones((1, 2, 1), np.float32), "length": np.array(2)}
print("demanded:", [2, 0, 0, 0], "came:", flush=True)
model = onnx.parser.parse_model(TEXT)
model.graph.node[0].input.append("")
session = ort.InferenceSession(model.SerializeToString())
print(session.run(None, feeds)[0].ravel().tolist())
