"""Fresh parameters for a network, by what each of them does in it.

What a parameter does is seen by the inputs of operators that it feeds, past operators that only move its elements.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from types import MappingProxyType
from typing import Literal

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.facts.row import Fans
from deep_bench.graph import Network, NetworkLike, as_network, operator_name
from deep_bench.graph.node import as_array, attributes, operator_facts
from deep_bench.tensor import is_inexact

__all__ = ["SCHEMES", "Role", "Scheme", "initialize", "roles"]


Scheme = Callable[[np.random.Generator, tuple[int, int, int], Fans], np.ndarray]
"""From a generator, the shape (blocks, out, in) and the fans to weights in float64."""


def _normal(variance: Callable[[Fans], float]) -> Scheme:
    return lambda generator, shape, fans: generator.normal(0.0, sqrt(variance(fans)), shape)


def _uniform(variance: Callable[[Fans], float]) -> Scheme:
    def draw(generator: np.random.Generator, shape: tuple[int, int, int], fans: Fans) -> np.ndarray:
        bound = sqrt(3 * variance(fans))
        return generator.uniform(-bound, bound, shape)

    return draw


def _he(fans: Fans) -> float:
    return 2 / fans.fan_in


def _glorot(fans: Fans) -> float:
    return 2 / (fans.fan_in + fans.fan_out)


def _lecun(fans: Fans) -> float:
    return 1 / fans.fan_in


def _orthogonal(generator: np.random.Generator, shape: tuple[int, int, int], fans: Fans) -> np.ndarray:
    """Of each block, rows of length 1 at right angles, or columns where there are fewer of them."""
    del fans
    blocks, out, into = shape
    q, r = np.linalg.qr(generator.normal(size=(blocks, max(out, into), min(out, into))))
    q = q * np.sign(np.diagonal(r, axis1=1, axis2=2))[:, None]  # without this, not uniform over all such matrices
    return q if out >= into else np.swapaxes(q, 1, 2)


SCHEMES: Mapping[str, Scheme] = MappingProxyType(
    {
        "glorot-normal": _normal(_glorot),
        "glorot-uniform": _uniform(_glorot),
        "he-normal": _normal(_he),
        "he-uniform": _uniform(_he),
        "lecun-normal": _normal(_lecun),
        "lecun-uniform": _uniform(_lecun),
        "orthogonal": _orthogonal,
    }
)
"""Name to how weights are drawn; see `initialize` for the formulas."""


def passed(node: ir.Node, index: int, positions: np.ndarray) -> np.ndarray | None:
    """Where elements are after a node that moves them; ``None`` if it does something else with them.

    Args:
        node: The node.
        index: Which of its inputs they are.
        positions: Any array in the shape of that input.
    """
    move = _MOVES.get(operator_name(node))
    return None if move is None or index != 0 else move(node, positions)


def _transpose(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    return positions.transpose(attributes(node).get("perm"))


def _reshape(node: ir.Node, positions: np.ndarray) -> np.ndarray | None:
    target = _numbers(node)
    if target is None:
        return None
    keep = not attributes(node).get("allowzero", 0)
    return positions.reshape([positions.shape[i] if size == 0 and keep else size for i, size in enumerate(target)])


def _flatten(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    axis = attributes(node).get("axis", 1)
    return positions.reshape(int(np.prod(positions.shape[:axis], dtype=np.int64)), -1)


def _squeeze(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    axes = _numbers(node)
    return positions.squeeze(None if axes is None else tuple(axes))


def _unsqueeze(node: ir.Node, positions: np.ndarray) -> np.ndarray | None:
    axes = _numbers(node)
    return None if axes is None else np.expand_dims(positions, tuple(axes))


def _as_is(node: ir.Node, positions: np.ndarray) -> np.ndarray:
    del node
    return positions


def _numbers(node: ir.Node) -> list[int] | None:
    """The second input, or the attribute that it was before opset 13."""
    if len(node.inputs) > 1 and node.inputs[1] is not None:
        array = as_array(node.inputs[1])
        return None if array is None else [int(i) for i in array]
    axes = attributes(node).get("axes")
    return None if axes is None else list(axes)


_MOVES: Mapping[str, Callable[[ir.Node, np.ndarray], np.ndarray | None]] = {
    "Cast": _as_is,
    "CastLike": _as_is,
    "DequantizeLinear": _as_is,
    "Flatten": _flatten,
    "Identity": _as_is,
    "QuantizeLinear": _as_is,
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
}


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
    operator, settings, facts = operator_name(node), attributes(node), operator_facts(node)
    if (weigh := facts.weights.get(index)) is not None:
        layout, fans = weigh(positions, settings)
        return Role("weight", str(node.name), fans, layout)
    kind = facts.roles.get(index)
    if kind in ("recurrent", "state"):
        return Role(kind, str(node.name), hidden=settings["hidden_size"])
    spread = sum(size > 1 for size in positions.shape)
    if operator == "Add":
        return Role("bias" if spread < 2 else "embedding", str(node.name))
    if operator == "Mul" and spread < 2:
        return Role("scale", str(node.name))
    return None if kind is None else Role(kind, str(node.name))


def initialize(
    network: NetworkLike,
    seed: int = 0,
    scheme: str = "he-normal",
    *,
    gain: float = 1.0,
    embedding: float = 0.02,
    others: Literal["refuse", "keep"] = "refuse",
) -> Network:
    r"""A network with fresh parameters, each drawn by what it does.

    =================================== ==========================================================================
    role                                value
    =================================== ==========================================================================
    weights                             by ``scheme``, times ``gain``: with :math:`n` terms in each sum forward,
                                        :math:`m` backward,
    \- ``he-normal``, ``he-uniform``    mean 0, variance :math:`2 / n`: keeps the mean square through ReLU
    \- ``glorot-normal``, ``-uniform``  :math:`2 / (n + m)`
    \- ``lecun-normal``, ``-uniform``   :math:`1 / n`
    \- ``orthogonal``                   :math:`W W^T = 1` or :math:`W^T W = 1`, uniform among such matrices
    embeddings                          normal, standard deviation ``embedding``
    biases, running means, first states 0
    scales, running variances           1
    all of LSTM, GRU and RNN            uniform in :math:`\pm 1 / \sqrt{h}`, with :math:`h` the size of the state
    slopes of PRelu                     0.25
    =================================== ==========================================================================

    Each parameter has a generator of its own, seeded by ``seed`` and its name: what it becomes does not depend on other
    parameters. `roles` says what a parameter does, and how that is found.

    Args:
        network: Any network, or its file.
        seed: At least 0.
        scheme: How weights are drawn; one of `SCHEMES`.
        gain: What weights are multiplied by.
        embedding: Standard deviation of embeddings.
        others: ``"keep"``: parameters without a role stay as they are.

    Returns:
        A new network with the same graph.

    Raises:
        InvalidArgument: An unknown scheme, an argument out of its range, or a parameter with several roles.
        Unsupported: A parameter without a role.

    Example:
        >>> import deep_bench as db
        >>> fresh = initialize(db.load("digits-cnn"), seed=1)
        >>> float(fresh.parameters["stem.bias"].std() if "stem.bias" in fresh.parameters else 0)
        0.0
        >>> bool((initialize(fresh, seed=1).parameters["stem.weight"] == fresh.parameters["stem.weight"]).all())
        True

    Source:
        He, Zhang, Ren and Sun, *Delving deep into rectifiers*, ICCV 2015, section 2.2 (weights; slopes: section 2.1); Glorot
        and Bengio, *Understanding the difficulty of training deep feedforward neural networks*, AISTATS 2010, equation 16;
        LeCun, Bottou, Orr and Müller, *Efficient BackProp*, 1998, section 4.6; Saxe, McClelland and Ganguli, *Exact
        solutions to the nonlinear dynamics of learning in deep linear neural networks*, ICLR 2014; Mezzadri, *How to
        generate random matrices from the classical compact groups*, 2007 (uniform orthogonal); Radford et al., *Improving
        language understanding by generative pre-training*, 2018, section 4.1 (embeddings). Recurrent layers as PyTorch.
    """
    network = as_network(network)
    _check(seed, scheme, gain, embedding, others)
    by_name = roles(network)
    unknown = [name for name, role in by_name.items() if role is None]
    if unknown and others == "refuse":
        raise Unsupported(
            f"parameters of {network.name} whose role is unknown: {', '.join(unknown[:5])}{', …' if unknown[5:] else ''}",
            "weights, biases, embeddings, parameters of normalizations and recurrent layers",
            "others='keep' leaves such parameters as they are",
        )
    fresh = network.copy()
    for name, role in by_name.items():
        value = fresh.graph.initializers[name]
        if role is not None and value.const_value is not None:
            old = value.const_value.numpy()
            drawn = _drawn(role, old.shape, _generator(seed, name), SCHEMES[scheme], gain, embedding)
            value.const_value = ir.tensor(drawn.astype(old.dtype), name=name)
    return Network(fresh.model, name=network.name, source=None)


def _check(seed: int, scheme: str, gain: float, embedding: float, policy: str) -> None:
    if scheme not in SCHEMES:
        near = difflib.get_close_matches(scheme, SCHEMES, n=1)
        raise InvalidArgument(
            f"scheme {scheme!r}", f"one of {', '.join(SCHEMES)}", f"did you mean {near[0]!r}?" if near else ""
        )
    if seed < 0 or not 0 < gain < inf or not 0 < embedding < inf:
        raise InvalidArgument(
            f"seed={seed}, gain={gain}, embedding={embedding}", "a seed of at least 0, and finite numbers above 0"
        )
    if policy not in ("refuse", "keep"):
        raise InvalidArgument(f"others={policy!r}", "'refuse' or 'keep'")


def _generator(seed: int, name: str) -> np.random.Generator:
    words = np.frombuffer(hashlib.sha256(name.encode()).digest(), "<u4")
    return np.random.default_rng([seed, *map(int, words)])


def _drawn(
    role: Role, shape: tuple[int, ...], generator: np.random.Generator, scheme: Scheme, gain: float, embedding: float
) -> np.ndarray:
    if role.kind == "weight":
        assert role.layout is not None
        assert role.fans is not None
        drawn = np.empty(shape)
        drawn.reshape(-1)[role.layout] = gain * scheme(generator, role.layout.shape, role.fans)
        return drawn
    if role.kind == "embedding":
        return generator.normal(0.0, embedding, shape)
    if role.kind == "recurrent":
        bound = 1 / sqrt(role.hidden)
        return generator.uniform(-bound, bound, shape)
    return np.full(shape, _CONSTANT[role.kind])


_CONSTANT: Mapping[str, float] = {"bias": 0, "mean": 0, "scale": 1, "slope": 0.25, "state": 0, "variance": 1}
