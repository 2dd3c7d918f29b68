"""QSGD: levels drawn so that the mean is right, and the bits that they travel in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import NUMPY
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.schemes.compressed import Quantised, packed_codes, unpacked_codes, width_of
from deep_bench.errors import InvalidArgument
from deep_bench.reference.distributed.compressed import Quantised as Reference
from deep_bench.testing.schemes import check_scheme
from tests.distributed.schemes.small_problem import best_loss, check_frameworks, check_resumes, stepped, whole_loss

MOMENTUM = db.optimizers["momentum"](lr=0.1, momentum=0.5)


@pytest.mark.parametrize("settings", [{"levels": 7, "group": 10}, {"levels": 1, "group": 64, "norm": "max", "seed": 3}])
def test_it_is_the_reference(settings: Any) -> None:
    found = check_scheme(lambda comm: Quantised(MOMENTUM, comm, **settings), Reference(MOMENTUM, **settings))
    assert found.ok, str(found)


def _sums(x: np.ndarray, seeds: int, **settings: Any) -> np.ndarray:
    """What two ranks with the same gradient make of it, with so many seeds."""

    def on_rank(comm: Any) -> list[np.ndarray]:
        found = []
        for seed in range(seeds):
            rule, w = Quantised(db.optimizers["sgd"](lr=1.0), comm, seed=seed, **settings), {"w": np.zeros_like(x)}
            found.append(-rule.update({"w": x}, rule.init(w, NUMPY), w, NUMPY)[0]["w"])
        return found

    return np.array(run_local(2, on_rank)[1])


@pytest.mark.parametrize("norm", ["euclidean", "max"])
def test_the_mean_is_right_and_the_error_as_the_paper_says(norm: str) -> None:
    x = np.random.default_rng(0).standard_normal(12)
    found = _sums(x, 400, levels=2, group=12, norm=norm)
    bound = min(12 / 4, np.sqrt(12) / 2) * np.sum(x * x) / 2  # lemma 3.1, for the mean of two
    assert np.mean(np.sum((found - x) ** 2, axis=1)) < bound
    np.testing.assert_allclose(found.mean(axis=0), x, atol=4 * np.sqrt(bound / 400))
    assert len(np.unique(found[:, 0])) > 2


def test_what_is_not_finite_is_told_to_all_and_zeros_stay() -> None:
    for bad in (np.nan, np.inf):
        found = _sums(np.array([0.0, 0, 1, bad, 5]), 1, levels=7, group=2, norm="max")[0]
        np.testing.assert_array_equal(found, [0, 0, np.nan, np.nan, 5])


@pytest.mark.parametrize(("levels", "width"), [(1, 2), (7, 4), (8, 8), (127, 8), (128, 16), (32767, 16)])
def test_codes_take_as_few_bits_as_they_can(levels: int, width: int) -> None:
    assert width_of(2 * levels) == width
    codes = np.random.default_rng(1).integers(0, 2 * levels + 1, 13).astype(np.uint16)
    message = packed_codes(codes, width)
    assert message.nbytes == -(-13 * width // 8)
    np.testing.assert_array_equal(unpacked_codes(message, width, 13), codes)


def test_frameworks_and_checkpoints(tmp_path: Path) -> None:
    check_frameworks(lambda rule, comm: Quantised(rule, comm, levels=3, group=8, seed=1))
    check_resumes(lambda comm: Quantised(MOMENTUM, comm, levels=3, group=8), tmp_path)


def test_it_converges() -> None:
    sgd = db.optimizers["sgd"](lr=0.05)
    for parameters in run_local(3, lambda comm: stepped(Quantised(sgd, comm, levels=7), 300)[0][-1]):
        assert whole_loss(parameters) < best_loss() * 1.05


@pytest.mark.parametrize("settings", [{"levels": 0}, {"levels": 2**15}, {"group": 0}, {"norm": "l2"}, {"seed": -1}])
def test_bad_settings_are_refused(settings: Any) -> None:
    with pytest.raises(InvalidArgument, match="quantised with"):
        Quantised(MOMENTUM, LocalCommunicator(), **settings)
