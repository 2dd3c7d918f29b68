"""Operators that draw random numbers: which cases they are in, and whether an adapter draws from the right distributions.

`RANDOM_CHECKS` are run like `deep_bench.testing.ADAPTER_CHECKS`. Every test is made at the level `LEVEL`, so that a right
adapter fails one of them in fewer than one of a million runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import sqrt
from typing import Any

import numpy as np
import onnx
from scipy import stats

from deep_bench.facts import OPERATORS
from deep_bench.framework import Adapter
from deep_bench.graph import Network
from deep_bench.testing.case import Case

RANDOM_OPERATORS = frozenset(name for name, row in OPERATORS.items() if row.random)
"""Operators of the default domain whose every result is drawn; Dropout draws in training mode only."""

LEVEL = 1e-9
"""The probability with which one statistical test rejects right draws; there are under a hundred tests in a run."""

DRAWS = 50_000
"""Numbers drawn for one test: a mean that is off by 0.04 standard deviations is found, or a probability off by 0.02."""

_OPSET = 15
"""The newest version that has Bernoulli and that every runtime's kernels for random numbers are of."""


# Which cases draw


def is_random(case: Case) -> bool:
    """Whether a case's expected outputs are draws of a generator that the standard does not name.

    These are the six cases of Bernoulli, which state no usable seed, and the four of Dropout in training mode with a ratio,
    whose outputs are those of ``numpy.random.RandomState``. A system that gives other draws is not wrong, so that such a
    case can pass, but not fail; the distributions are what `RANDOM_CHECKS` test.

    Args:
        case: A case of the standard, as is or frozen.

    Example:
        >>> from deep_bench.testing import standard_cases
        >>> [c.name for c in standard_cases("node") if is_random(c)][:2]
        ['test_bernoulli', 'test_bernoulli_expanded']
    """
    graph = case.proto.graph
    arrays = {t.name: onnx.numpy_helper.to_array(t) for t in graph.initializer}
    fed = [v.name for v in graph.input if v.name not in arrays]
    arrays |= dict(zip(fed, case.inputs, strict=False))
    return draws_always(case) or any(_drops(node, arrays) for node in _nodes(graph))


def draws_always(case: Case) -> bool:
    """Whether a case contains one of `RANDOM_OPERATORS`, so that agreement with its outputs is chance."""
    return any(node.op_type in RANDOM_OPERATORS for node in _nodes(case.proto.graph))


def _nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from _nodes(attribute.g)


def _drops(node: onnx.NodeProto, arrays: Mapping[str, Any]) -> bool:
    """Whether a node is a Dropout that trains, with a ratio other than 0; what is not known may be so."""
    if node.op_type != "Dropout" or len(node.input) < 3 or not node.input[2]:
        return False
    training, ratio = arrays.get(node.input[2], True), arrays.get(node.input[1], 0.5)
    return bool(np.all(training)) and bool(np.all(ratio))


# Tests of draws; each raises ``AssertionError``


def check_continuous(draws: np.ndarray, distribution: Any) -> None:
    """Whether numbers are independent draws from a continuous distribution.

    Mean and variance are compared by their standard errors, the distribution by Kolmogorov and Smirnov's test, and
    neighbours by their correlation.

    Args:
        draws: Any shape, some thousands of numbers.
        distribution: A frozen one of ``scipy.stats``.

    Raises:
        AssertionError: They are not, at `LEVEL`.

    Example:
        >>> check_continuous(np.random.default_rng(0).normal(2, 3, 10_000), stats.norm(2, 3))
    """
    x = np.asarray(draws, np.float64).ravel()
    assert np.isfinite(x).all(), "draws that are not finite"
    mean, variance, excess = (float(v) for v in distribution.stats("mvk"))
    _check_deviation("mean", float(x.mean()) - mean, sqrt(variance / x.size))
    spread = float(np.mean((x - mean) ** 2)) - variance
    _check_deviation("variance", spread, variance * sqrt((excess + 2) / x.size))
    test = stats.kstest(x, distribution.cdf)
    assert test.pvalue >= LEVEL, f"distribution: Kolmogorov-Smirnov p = {test.pvalue:.1e}"
    check_independent(x, mean, variance)


