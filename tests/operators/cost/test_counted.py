"""Each formula against a count of what the readable reference of the same operator really does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.graph import attributes
from deep_bench.graph.node import as_array
from deep_bench.operators.cost import RULES, Work, cost_of
from deep_bench.reference.operators import OPERATORS, find, takes_count
from tests.operators.cost.counting import Counted, Tally, counted
from tests.operators.cost.one_node import feeds, one_node

A = np.array
UNARY = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Ceil",
    "Cos",
    "Cosh",
    "Erf",
    "Exp",
    "Floor",
    "Log",
    "Neg",
    "Reciprocal",
    "Round",
    "Sign",
    "Sin",
    "Sinh",
    "Sqrt",
    "Tan",
    "Tanh",
    "Relu",
    "LeakyRelu",
    "ThresholdedRelu",
    "Sigmoid",
    "HardSigmoid",
    "HardSwish",
    "Softsign",
    "Swish",
    "IsNaN",
    "Selu",
    "Hardmax",
]
BINARY = [
    "Add",
    "Sub",
    "Mul",
    "Div",
    "Max",
    "Min",
    "Sum",
    "Mean",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
]
REDUCTIONS = ("Sum", "Mean", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Max", "Min")
RECURRENT: dict[str, dict[str, Any]] = {
    "Affine": {"activation_alpha": [2.0], "activation_beta": [3.0]},
    "Elu": {"activation_alpha": [2.0]},
    "LeakyRelu": {"activation_alpha": [0.5]},
    "Relu": {},
    "ScaledTanh": {"activation_alpha": [2.0], "activation_beta": [3.0]},
    "Sigmoid": {},
    "Softsign": {},
    "ThresholdedRelu": {"activation_alpha": [0.5]},
}
CASES: list[tuple[str, list[Any], dict[str, Any]]] = [
    *((name, [(3, 5)], {}) for name in UNARY),
    *((name, [(3, 5), (4, 1, 5)], {}) for name in BINARY),
    ("Mod", [(3, 5), (5,)], {"fmod": 1}),
    ("Pow", [(3, 5), (3, 1)], {}),
    ("Sum", [(3, 5), (3, 1), (5,), (3, 5)], {}),
    ("Mean", [(3, 5)], {}),
    ("Where", [np.ones((3, 5), bool), (3, 5), (3, 5)], {}),
    ("Clip", [(3, 5), A(0.2, np.float32), A(0.3, np.float32)], {}),
    ("PRelu", [(3, 5), (5,)], {}),
    ("Elu", [(3, 5)], {"alpha": 2.0}),
    ("Celu", [(3, 5)], {"alpha": 2.0}),
    *((name, [(3, 5)], {}) for name in ("Celu", "Elu", "Shrink", "LpNormalization")),
    ("SwiGLU", [(3, 5), (3, 5)], {}),
    ("Gemm", [(3, 4), (4, 5), (5,)], {}),
    ("GlobalLpPool", [(2, 3, 4)], {}),
    ("Swish", [(3, 5)], {"alpha": 2.0}),
    ("SwiGLU", [(3, 5), (3, 5)], {"alpha": 2.0}),
    ("Gelu", [(3, 5)], {}),
    ("Gelu", [(3, 5)], {"approximate": "tanh"}),
    ("Softmax", [(3, 5, 2)], {"axis": 1}),
    ("LogSoftmax", [(3, 5, 2)], {"axis": 1}),
    ("MatMul", [(2, 3, 4), (4, 5)], {}),
    ("MatMul", [(4,), (4,)], {}),
    ("Gemm", [(3, 4), (4, 5)], {}),
    ("Gemm", [(4, 3), (5, 4), (5,)], {"transA": 1, "transB": 1, "alpha": 2.0, "beta": 3.0}),
    ("Conv", [(2, 4, 7, 6), (6, 2, 3, 2), (6,)], {"group": 2, "strides": [2, 1], "pads": [1, 1, 1, 1]}),
    ("CausalConvWithState", [(2, 3, 7), (3, 1, 4), (3,)], {"activation": "silu"}),
    ("GlobalAveragePool", [(2, 3, 4, 5)], {}),
    ("GlobalMaxPool", [(2, 3, 4, 5)], {}),
    *(("GlobalLpPool", [(2, 3, 4, 5)], {"p": p}) for p in (1, 2, 3)),
    ("BatchNormalization", [(2, 3, 4), (3,), (3,), (3,), (3,)], {}),
    ("InstanceNormalization", [(2, 3, 4), (3,), (3,)], {}),
    ("GroupNormalization", [(2, 6, 4), (6,), (6,)], {"num_groups": 2}),
    ("LayerNormalization", [(2, 3, 4), (4,), (4,)], {}),
    ("LayerNormalization", [(2, 3, 4), (3, 4)], {"axis": 1}),
    ("RMSNormalization", [(2, 3, 4), (4,)], {}),
    ("SimplifiedLayerNormalization", [(2, 3, 4), (4,)], {}),
    ("MeanVarianceNormalization", [(2, 3, 4, 5)], {}),
    *(("LpNormalization", [(2, 3, 4)], {"p": p, "axis": 1}) for p in (1, 2)),
    ("Dropout", [(2, 3), A(0.5, np.float32), A(True)], {"seed": 1}),
    ("Dropout", [(2, 3)], {}),
    *((f"Reduce{kind}", [(2, 3, 4), A([1])], {"keepdims": 0})
      for kind in ["Sum", "Mean", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Max", "Min"]),
    *((f"Reduce{kind}", [(2, 3, 4)], {})
      for kind in REDUCTIONS),
    ("ReduceSum", [(2, 3)], {"noop_with_empty_axes": 1}),
    ("ArgMax", [(2, 3, 4)], {"axis": 1}),
    ("ArgMin", [(2, 3, 4)], {"axis": 1}),
    ("CumSum", [(2, 3, 4), A(1)], {}),
    ("CumProd", [(2, 3, 4), A(1)], {}),
    ("RotaryEmbedding", [(2, 3, 5, 8), (2, 5, 2), (2, 5, 2)], {"rotary_embedding_dim": 4}),
    ("RotaryEmbedding", [(2, 5, 24), (2, 5, 4), (2, 5, 4)], {"num_heads": 3}),
    *(("LinearAttention", [(2, 3, 8), (2, 3, 4), (2, 3, 6), (2, 1, 4, 6), (2, 3, 4), (2, 3, 1)],
       {"q_num_heads": 2, "kv_num_heads": 1, "update_rule": rule}) for rule in ("linear", "gated", "delta", "gated_delta")),
    ("RNN", [(3, 2, 5), (1, 4, 5), (1, 4, 4), (1, 8)], {"hidden_size": 4}),
    ("RNN", [(3, 2, 5), (1, 4, 5), (1, 4, 4)], {"hidden_size": 4, "activations": ["HardSigmoid"], "clip": 1.0}),
    *(("RNN", [(3, 2, 5), (1, 4, 5), (1, 4, 4)], {"hidden_size": 4, "activations": [name], **settings})
      for name, settings in RECURRENT.items()),
    ("GRU", [(3, 2, 5), (2, 12, 5), (2, 12, 4), (2, 24)], {"hidden_size": 4, "direction": "bidirectional"}),
    ("GRU", [(3, 2, 5), (1, 12, 5), (1, 12, 4), (1, 24)], {"hidden_size": 4, "linear_before_reset": 1}),
    ("LSTM", [(3, 2, 5), (2, 16, 5), (2, 16, 4), (2, 32)], {"hidden_size": 4, "direction": "bidirectional"}),
    ("LSTM", [(3, 2, 5), (1, 16, 5), (1, 16, 4)], {"hidden_size": 4, "input_forget": 1}),
    ("LSTM", [(3, 2, 5), (1, 16, 5), (1, 16, 4), None, None, None, None, (1, 12)], {"hidden_size": 4}),
    *(("NegativeLogLikelihoodLoss", [(3, 4, 2), A([[0, 1], [3, 1], [2, 2]])], {"reduction": how})
      for how in ("none", "sum", "mean")),
    ("SoftmaxCrossEntropyLoss", [(3, 4), A([0, 1, 3])], {}),
    ("QuantizeLinear", [(3, 4), A(0.1, np.float32), A(3, np.uint8)], {}),
    ("QuantizeLinear", [(3, 4), A(0.1, np.float32)], {}),
    ("DynamicQuantizeLinear", [(3, 4)], {}),
    *(("ScatterElements", [(3, 4), A([[0, 1]]), (1, 2)], {"reduction": how}) for how in ("none", "add", "mul", "max")),
    ("ScatterND", [(3, 4), A([[0], [1]]), (2, 4)], {"reduction": "add"}),
    ("AffineGrid", [(2, 2, 3), A([2, 3, 4, 5])], {}),
    ("Transpose", [(3, 4)], {}),
    ("Concat", [(3, 4), (3, 4)], {"axis": 0}),
]  # fmt: skip

GUARDED = {"Elu", "Selu", "Celu", "ReduceLogSumExp", "LpNormalization", "DynamicQuantizeLinear", "Dropout"}
OUTPUTS = {"DynamicQuantizeLinear": 3, "CausalConvWithState": 2, "LinearAttention": 2}
"""The reference compares more often than the definition does, to avoid overflow or the tensor's border."""


