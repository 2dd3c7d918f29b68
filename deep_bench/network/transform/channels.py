"""``layout``: images given and returned with their channels last, or first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.network.transform.draft import Draft
from deep_bench.network.transform.equivalence import Arrays, Call, Through
from deep_bench.tensor import TensorSpec

Layout = Literal["NHWC", "NCHW"]


def layout(
    network: NetworkLike, to: Layout = "NHWC", *, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Network:
    """The network with images in another layout at its borders, and transposes behind them.

    Tensors of any rank from 3 are permuted: ``NHWC`` moves the channels from the second place to the last, ``NCHW`` back.
    Inputs and outputs keep their names; the value in the old layout is called ``name.NCHW`` or ``name.NHWC``.

    Args:
        network: Any network, or its file.
        to: The layout that inputs and outputs shall have: ``"NHWC"`` for one that has NCHW, or the reverse.
        inputs: Which inputs; by default all of rank 4.
        outputs: Which outputs; by default all of rank 4.

    Raises:
        InvalidArgument: Another layout; a name that is no input or output; one of a rank below 3; or nothing of rank 4.

    Example:
        >>> import deep_bench as db
        >>> [str(spec) for spec in layout(db.load("digits-cnn"), "NHWC").inputs]
        ['image: float32[batch, 8, 8, 1]']
    """
    network = as_network(network)
    chosen = _permuted_tensors(network, to, inputs, outputs)
    draft = Draft(network, "layout", oldest=0)
    old = "NCHW" if to == "NHWC" else "NHWC"
    for name in chosen.inputs:
        value = draft.value(name)
        perm = _permutation(chosen.rank[name], old)
        inner = ir.Value(name=draft.names.fresh(f"{value.name}.{old}"), type=value.type, shape=value.shape)
        value.replace_all_uses_with(inner, replace_graph_outputs=True)
        back = np.argsort(perm).tolist()
        value.shape = _reordered(value.shape, back)
        _transpose(draft, value, perm, inner)
    for name in chosen.outputs:
        _permute_output(draft, draft.value(name), _permutation(chosen.rank[name], to), old)
    return draft.finish()


def through_layout(
    network: NetworkLike, to: Layout = "NHWC", *, inputs: Sequence[str] | None = None, outputs: Sequence[str] | None = None
) -> Through:
    """How to check what `layout` made with these arguments: permutes what goes in, and back what comes out.

    Example:
        >>> import numpy as np, deep_bench as db
        >>> from deep_bench.network.transform import check
        >>> network = db.load("digits-cnn")
        >>> image = {"image": np.random.default_rng(0).random((2, 1, 8, 8), np.float32)}
        >>> check(network, layout(network), image, through=through_layout(network)).word
        'right'
    """
    network = as_network(network)
    chosen = _permuted_tensors(network, to, inputs, outputs)
    old = "NCHW" if to == "NHWC" else "NHWC"

    def through(call: Call, arrays: Arrays) -> Mapping[str, Any]:
        fed = {n: _permuted(x, to) if n in chosen.inputs else x for n, x in arrays.items()}
        return {n: _permuted(y, old) if n in chosen.outputs else y for n, y in call(fed).items()}

    return through


class _PermutedTensors:
    def __init__(self, inputs: Sequence[str], outputs: Sequence[str], rank: Mapping[str, int]) -> None:
        self.inputs, self.outputs, self.rank = tuple(inputs), tuple(outputs), rank


def _permuted_tensors(
    network: Network, to: str, inputs: Sequence[str] | None, outputs: Sequence[str] | None
) -> _PermutedTensors:
    if to not in ("NHWC", "NCHW"):
        raise InvalidArgument(f"the layout {to!r}", "NHWC or NCHW")
    ins, outs = (
        _ranks_by_name(network, k, s, c)
        for k, s, c in (("input", network.inputs, inputs), ("output", network.outputs, outputs))
    )
    if not ins and not outs:
        raise InvalidArgument(
            f"{network.name}, which has no input or output of rank 4",
            "images in batches",
            f"name what to permute: {'; '.join(map(str, (*network.inputs, *network.outputs)))}",
        )
    return _PermutedTensors(list(ins), list(outs), {**ins, **outs})


def _ranks_by_name(network: Network, kind: str, specs: Sequence[TensorSpec], names: Sequence[str] | None) -> dict[str, int]:
    by_name = {s.name: s for s in specs}
    if names is None:
        return {s.name: s.rank for s in specs if s.is_tensor and s.rank == 4}
    for name in names:
        if name not in by_name:
            raise InvalidArgument(f"{network.name} has no {kind} {name!r}", f"one of {', '.join(by_name)}")
        if by_name[name].rank < 3 or not by_name[name].is_tensor:
            raise InvalidArgument(f"the {kind} {by_name[name]}", "a tensor of rank 3 or more: a batch, channels, and places")
    return {name: by_name[name].rank for name in names}


def _permutation(rank: int, to: str) -> list[int]:
    """Where each axis of a tensor in layout ``to`` comes from."""
    return [0, *range(2, rank), 1] if to == "NHWC" else [0, rank - 1, *range(1, rank - 1)]


def _permuted(x: np.ndarray, to: str) -> np.ndarray:
    return np.ascontiguousarray(np.transpose(x, _permutation(x.ndim, to)))


def _transpose(draft: Draft, value: ir.Value, perm: Sequence[int], output: ir.Value) -> None:
    name = draft.names.fresh(f"{output.name}.Transpose")
    draft.graph.append(ir.Node("", "Transpose", [value], [ir.AttrInt64s("perm", list(perm))], outputs=[output], name=name))


def _reordered(shape: ir.Shape | None, perm: Sequence[int]) -> ir.Shape | None:
    return None if shape is None else ir.Shape([shape[i] for i in perm])


def _permute_output(draft: Draft, value: ir.Value, perm: Sequence[int], old: str) -> None:
    name = str(value.name)
    value.name = draft.names.fresh(f"{name}.{old}")
    output = ir.Value(name=name, type=value.type, shape=_reordered(value.shape, perm))
    draft.graph.outputs[:] = [output if v is value else v for v in draft.graph.outputs]
    _transpose(draft, value, perm, output)
