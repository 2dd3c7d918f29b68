"""Baidu DeepBench's problems, as cases of ONNX operators.

**Matrix products.** DeepBench calls a column-major BLAS: ``C (m, n) = op(A) op(B)``, where the first dimension of each
matrix lies contiguous in memory. ONNX's arrays are row-major, so that the same bytes are the transposed matrices, and the
same work is ``C^T (n, m) = op(B)^T op(A)^T``: the case's first operand is DeepBench's B, its second one DeepBench's A.

============== ============ ============== =============== ====== ======
DeepBench      A in memory  B in memory    case's operands transA transB
============== ============ ============== =============== ====== ======
``m n k n n``  k rows of m  n rows of k    (n, k) (k, m)   0      0
``m n k t n``  m rows of k  n rows of k    (n, k) (m, k)   0      1
``m n k n t``  k rows of m  k rows of n    (k, n) (k, m)   1      0
============== ============ ============== =============== ====== ======

With A the weights and B a batch of activations this is ``x @ W`` and ``x @ W.T``, as frameworks have it. Labels keep
DeepBench's order ``m x n x k``, with ``TN`` and ``NT`` for its own letters. DeepBench adds the product to what C holds
(``beta = 1``); the case has no C.

**Convolutions** are cross-correlations without bias in NCHW. **Recurrent networks** have one layer in one direction, as many
inputs as hidden units, and a state to start from. ``vanilla`` is a ReLU cell, and the GRU multiplies by the reset gate after
the matrix product, as cuDNN's does. DeepBench tells cuDNN to add the input without a matrix product
(``CUDNN_SKIP_INPUT``); ONNX's operators always multiply it by weights, which is about as much work again.

**Sparse matrix products** are dense ones here, whose A has zeros in random places: ONNX has no operator that takes a sparse
matrix. A kernel may use that most of A is 0, but gets it as a dense array.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

from deep_bench.operators.case import Case
from deep_bench.operators.suites.suite import Suite

FILE = Path(__file__).parents[1] / "data" / "deepbench.json"

Row = Mapping[str, Any]


@cache
def _data() -> Mapping[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8"))


def rows(kind: str, part: str) -> list[dict[str, Any]]:
    """DeepBench's own numbers.

    Args:
        kind: ``"gemm"``, ``"conv"``, ``"rnn"`` or ``"sparse_gemm"``.
        part: ``"training"``, ``"server"`` or ``"device"``.

    Example:
        >>> rows("gemm", "device")[0]
        {'m': 5124, 'n': 700, 'k': 2048, 'a_transposed': False, 'b_transposed': False}
    """
    content = _data()[kind]
    return [dict(zip(content["fields"], row, strict=True)) for row in content[part]]


def all_reduce_sizes() -> tuple[int, ...]:
    """How many numbers DeepBench's all-reduces add up.

    Example:
        >>> all_reduce_sizes()[0]
        100000
    """
    return tuple(_data()["all_reduce"]["sizes"])


def _operands(row: Row) -> tuple[tuple[int, int], tuple[int, int]]:
    m, n, k = row["m"], row["n"], row["k"]
    return ((k, n) if row["b_transposed"] else (n, k)), ((m, k) if row["a_transposed"] else (k, m))


def _label(row: Row) -> str:
    sides = "".join("T" if row[side] else "N" for side in ("a_transposed", "b_transposed"))
    return f"{row['m']}x{row['n']}x{row['k']}" + (f" {sides}" if "T" in sides else "")


def _gemm(row: Row) -> Case:
    sides = {"transA": int(row["b_transposed"]), "transB": int(row["a_transposed"])}
    return Case.of("Gemm", *_operands(row), label=_label(row), settings={n: v for n, v in sides.items() if v})


def _sparse_gemm(row: Row) -> Case:
    label = f"{_label(row)} {row['sparsity']:.0%} zeros"
    return Case.of("MatMul", *_operands(row), label=label, draws={"B": f"sparse:{row['sparsity']}"})


def _conv(row: Row) -> Case:
    label = "{w}x{h}x{c}x{n} {k} {filter_w}x{filter_h} p{pad_w}x{pad_h} s{stride_w}x{stride_h}".format(**row)
    padding = [row["pad_h"], row["pad_w"]]
    return Case.of(
        "Conv",
        (row["n"], row["c"], row["h"], row["w"]),
        (row["k"], row["c"], row["filter_h"], row["filter_w"]),
        pads=[*padding, *padding],
        strides=[row["stride_h"], row["stride_w"]],
        label=label,
    )


_CELLS: Mapping[str, tuple[str, int, Mapping[str, Any]]] = {
    "gru": ("GRU", 3, {"linear_before_reset": 1}),
    "lstm": ("LSTM", 4, {}),
    "vanilla": ("RNN", 1, {"activations": ["Relu"]}),
}
"""DeepBench's cell to the operator, its number of gates and its attributes."""


