"""What each parameter does in its network, found by the inputs of operators that it feeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument
from deep_bench.graph import Network, operator_name
from deep_bench.graph.node import attributes
from deep_bench.tensor import is_inexact
from deep_bench.training.initial.passing import passed
from deep_bench.training.initial.schemes import Fans

Kind = Literal["bias", "embedding", "mean", "recurrent", "scale", "slope", "state", "variance", "weight"]


@dataclass(frozen=True, eq=False)
class Role:
    """What a parameter does.

    Args:
        kind: ``"weight"``, ``"embedding"``, ``"bias"``, ``"scale"`` (of a normalization), ``"recurrent"`` (all parameters of
            LSTM, GRU and RNN), ``"slope"`` (of PRelu), ``"state"`` (the first of a recurrent layer), and the running
            ``"mean"`` and ``"variance"``.
        node: Name of the node that it does this in.
        fans: Of a weight.
        layout: Of a weight, the positions of its elements, row by row, as blocks of matrices (blocks, out, in).
        hidden: Of a recurrent layer, the size of its state.
    """

    kind: Kind
    node: str
    fans: Fans | None = None
    layout: np.ndarray | None = None
    hidden: int = 0


def roles(network: Network) -> dict[str, Role | None]:
    """The role of each parameter and running statistic of a network, ``None`` for one without.

    Roles are found through ``Transpose``, ``Reshape``, ``Flatten``, ``Squeeze``, ``Unsqueeze``, ``Identity``, casts,
    ``QuantizeLinear`` and ``DequantizeLinear``. A parameter that is added is a bias if it has elements along one axis only,
    else a table of positions, an embedding; one that is multiplied by, elements along one axis, a scale. A table that is
    looked up in is an embedding whatever else it does (tied output layers).

    Args:
        network: Any.

    Returns:
        Name to role, in the order of the network's initializers.

    Raises:
        InvalidArgument: A parameter with two roles.

    Example:
        >>> import deep_bench as db
        >>> found = roles(db.load("digits-cnn"))
        >>> found["stem.weight"].kind, found["stem.weight"].fans.fan_in, found["stem_norm.running_var"].kind
        ('weight', 9, 'variance')
    """
    by_name = {}
    for name, array in network.initializers.items():
        if not is_inexact(array.dtype):
            continue
        role = _role(network, name, array)
        if role is not None or name in network.parameters:
            by_name[name] = role
    return by_name


def _role(network: Network, name: str, array: np.ndarray) -> Role | None:
    positions = np.arange(array.size).reshape(array.shape)
    by_kind: dict[str, Role] = {}
    _follow(network.graph.initializers[name], positions, by_kind)
    if array.size < 2 and name not in network.parameters:
        by_kind = {kind: role for kind, role in by_kind.items() if role.layout is None and not _elementwise(network, role)}
    if "embedding" in by_kind:
        return by_kind["embedding"]
    if len(by_kind) > 1:
        uses = ", ".join(f"{role.kind} in {role.node!r}" for role in by_kind.values())
        raise InvalidArgument(
            f"{name!r} has several roles: {uses}", "one role for each parameter", "give each role an initializer of its own"
        )
    return next(iter(by_kind.values()), None)


def _elementwise(network: Network, role: Role) -> bool:
    return any(node.name == role.node and operator_name(node) in ("Add", "Mul") for node in network.all_nodes())


def _follow(value: ir.Value, positions: np.ndarray, by_kind: dict[str, Role]) -> None:
    for use in value.uses():
        node, index = use.node, use.idx
        moved = passed(node, index, positions)
        if moved is not None:
            _follow(node.outputs[0], moved, by_kind)
        elif (role := _at(node, index, positions)) is not None:
            by_kind.setdefault(role.kind, role)


def _at(node: ir.Node, index: int, positions: np.ndarray) -> Role | None:
    operator, settings = operator_name(node), attributes(node)
    if (weigh := _WEIGHTS.get((operator, index))) is not None:
        layout, fans = weigh(positions, settings)
        return Role("weight", str(node.name), fans, layout)
    if operator in _RECURRENT and index in _RECURRENT[operator]:
        hidden = settings["hidden_size"]
        return Role("state" if index in (5, 6) else "recurrent", str(node.name), hidden=hidden)
    spread = sum(size > 1 for size in positions.shape)
    if operator == "Add":
        return Role("bias" if spread < 2 else "embedding", str(node.name))
    if operator == "Mul" and spread < 2:
        return Role("scale", str(node.name))
    kind = _KINDS.get((operator, index))
    return None if kind is None else Role(kind, str(node.name))


Weighed = tuple[np.ndarray, Fans]


def _blocks(matrices: np.ndarray, fan_in: float | None = None, fan_out: float | None = None) -> Weighed:
    _, out, into = matrices.shape
    return matrices, Fans(into if fan_in is None else fan_in, out if fan_out is None else fan_out)


def _matrix(positions: np.ndarray, *, rows_are_in: bool) -> Weighed:
    if positions.ndim == 1:
        return _blocks(positions.reshape(1, 1, -1))
    matrices = np.swapaxes(positions, -1, -2) if rows_are_in else positions
    return _blocks(matrices.reshape(-1, *matrices.shape[-2:]))


def _convolved(positions: np.ndarray, settings: Mapping[str, Any]) -> Weighed:
    """Kernels [out, in / groups, …]: an output sums a window of the channels of its group."""
    groups, window = settings.get("group", 1), prod(positions.shape[2:])
    out = positions.shape[0] // groups
    return _blocks(positions.reshape(groups, out, -1), fan_out=out * window)


def _transposed(positions: np.ndarray, settings: Mapping[str, Any]) -> Weighed:
    """Kernels [in, out / groups, …]: strides leave an output only some of the window."""
    groups, window = settings.get("group", 1), prod(positions.shape[2:])
    into, out = positions.shape[0] // groups, positions.shape[1]
    matrices = np.moveaxis(positions.reshape(groups, into, out, window), 1, 2).reshape(groups, out, into * window)
    strides = prod(settings.get("strides", ()))
    return _blocks(matrices, fan_in=max(into * window / strides, 1), fan_out=out * window)


_WEIGHTS: Mapping[tuple[str, int], Callable[[np.ndarray, Mapping[str, Any]], Weighed]] = {
    ("Conv", 1): _convolved,
    ("ConvTranspose", 1): _transposed,
    ("Gemm", 0): lambda positions, stated: _matrix(positions, rows_are_in=bool(stated.get("transA", 0))),
    ("Gemm", 1): lambda positions, stated: _matrix(positions, rows_are_in=not stated.get("transB", 0)),
    ("MatMul", 0): lambda positions, _: _matrix(positions, rows_are_in=False),
    ("MatMul", 1): lambda positions, _: _matrix(positions, rows_are_in=True),
}

_RECURRENT = {"GRU": {1, 2, 3, 5}, "LSTM": {1, 2, 3, 5, 6, 7}, "RNN": {1, 2, 3, 5}}

_KINDS: Mapping[tuple[str, int], Kind] = {
    ("BatchNormalization", 1): "scale",
    ("BatchNormalization", 2): "bias",
    ("BatchNormalization", 3): "mean",
    ("BatchNormalization", 4): "variance",
    ("Conv", 2): "bias",
    ("ConvTranspose", 2): "bias",
    ("Gather", 0): "embedding",
    ("Gemm", 2): "bias",
    ("GroupNormalization", 1): "scale",
    ("GroupNormalization", 2): "bias",
    ("InstanceNormalization", 1): "scale",
    ("InstanceNormalization", 2): "bias",
    ("LayerNormalization", 1): "scale",
    ("LayerNormalization", 2): "bias",
    ("PRelu", 1): "slope",
    ("RMSNormalization", 1): "scale",
    ("com.microsoft:BiasGelu", 1): "bias",
    ("com.microsoft:SkipLayerNormalization", 2): "scale",
    ("com.microsoft:SkipLayerNormalization", 3): "bias",
    ("com.microsoft:SkipLayerNormalization", 4): "bias",
}