def reference_work(network: db.Network) -> Work:
    """What the reference of a network's only node does, counted as it runs."""
    node, tally = network.nodes[0], Tally()
    function = find(node.domain, node.op_type)
    assert function is not None
    given = feeds(network)
    arrays = [
        None if v is None else counted(given[str(v.name)] if v.name in given else as_array(v), tally) for v in node.inputs
    ]
    options = attributes(node) | ({"n_outputs": len(node.outputs)} if takes_count(function) else {})
    with np.errstate(all="ignore"):
        function(*arrays, **options)
    return tally.work


def case_name(case: Any) -> str | None:
    return case if isinstance(case, str) else None


@pytest.mark.parametrize(("operator", "inputs", "options"), CASES, ids=case_name)
def test_the_formula_counts_what_the_reference_does(operator: str, inputs: list[Any], options: dict[str, Any]) -> None:
    network = one_node(operator, inputs, OUTPUTS.get(operator, 1), **options)
    found, expected = cost_of(network, inputs=feeds(network)), reference_work(network)
    assert found is not None
    assert (found.flops, found.special) == (expected.flops, expected.special)
    if operator not in GUARDED and "Elu" not in options.get("activations", ()):
        assert found.comparisons == expected.comparisons


def test_training_counts_what_the_reference_does() -> None:
    network = one_node("BatchNormalization", [(2, 3, 4), (3,), (3,), (3,), (3,)], 3, training_mode=1)
    found, expected = cost_of(network, inputs=feeds(network)), reference_work(network)
    assert found is not None
    assert (found.flops, found.special) == (expected.flops, expected.special)


def test_a_count_is_not_that_of_other_arithmetic() -> None:
    """The counting arrays see every operation: one more changes the count."""
    tally = Tally()
    x = counted(np.ones((3, 4), np.float32), tally)
    assert isinstance(np.sum(x * 2 + 1), Counted)
    assert tally.work == Work(flops=36)


def test_every_operator_of_the_default_domain_has_a_rule_or_none_is_possible() -> None:
    unruled = {name for domain, name in OPERATORS if domain == "" and name not in RULES}
    control = {"If", "Loop", "Scan", "SequenceMap"}  # how often a body runs depends on contents
    sequences = {"Optional", "OptionalGetElement", "OptionalHasElement", "ConcatFromSequence", "SplitToSequence",
                 *(f"Sequence{what}" for what in ["At", "Construct", "Empty", "Erase", "Insert", "Length"])}  # fmt: skip
    strings = {"RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"}
    assert unruled == control | sequences | strings
    assert set(RULES) <= {name for domain, name in OPERATORS if domain == ""}