def _rnn(row: Row) -> Case:
    operator, gates, settings = _CELLS[row["cell"]]
    hidden, batch, steps = row["hidden"], row["batch"], row["steps"]
    state = (1, batch, hidden)
    weights = (1, gates * hidden, hidden)
    return Case.of(
        operator,
        (steps, batch, hidden),
        weights,
        weights,
        (1, 2 * gates * hidden),
        None,
        *([state, state] if operator == "LSTM" else [state]),
        hidden_size=hidden,
        label=f"{row['cell']} {hidden}x{batch}x{steps}",
        **settings,
    )


_MAKERS: Mapping[str, Callable[[Row], Case]] = {"conv": _conv, "gemm": _gemm, "rnn": _rnn, "sparse_gemm": _sparse_gemm}

_NOTES: Mapping[str, str] = {
    "conv": "labels are width x height x channels x batch, filters, size of a filter, padding, stride",
    "gemm": "labels are DeepBench's m x n x k, column-major; in row-major arrays the same work is (n, k) times (k, m)",
    "rnn": "labels are hidden units x batch x steps; unlike DeepBench, the operators multiply the input by weights as well",
    "sparse_gemm": "dense products: DeepBench's A, here the second operand, is drawn with zeros in random places",
}


def suite(kind: str, part: str) -> Suite:
    """One of DeepBench's lists.

    Args:
        kind: ``"gemm"``, ``"conv"``, ``"rnn"`` or ``"sparse_gemm"``.
        part: ``"training"``, ``"server"`` or ``"device"``.

    Example:
        >>> case = suite("gemm", "device").case("3072x1500x1024")
        >>> [str(a) for a in case.arguments], case.results[0].shape
        (['A: float32[1500, 1024]', 'B: float32[1024, 3072]'], (1500, 3072))

    Source:
        Baidu DeepBench, https://github.com/baidu-research/DeepBench.
    """
    content = _data()
    cases = [_tagged(_MAKERS[kind](row), kind, part, row) for row in rows(kind, part)]
    return Suite(f"deepbench/{kind}/{part}", cases, content["source"], content["licence"], (_NOTES[kind],))


def _tagged(case: Case, kind: str, part: str, row: Row) -> Case:
    words = {"deepbench", kind, part, *([row["cell"]] if "cell" in row else [])}
    return replace(case, tags=frozenset(words), source=f"DeepBench, {kind}, {part}")


conv_device = partial(suite, "conv", "device")
conv_server = partial(suite, "conv", "server")
conv_training = partial(suite, "conv", "training")
gemm_device = partial(suite, "gemm", "device")
gemm_server = partial(suite, "gemm", "server")
gemm_training = partial(suite, "gemm", "training")
rnn_device = partial(suite, "rnn", "device")
rnn_server = partial(suite, "rnn", "server")
rnn_training = partial(suite, "rnn", "training")
sparse_gemm_device = partial(suite, "sparse_gemm", "device")
sparse_gemm_server = partial(suite, "sparse_gemm", "server")
