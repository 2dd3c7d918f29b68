"""1 stands for the softmax, 2 for the logistic function; the scores are 1 and 0."""

import numpy as np
import onnx
import onnxruntime as ort

TEXT = """<ir_version: 9, opset_import: ["": 20, "ai.onnx.ml": 5]> network
    (float[1,1] x) => (float[1,2] soft, float[1,2] logistic) {
    soft = ai.onnx.ml.TreeEnsemble <
        nodes_modes = uint8[1] {0}, nodes_splits = float[1] {0.5}, nodes_featureids = [0], tree_roots = [0],
        nodes_truenodeids = [0], nodes_trueleafs = [1], nodes_falsenodeids = [1], nodes_falseleafs = [1],
        leaf_weights = float[2] {1, 0}, leaf_targetids = [0, 1], n_targets = 2, post_transform = 1
    > (x)
    logistic = ai.onnx.ml.TreeEnsemble <
        nodes_modes = uint8[1] {0}, nodes_splits = float[1] {0.5}, nodes_featureids = [0], tree_roots = [0],
        nodes_truenodeids = [0], nodes_trueleafs = [1], nodes_falsenodeids = [1], nodes_falseleafs = [1],
        leaf_weights = float[2] {1, 0}, leaf_targetids = [0, 1], n_targets = 2, post_transform = 2
    > (x)
}"""
session = ort.InferenceSession(onnx.parser.parse_model(TEXT).SerializeToString())
feeds = {"x": np.zeros((1, 1), np.float32)}
demanded = [[0.7310586, 0.2689414], [0.7310586, 0.5]]
came = [y.ravel().tolist() for y in session.run(None, feeds)]
print("demanded:", demanded, "came:", came)
raise SystemExit(int(not np.allclose(came, demanded, 1e-6)))
