"""A small network and small data for training tests."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import deep_bench as db
from deep_bench.graph import Network
from deep_bench.training.scores import Accuracy, MeanOutput
from deep_bench.training.trainer import Trainer

FEATURES, CLASSES = 6, 3


def network(*, seed: int = 0, dropout: bool = True, normalized: bool = True) -> Network:
    """A perceptron of one hidden layer, with batch normalization and dropout, and its loss."""
    rng = np.random.default_rng(seed)
    nodes = [helper.make_node("Gemm", ["x", "w1", "b1"], ["hidden"], "first")]
    arrays = {
        "w1": rng.standard_normal((FEATURES, 8)) * 0.5,
        "b1": np.zeros(8),
        "w2": rng.standard_normal((8, CLASSES)) * 0.5,
        "b2": np.zeros(CLASSES),
    }
    at = "hidden"
    if normalized:
        arrays |= {"scale": np.ones(8), "shift": np.zeros(8), "mean": np.zeros(8), "variance": np.ones(8)}
        inputs = [at, "scale", "shift", "mean", "variance"]
        nodes.append(helper.make_node("BatchNormalization", inputs, ["normal"], "norm"))
        at = "normal"
    nodes.append(helper.make_node("Relu", [at], ["active"], "relu"))
    at = "active"
    if dropout:
        arrays["ratio"] = np.array(0.25)
        nodes.append(helper.make_node("Dropout", [at, "ratio"], ["kept"], "drop"))
        at = "kept"
    nodes.append(helper.make_node("Gemm", [at, "w2", "b2"], ["logits"], "second"))
    graph = helper.make_graph(
        nodes,
        "perceptron",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", FEATURES])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES])],
        [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    return Network.from_proto(model).with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def data(samples: int = 50, seed: int = 3) -> Any:
    """Points around a centre of each class."""
    from deep_bench.training.sets import ArrayDataset

    rng = np.random.default_rng(seed)
    label = rng.integers(0, CLASSES, samples)
    centres = np.random.default_rng(1).standard_normal((CLASSES, FEATURES)) * 3
    x = (centres[label] + rng.standard_normal((samples, FEATURES))).astype(np.float32)
    return ArrayDataset({"x": x, "label": label})


def trainer(on: str = "reference", optimizer: Any = None, *, evaluated: bool = True, **options: Any) -> Trainer[Any]:
    """A trainer of the small network."""
    points = data()
    sampler = db.samplers["shuffled"](points, batch_size=16, seed=2)
    if evaluated:
        scores = [lambda: Accuracy("logits", "label"), lambda: MeanOutput("loss")]
        options = {"scores": scores, "held_out": data(20, seed=4), **options}
    rule = db.optimizers["adam"](lr=0.03) if optimizer is None else optimizer
    framework, _, rest = on.partition(":")
    settings = dict(item.split("=") for item in rest.split(",") if item)
    adapter = db.frameworks[framework](**{k: int(v) if v.isdecimal() else v for k, v in settings.items()})
    return Trainer.on(adapter, network(), rule, dataset=points, sampler=sampler, **options)
