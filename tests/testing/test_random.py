"""The statistical tests of random operators: every adapter passes them, and wrong generators do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.reference.operators import find
from deep_bench.testing import freeze, onnx_faults, standard_cases
from deep_bench.testing.random import DRAWN, RANDOM_CHECKS, is_random

_INVERTED = next(fault.reason for fault in onnx_faults.FAULTS if fault.name == "bernoulli_inverted")
_FAULTS = {("onnxruntime", f"Bernoulli {check}"): _INVERTED for check in ("draws_right", "repeats_with_seed")}


def _checks() -> Iterator[Any]:
    for framework in db.frameworks:
        for check in RANDOM_CHECKS:
            reason = _FAULTS.get((framework, check))
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, raises=AssertionError, strict=True)]
            yield pytest.param(framework, check, marks=marks, id=f"{framework}, {check}")


@pytest.mark.parametrize(("framework", "check"), list(_checks()))
def test_adapter_draws(framework: str, check: str) -> None:
    if db.frameworks.missing(framework):
        pytest.skip(f"{framework} is not installed")
    RANDOM_CHECKS[check](db.frameworks[framework]())


def test_six_cases_of_bernoulli_and_four_of_dropout_are_random() -> None:
    found = [case for case in standard_cases("node") if is_random(case)]
    assert sum("bernoulli" in case.name for case in found) == 6
    assert sorted(case.name for case in found if "bernoulli" not in case.name) == [
        "test_training_dropout",
        "test_training_dropout_default",
        "test_training_dropout_default_mask",
        "test_training_dropout_mask",
    ]
    assert all(is_random(freeze(case)) for case in found)


# Wrong on purpose: operator, what is wrong, and what is done instead of the reference's function


def _other(operator: str, **settings: Any) -> Callable[..., Any]:
    """The reference with some attributes replaced."""
    function = find("", operator)
    assert function is not None
    return lambda *inputs, **attributes: function(*inputs, **{**attributes, **settings})


def _changed(operator: str, change: Callable[..., Any]) -> Callable[..., Any]:
    """The reference with its result changed."""
    function = find("", operator)
    assert function is not None
    return lambda *inputs, **attributes: change(function(*inputs, **attributes))


def _not_rescaled(x: Any, *_: Any, **attributes: Any) -> Any:
    y, mask = find("", "Dropout")(x, *_, **attributes)  # type: ignore[misc]
    return np.where(mask, x, y), mask


def _ratio_kept(x: Any, ratio: Any, training: Any, **attributes: Any) -> Any:
    return find("", "Dropout")(x, 1 - ratio, training, **attributes)  # type: ignore[misc]


def _zeroed_elsewhere(x: Any, *_: Any, **attributes: Any) -> Any:
    y, mask = find("", "Dropout")(x, *_, **attributes)  # type: ignore[misc]
    return np.where(mask, y, x), mask


_WRONG: dict[tuple[str, str], Callable[..., Any]] = {
    ("RandomNormal", "wrong mean"): _changed("RandomNormal", lambda y: y + np.float32(0.15)),
    ("RandomNormal", "variance of 1 over the scale"): _other("RandomNormal", scale=1 / 3),
    ("RandomNormal", "scale taken for the variance"): _other("RandomNormal", scale=3**0.5),
    ("RandomNormal", "mirrored"): _changed("RandomNormal", np.negative),
    ("RandomNormal", "one half repeats the other"): _changed("RandomNormal", lambda y: np.repeat(y[::2], 2)),
    ("RandomNormal", "uniform with the same moments"): _changed(
        "RandomNormal", lambda y: (2 + np.random.default_rng().uniform(-1, 1, y.shape) * 27**0.5).astype(y.dtype)
    ),
    ("RandomNormal", "constant draws"): _changed("RandomNormal", lambda y: np.full_like(y, 2)),
    ("RandomNormal", "seed ignored"): _other("RandomNormal", seed=None),
    ("RandomNormal", "always one seed"): _other("RandomNormal", seed=7.0),
    ("RandomNormalLike", "attributes ignored"): _other("RandomNormalLike", mean=0.0, scale=1.0),
    ("RandomUniform", "high taken for the length"): _other("RandomUniform", high=3.0),
    ("RandomUniform", "normal"): _changed("RandomUniform", lambda y: np.random.default_rng().normal(1.5, 2.02, y.shape)),
    ("RandomUniform", "squared"): _changed("RandomUniform", lambda y: ((y + 2) / 7) ** 2 * 7 - 2),
    ("RandomUniformLike", "seed ignored"): _other("RandomUniformLike", seed=None),
    ("Bernoulli", "probability inverted"): lambda p, **a: _other("Bernoulli")(1 - p, **a),
    ("Bernoulli", "probability a half"): lambda p, **a: _other("Bernoulli")(np.clip(p, 0, 1) * 0 + np.float32(0.5), **a),
    ("Bernoulli", "expectation instead of a draw"): lambda p, **_: p,
    ("Bernoulli", "one draw for all"): lambda p, **_: (np.random.default_rng().random() < p).astype(p.dtype),
    ("Bernoulli", "seed ignored"): _other("Bernoulli", seed=None),
    ("Multinomial", "logarithms taken for weights"): lambda x, **a: _other("Multinomial")(np.log(np.abs(x)), **a),
    ("Multinomial", "the likeliest always"): lambda x, sample_size=1, **_: np.full(
        (len(x), sample_size), x.argmax(), np.int32
    ),
    ("Multinomial", "counted from one"): _changed("Multinomial", lambda y: y + 1),
    ("Dropout", "not rescaled"): _not_rescaled,
    ("Dropout", "ratio is what is kept"): _ratio_kept,
    ("Dropout", "kept where the mask says dropped"): _zeroed_elsewhere,
    ("Dropout", "seed ignored"): _other("Dropout", seed=None),
    ("Dropout", "nothing dropped"): lambda x, *_, **__: (x, np.ones(x.shape, bool)),
}


@pytest.mark.parametrize(("operator", "fault"), _WRONG, ids=lambda v: v)
def test_wrong_generators_are_caught(operator: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = _WRONG[operator, fault]
    if operator == "Dropout":
        original = wrong

        def wrong(*inputs: Any, n_outputs: int = 1, **attributes: Any) -> Any:
            return original(*inputs, n_outputs=n_outputs, **attributes)

    monkeypatch.setattr("deep_bench.reference.network.find", lambda *_: wrong)
    complaints = []
    for name, check in RANDOM_CHECKS.items():
        if name.split()[0] == operator:
            try:
                check(db.frameworks["reference"]())
            except AssertionError as complaint:
                complaints.append(str(complaint))
    assert complaints


def test_every_random_operator_has_wrong_generators() -> None:
    assert {operator for operator, _ in _WRONG} == set(DRAWN)