def check_counts(draws: np.ndarray, probabilities: Mapping[float, float]) -> None:
    """Whether numbers are draws from a discrete distribution, by the chi-square test.

    Args:
        draws: Any shape.
        probabilities: Value to probability; a value of probability 0 must not occur.

    Raises:
        AssertionError: They are not, at `LEVEL`.

    Example:
        >>> check_counts(np.random.default_rng(0).integers(0, 2, 10_000), {0: 0.5, 1: 0.5})
    """
    x = np.asarray(draws, np.float64).ravel()
    counts = {value: int(np.count_nonzero(x == value)) for value in probabilities}
    strange = x.size - sum(counts.values())
    assert strange == 0, f"{strange} draws that are none of {list(probabilities)}"
    possible = {value: p for value, p in probabilities.items() if p > 0}
    impossible = [v for v in probabilities if v not in possible and counts[v]]
    assert not impossible, f"draws of {impossible}, whose probability is 0"
    if len(possible) < 2:
        return
    test = stats.chisquare([counts[v] for v in possible], [p * x.size for p in possible.values()])
    shares = {v: round(count / x.size, 4) for v, count in counts.items()}
    assert test.pvalue >= LEVEL, f"shares {shares} instead of {dict(probabilities)}: chi-square p = {test.pvalue:.1e}"


def check_independent(draws: np.ndarray, mean: float, variance: float) -> None:
    """Whether neighbouring draws are uncorrelated.

    Raises:
        AssertionError: They are not, at `LEVEL`.
    """
    x = np.asarray(draws, np.float64).ravel() - mean
    _check_deviation("correlation of neighbours", float(np.mean(x[1:] * x[:-1])) / variance, (x.size - 1) ** -0.5)


def _check_deviation(quantity: str, deviation: float, error: float) -> None:
    most = float(stats.norm.isf(LEVEL / 2))
    assert abs(deviation) <= most * error, (
        f"{quantity} is off by {deviation:.4g}, {abs(deviation) / error:.0f} standard errors"
    )


# What is drawn


@dataclass(frozen=True)
class RandomNode:
    """A node that draws, and the test that its draws must pass.

    Args:
        operator: Its operator.
        test: Takes its outputs.
        inputs: Its inputs; all but the first are initializers.
        attributes: Its attributes, without ``seed``.
        outputs: The number of its outputs.
    """

    operator: str
    test: Callable[..., None]
    inputs: Sequence[np.ndarray] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def network(self, **settings: Any) -> Network:
        """The node as a network, with further attributes."""
        helper = onnx.helper
        names = [f"x{i}" for i in range(len(self.inputs))]
        results = [f"y{i}" for i in range(self.outputs)]
        node = helper.make_node(self.operator, names, results, name="draw", **self.attributes, **settings)
        fed = [
            helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
            for n, a in zip(names[:1], self.inputs, strict=False)
        ]
        initializers = [onnx.numpy_helper.from_array(a, n) for n, a in zip(names[1:], self.inputs[1:], strict=True)]
        graph = helper.make_graph([node], self.operator, fed, [onnx.ValueInfoProto(name=n) for n in results], initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=8)
        return Network.from_proto(onnx.shape_inference.infer_shapes(model, strict_mode=True))

    def outcomes(self, adapter: Adapter[Any], calls: int = 1, **settings: Any) -> list[list[np.ndarray]]:
        """The outputs of some calls of one executor.

        Args:
            adapter: Who draws.
            calls: How often.
            settings: Further attributes of the node.
        """
        executor = adapter.prepare(self.network(**settings))
        feeds = {spec.name: array for spec, array in zip(executor.inputs, self.inputs, strict=False)}
        return [list(executor(feeds).values()) for _ in range(calls)]


def _test_bernoulli(y: np.ndarray) -> None:
    for row, p in zip(y, _SHARES, strict=True):
        check_counts(row, {0: 1 - p, 1: p})
    check_independent(y[2], _SHARES[2], _SHARES[2] * (1 - _SHARES[2]))


