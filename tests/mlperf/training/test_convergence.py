"""Reference convergence points, beside MLPerf's own checker of them."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from math import inf
from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.mlperf.training.check import ONCE
from deep_bench.mlperf.training.logs import RunLog, read_log, result_files
from deep_bench.mlperf.training.reference import (
    REFERENCES,
    ConvergencePoint,
    Reference,
    compare,
    point_of,
    read_reference,
    record,
    reference_of,
)
from deep_bench.mlperf.training.runs import Timed
from deep_bench.training.recipes import Recipe

RUNS = 5
TRUTH = {32: 10.0, 64: 9.0, 128: 12.0, 256: 15.5, 512: 16.0}


@pytest.fixture
def official(monkeypatch: pytest.MonkeyPatch):
    """MLPerf's checker, told how many runs a submission of digits has."""
    module = pytest.importorskip("mlperf_logging.rcp_checker.rcp_checker")
    monkeypatch.setitem(module.submission_runs["training"], "digits", RUNS)
    return module


def points(seed: int) -> dict[int, list[float]]:
    generator = np.random.default_rng(seed)
    return {batch: [round(float(e), 4) for e in generator.normal(mean, 0.5, 10)] for batch, mean in TRUTH.items()}


def logs(folder: Path, epochs: Sequence[float], batch: int = 64, target: float = 0.97, every: int = 128) -> Path:
    """Logs of runs that reached their target after so many epochs; infinity for one that did not."""
    for number, until in enumerate(epochs):
        with RunLog(folder / f"result_{number}.txt") as log:
            known = {"submission_benchmark": "digits", "global_batch_size": batch, "eval_target": target, "seed": number}
            log.event("cache_clear", False)
            log.start("init_start")
            log.end("init_stop")
            log.start("run_start")
            for key in ONCE:
                if key not in ("init_stop", "run_start"):
                    log.event(key, known.get(key, 1))
            log.start("block_start", epoch_num=1)
            log.event("eval_accuracy", 0.5, epoch_num=0.1, samples_count=every)
            if until != inf:
                log.event("eval_accuracy", target, epoch_num=until, samples_count=round(until * 1442))
            log.end("block_stop", epoch_num=1)
            log.stop(until != inf, "test")
    return folder


@pytest.mark.parametrize("seed", range(6))
def test_points_limits_and_pruning_are_those_of_mlperfs_checker(seed: int, official) -> None:
    found = points(seed)
    file = {
        f"ref_{batch}": {"Benchmark": "digits", "BS": batch, "Hyperparams": {}, "Epochs to converge": list(epochs)}
        for batch, epochs in found.items()
    }
    theirs = official.RCP_Checker("training", "6.1.0", "digits", False, io.StringIO(json.dumps(file)))
    ours = Reference("digits", tuple(ConvergencePoint.of(f"ref_{b}", b, e) for b, e in found.items()), RUNS)
    assert [p.batch for p in ours.pruned] == [p["BS"] for p in theirs.pruned_rcp_data.values()]
    for point in ours.points:
        other = theirs.rcp_data[point.name]
        assert point.mean == pytest.approx(other["RCP Mean"])
        assert point.least(RUNS) == pytest.approx(other["Min Epochs"], abs=1e-4)
    low, high = ours.pruned[0], ours.pruned[-1]
    _, between = theirs._create_interp_rcp(96, *(theirs.rcp_data[p.name] for p in (low, high)))
    assert ours.between(low, high, 96).least(RUNS) == pytest.approx(between["Min Epochs"], abs=1e-4)


