"""Base values are added to the final prediction: here 1 + 1, and 0 + 2, as no leaf votes for the second target."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (float[2,1] x) => (float[2,2] y) {
    y = ai.onnx.ml.TreeEnsembleRegressor <
        nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_values = [0.5, 0.0, 0.0],
        nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],
        target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],
        target_weights = [1.0, 1.0],
        n_targets = 2, base_values = [1.0, 2.0]
    > (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.array([[0], [1]], np.float32)}
demanded = [[2.0, 2.0], [2.0, 2.0]]
came = session.run(None, feeds)[0].tolist()
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
