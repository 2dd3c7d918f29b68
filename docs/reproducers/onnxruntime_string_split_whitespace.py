"""Without a delimiter strings are split at whitespace, which tabulators and line ends are."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 10, opset_import: ["": 20]> network (string[1] x) => (string[a,b] y, int64[1] n) {
    y, n = StringSplit (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array(["a\tb\nc"], object)}
demanded = ["a", "b", "c"]
came = session.run(None, feeds)[0].ravel().tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