@pytest.mark.parametrize(
    ("batch", "epochs"),
    [
        (64, [1.7, 1.8, 1.7, 1.9, 1.7]),
        (64, [1.0, 1.0, 1.1, 1.0, 1.1]),
        (64, [1.7, 1.8, 1.7, 1.9, inf]),
        (64, [1.7, 1.8, 1.7, inf, inf]),
        (96, [2.2, 2.3, 2.2, 2.3, 2.2]),
        (96, [1.2, 1.3, 1.2, 1.3, 1.2]),
        (256, [9.0, 9.0, 9.0, 9.0, 9.0]),
        (16, [2.0, 2.0, 2.0, 2.0, 2.0]),
        (16, [0.3, 0.3, 0.3, 0.3, 0.3]),
    ],
)
def test_verdicts_are_those_of_mlperfs_checker(batch: int, epochs: list[float], official, tmp_path: Path) -> None:
    folder = logs(tmp_path, epochs, batch)
    file = io.StringIO(json.dumps(read_reference("digits").model_dump(mode="json", by_alias=True)))
    passed, message, factor = official.check_directory(str(folder), "training", "6.1.0", False, False, file, "pruned_rcps")
    ours = compare(folder, "digits")
    assert ours.passed == passed, message
    if passed:
        assert ours.factor == pytest.approx(factor)
    assert next(ours.lines()).startswith(f"reference convergence points: {'passed' if passed else 'FAILED'}")


def test_the_examples_of_the_rules_are_stricter_than_the_checker() -> None:
    """The appendix of the rules leaves the fastest and slowest run out of the deviation; the checker does not."""
    first = ConvergencePoint.of("128", 128, [16, 14, 16, 17, 16, 16, 15, 16, 15, 16])
    second = ConvergencePoint.of("256", 256, [20, 21, 21, 20, 22, 22, 21, 21, 20, 20])
    assert (first.mean, second.mean) == (15.75, 20.75)
    assert (round(first.least_by_text(5), 2), round(second.least_by_text(5), 2)) == (15.21, 19.93)
    assert first.least(5) < first.least_by_text(5)


def test_a_reference_is_compared_with_its_like(tmp_path: Path) -> None:
    for number, (options, why) in enumerate([({"target": 0.9}, "target"), ({"every": 256}, "samples between evaluations")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        with pytest.raises(InvalidArgument, match=why):
            compare(logs(folder, [1.7] * RUNS, **options), "digits")


def test_runs_of_the_shipped_recipe_make_a_reference_that_they_pass(made: Timed, tmp_path: Path) -> None:
    found = [read_log(path) for path in result_files(made.layout.results)]
    name, point = point_of(found)
    assert (name, point.batch, point.target, point.every) == ("digits-mlp_ref_64", 64, 0.9, 256)
    path = tmp_path / "rcps.json"
    path.write_text(json.dumps({name: point.model_dump(by_alias=True)}))
    compared = compare(made.layout.results, path)
    assert compared.passed
    assert compared.factor == 1


def test_a_reference_is_recorded_by_running(recipe: Recipe, tmp_path: Path) -> None:
    said: list[str] = []
    soon = recipe.changed("target.accuracy=0.3")
    path = record(soon, "reference", batches=[64, 128], runs=3, output=tmp_path / "r.json", progress=False, told=said.append)
    found = read_reference(path)
    assert [point.batch for point in found.root.values()] == [64, 128]
    assert len(said) == 2
    assert reference_of(found, RUNS).benchmark == "digits-mlp"
    never = recipe.changed("target.accuracy=1.0", "epochs=1", "evaluation.every=0")
    with pytest.raises(InvalidRecord, match="did not reach its target"):
        record(never, "reference", batches=[64], runs=3, output=path, progress=False)
    with pytest.raises(InvalidArgument, match="at least three"):
        record(recipe, "reference", batches=[64], runs=2, output=path)


def test_what_ships_is_what_the_command_made() -> None:
    assert REFERENCES == ("digits",)
    for name in REFERENCES:
        for point in read_reference(name).root.values():
            assert point.command.startswith("deep-bench mlperf reference ")
            assert len(point.epochs) >= 2 * RUNS


def test_files_that_are_no_references_are_refused(tmp_path: Path) -> None:
    good = next(iter(read_reference("digits").root.values())).model_dump(by_alias=True)
    bad = tmp_path / "bad.json"
    for content in (
        "{}",
        "[1]",
        "no",
        json.dumps({"a": {**good, "BS": 0}}),
        json.dumps({"a": {**good, "Epochs to converge": [1]}}),
    ):
        bad.write_text(content)
        with pytest.raises(InvalidRecord):
            read_reference(bad)
    bad.write_text(json.dumps({"a": {**good, "Epochs to converge": [1, 2, -3]}}))
    with pytest.raises(InvalidArgument, match="above 0"):
        reference_of(read_reference(bad), RUNS)