def _test_dropout(y: np.ndarray, mask: np.ndarray) -> None:
    assert mask.dtype == bool, f"a mask of {mask.dtype}"
    check_counts(mask, {0: _RATIO, 1: 1 - _RATIO})
    check_independent(mask, 1 - _RATIO, _RATIO * (1 - _RATIO))
    assert not y[~mask].any(), "elements that the mask leaves out are not 0"
    expected = _DROPPED[mask] / (1 - _RATIO)
    assert np.allclose(y[mask], expected, rtol=1e-5), "elements that are kept are not scaled by 1 / (1 - ratio)"


_RATIO = 0.25
_SHARES = (0.0, 0.1, 0.5, 0.8, 1.0)
_CLASSES = (0.1, 0.2, 0.3, 0.4)
_DROPPED = np.linspace(1, 2, DRAWS, dtype=np.float32)
_EMPTY = np.zeros((DRAWS // 100, 100), np.float32)
_NORMAL: Mapping[str, Any] = {"mean": 2.0, "scale": 3.0}
_UNIFORM: Mapping[str, Any] = {"low": -2.0, "high": 5.0}
_AS_NORMAL = partial(check_continuous, distribution=stats.norm(2, 3))
_AS_UNIFORM = partial(check_continuous, distribution=stats.uniform(-2, 7))

DRAWN: Mapping[str, RandomNode] = {
    "Bernoulli": RandomNode(
        "Bernoulli", _test_bernoulli, [np.repeat(np.array(_SHARES, np.float32)[:, np.newaxis], DRAWS, axis=1)]
    ),
    "Dropout": RandomNode("Dropout", _test_dropout, [_DROPPED, np.array(_RATIO, np.float32), np.array(True)], outputs=2),
    "Multinomial": RandomNode(
        "Multinomial",
        partial(check_counts, probabilities=dict(enumerate(_CLASSES))),
        [np.log(np.array([_CLASSES], np.float32)) + 3],
        {"sample_size": DRAWS},
    ),
    "RandomNormal": RandomNode("RandomNormal", _AS_NORMAL, attributes={"shape": [DRAWS], **_NORMAL}),
    "RandomNormalLike": RandomNode("RandomNormalLike", _AS_NORMAL, [_EMPTY], _NORMAL),
    "RandomUniform": RandomNode("RandomUniform", _AS_UNIFORM, attributes={"shape": [DRAWS], **_UNIFORM}),
    "RandomUniformLike": RandomNode("RandomUniformLike", _AS_UNIFORM, [_EMPTY], _UNIFORM),
}
"""Operator to what is drawn with it, and how that is tested."""


# Checks of an adapter


def draws_right(adapter: Adapter[Any], operator: str) -> None:
    """Draws have the distribution that the specification states."""
    draw = DRAWN[operator]
    draw.test(*draw.outcomes(adapter)[0])


def repeats_with_seed(adapter: Adapter[Any], operator: str) -> None:
    """Two executors prepared with one seed give the same draws, of the right distribution; another seed gives others."""
    draw = DRAWN[operator]
    (first,), (second,), (third,) = (draw.outcomes(adapter, **_seed(operator, value)) for value in (3, 3, 4))
    assert _equal_draws(first, second), "one seed gave two different draws"
    assert not _equal_draws(first, third), "two seeds gave the same draws"
    draw.test(*first)


def varies_without_seed(adapter: Adapter[Any], operator: str) -> None:
    """Without a seed, two calls of one executor differ."""
    first, second = DRAWN[operator].outcomes(adapter, calls=2)
    assert not _equal_draws(first, second), "two calls without a seed gave the same draws"


def _seed(operator: str, value: int) -> dict[str, Any]:
    """Dropout's seed is a whole number, those of the others are not."""
    return {"seed": value if operator == "Dropout" else float(value)}


def _equal_draws(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> bool:
    return all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))


RANDOM_CHECKS: Mapping[str, Callable[[Adapter[Any]], None]] = {
    f"{operator} {check.__name__}": partial(check, operator=operator)
    for operator in DRAWN
    for check in (draws_right, repeats_with_seed, varies_without_seed)
}
"""Name to check: takes an adapter, and raises ``AssertionError`` with what it found."""
