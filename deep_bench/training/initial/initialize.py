"""``initialize``: the network with parameters drawn anew."""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping
from math import inf, sqrt
from typing import Literal

import numpy as np
import onnx_ir as ir

from deep_bench.errors import InvalidArgument, Unsupported
from deep_bench.graph import Network, NetworkLike, as_network
from deep_bench.training.initial.roles import Role, roles
from deep_bench.training.initial.schemes import SCHEMES, Scheme


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
