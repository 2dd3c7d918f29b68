"""The logistic function of 0 is 0.5, and the softmax of one score is 1."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 1]> network
    (float[1,1] x) => (float[1,1] a, float[1,1] b, float[1,1] c, float[1,1] d) {
    a = ai.onnx.ml.LinearRegressor <coefficients = [1.0], post_transform = "LOGISTIC"> (x)
    b = ai.onnx.ml.LinearRegressor <coefficients = [1.0], post_transform = "SOFTMAX"> (x)
    c = ai.onnx.ml.SVMRegressor <
        coefficients = [1.0], rho = [0.0], kernel_params = [0.0, 0.0, 0.0], post_transform = "LOGISTIC"
    > (x)
    d = ai.onnx.ml.TreeEnsembleRegressor <
        nodes_treeids = [0, 0, 0], nodes_nodeids = [0, 1, 2], nodes_featureids = [0, 0, 0], nodes_values = [0.5, 0.0, 0.0],
        nodes_modes = ["BRANCH_LEQ", "LEAF", "LEAF"], nodes_truenodeids = [1, 0, 0], nodes_falsenodeids = [2, 0, 0],
        target_treeids = [0, 0], target_nodeids = [1, 2], target_ids = [0, 0],
        target_weights = [0.0, 0.0],
        n_targets = 1, post_transform = "LOGISTIC"
    > (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.zeros((1, 1), np.float32)}
demanded = [0.5, 1.0, 0.5, 0.5]
came = [y.item() for y in session.run(None, feeds)]
print("demanded:", demanded, "came:", came)
raise SystemExit(int(came != demanded))
