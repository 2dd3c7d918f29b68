"""Records of every kind as one data set, and what strangers may put into a folder."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deep_bench.distributed.collectives.result import CommunicationResult as Communication
from deep_bench.errors import InvalidArgument, InvalidRecord, UnknownName
from deep_bench.measure.statistics import Interval
from deep_bench.measure.timing import Block
from deep_bench.network.result import Result as Network
from deep_bench.operators.studies.result import Study
from deep_bench.records.model import ErrorRecord, VerdictRecord
from deep_bench.results import Figure, Result, Results, gather, gathering
from deep_bench.results.report import write
from deep_bench.results.result import time_figure
from deep_bench.training import Runs
from deep_bench.training.figures import throughput


@pytest.fixture(scope="module")
def read(records: Path) -> Results:
    return gather(records)


def test_each_kind_is_read(read: Results) -> None:
    assert read.refused == ()
    counts = {kind: len(read.where(kind=kind)) for kind in read.labels()["kind"]}
    assert counts == {"communication": 3, "network": 1, "operators": 2, "scaling": 2, "training": 1}
    assert [r.created for r in read] == sorted(r.created for r in read)
    assert len(read.files()) == 5
    assert all(r.environment is not None and r.complete and r.ok for r in read)


def test_a_network_has_the_figures_that_show_has(read: Results) -> None:
    (found,) = read.where(kind="network")
    shown = Network.load(found.file)["reference"]
    figure = found.figures["forward"]
    assert figure.median == pytest.approx(shown.median)
    assert _ends(figure.interval) == pytest.approx(_ends(shown.interval))
    assert (figure.unit, figure.direction, found.outcome) == ("s", "lower", "right")
    assert found.figures["from NumPy"].median == pytest.approx(shown.numpy_median)
    assert {"network": "digits-cnn", "system": "reference", "size.batch": "1"}.items() <= found.labels.items()


def _ends(interval: Interval | None) -> list[float]:
    return [] if interval is None else [interval.low, interval.high]


def test_times_are_of_the_samples_that_a_median_is_taken_of() -> None:
    ns, preempted = np.array([10, 20, 30, 9000]), np.array([False, False, False, True])
    block = Block(0, 10, ns, preempted)
    figure = time_figure("forward", [[block], [], [block, block]])
    assert figure is not None
    assert figure.medians == pytest.approx((2e-9, 2e-9))
    assert figure.remark.startswith("samples not preempted: 3 of 4; a sample is the mean of up to 10 calls")
    assert time_figure("forward", [[], []]) is None


def test_operators_have_a_result_for_each_case(read: Results) -> None:
    found = read.where(kind="operators")
    study = Study.load(found[0].file)
    assert [r.labels["case"] for r in found] == ["4x8", "8x8"]
    for result in found:
        trial = study["reference", result.labels["case"]]
        assert result.figures["forward"].median == pytest.approx(trial.median())
        assert result.outcome == trial.verdict


def test_communication_has_times_and_bandwidths(read: Results) -> None:
    found = read.where(kind="communication")
    rows = Communication.load(found[0].file).rows
    assert [r.labels["case"] for r in found] == ["allreduce 8", "allreduce 16", "barrier"]
    for result, row in zip(found, rows, strict=True):
        assert result.main is not None
        assert result.main.median == pytest.approx(row.seconds)
        assert result.labels["ranks"] == "2"
    assert found[0].figures["bus bandwidth"].median == pytest.approx(rows[0].bus_bandwidth, rel=0.05)
    assert found[0].figures["bus bandwidth"].direction == "higher"
    assert set(found[2].figures) == {"time"}, "a barrier moves nothing"


def test_the_runs_of_a_system_are_launches_of_one_result(read: Results) -> None:
    (found,) = read.where(kind="training")
    runs = Runs.load(found.file)
    assert {"seed": "1,2", "launches": "2", "optimizer": "Adam", "optimizer.lr": "0.002"}.items() <= found.labels.items()
    assert {"recipe": "widths", "cell": "0a1b2c3d", "width": "16", "factor.seed": "1"}.items() <= found.labels.items()
    medians = [throughput(run.history()).median for run in runs.runs]  # type: ignore[union-attr]
    assert found.figures["throughput"].medians == pytest.approx(medians)
    assert found.figures["throughput"].count == 6
    assert found.figures["accuracy"].direction == "higher"
    to_target = found.figures["time to target"]
    assert [group[0] for (group,) in to_target.launches] == pytest.approx([t.seconds for t in runs.to_target])
    assert list(to_target.censored or (False, False)) == [not t.reached for t in runs.to_target]


def test_a_run_that_failed_or_lost_its_loss_belongs_to_its_system(records: Path, tmp_path: Path) -> None:
    content: Any = _content(records, "training")
    content["runs"].insert(0, {"label": "reference", "seed": 7, "error": {"kind": "WorkerDied", "message": "killed"}})
    content["runs"][1]["lost_from"] = 2
    content["runs"].append({"label": "torch", "seed": 1, "error": {"kind": "FrameworkMissing", "message": "no torch"}})
    _written(tmp_path, "a.json", content)
    reference, torch = gather(tmp_path)
    assert reference.labels["seed"] == "1,2,7"
    assert sorted(error.kind for error in reference.errors) == ["LossNotFinite", "WorkerDied"]
    assert reference.figures["throughput"].count == 6
    assert (torch.outcome, torch.labels["system"]) == ("failed", "torch")
    assert set(torch.figures) == {"time to target"}


def test_a_prediction_says_that_it_is_one(read: Results) -> None:
    two, four = read.where(kind="scaling")
    assert (two.labels["ranks"], four.labels["ranks"]) == ("2", "4")
    predicted = [figure for name, figure in two.figures.items() if name != "step"]
    assert all(f.name.startswith("predicted") and "predicted, not measured" in f.remark for f in predicted)
    assert two.figures["step"].median == 1.5
    assert "step" not in four.figures
    assert four.figures["predicted efficiency"].median == pytest.approx(1.5 / 4)


def test_results_are_chosen_by_any_label(read: Results) -> None:
    assert {r.kind for r in read.where(kind=["network", "scal*"])} == {"network", "scaling"}
    assert len(read.where(ranks=2, kind="communication")) == 3
    assert len(read.where(**{"option.threads": 1})) == 2
    assert {r.kind for r in read.where(case=None)} == {"network", "scaling", "training"}
    assert len(read.where(kind="n.twork")) == 0, "a dot is a dot"
    assert len(read.where(kind="network").where(kind="training")) == 0
    assert read.where(kind="nothing").where(anything=1).files() == ()
    with pytest.raises(UnknownName, match="did you mean 'system'"):
        read.where(sytem="torch")


def test_a_slice_is_a_data_set_too(read: Results) -> None:
    assert isinstance(read[1:3], Results)
    assert [r.file for r in read[1:3]] == [read[1].file, read[2].file]
    assert "digits-cnn" in repr(read)


def test_progress_is_told(records: Path) -> None:
    told: list[tuple[int, int]] = []
    gather(records / "scaling", records / "scaling", progress=lambda *at: told.append(at))
    assert told == [(1, 1)], "a file that is named twice is read once"


def test_a_run_that_missed_the_target_is_slower_than_those_that_reached_it() -> None:
    launches = tuple((np.array([t]),) for t in (3.0, 1.0, 2.0))
    figure = Figure("time to target", "s", "lower", launches, censored=(False, True, False))
    assert figure.median == 3.0
    assert Figure("time to target", "s", "lower", launches[:1], censored=(True,)).median == inf


def test_an_outcome_is_the_error_or_the_verdict() -> None:
    def made(**more: object) -> Result:
        return Result("network", Path("r"), datetime(2026, 1, 1, tzinfo=UTC), {}, {}, **more)  # type: ignore[arg-type]

    error = ErrorRecord(kind="Killed", message="")
    assert made().outcome == "unchecked"
    assert made(errors=(error,), verdict=VerdictRecord(verdict="right", reason="")).outcome == "failed"
    assert not made(verdict=VerdictRecord(verdict="reduced precision", reason="")).ok


@pytest.fixture
def folder(records: Path, tmp_path: Path) -> Path:
    """A folder with one good record, to put others beside."""
    shutil.copytree(records / "operators", tmp_path / "data" / "good")
    return tmp_path / "data"


def _content(records: Path, kind: str) -> dict[str, object]:
    content: dict[str, object] = json.loads(next((records / kind).glob("2*.json")).read_text())
    return content


def _written(folder: Path, name: str, content: object) -> None:
    (folder / name).write_text(json.dumps(content))


def test_files_that_are_no_records_are_skipped(folder: Path, records: Path) -> None:
    (folder / "notes.txt").write_text("{ not JSON")
    (folder / "empty.txt").touch()
    (folder / "binary").write_bytes(bytes(range(256)))
    _written(folder, "list.json", [1, 2])
    _written(folder, "other.json", {"schema_version": "draft-07"})
    _written(folder, "roofline.json", {"schema_version": 1, "machine": {}, "created": "2026-01-01T00:00:00Z", "rates": []})
    shutil.copy(records / "communication" / "machine.json", folder)
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "r.json").write_text("{")
    (folder / ".r.json.part").write_text("{")
    found = gather(folder)
    assert found.refused == ()
    assert len(found) == 2


def test_a_record_is_known_by_its_content(folder: Path, records: Path) -> None:
    shutil.copy(next((records / "scaling").glob("*.json")), folder / "prediction.txt")
    content = _content(records, "training")
    (folder / "sorted.json").write_text(json.dumps(content, sort_keys=True, indent=4))
    assert {r.kind for r in gather(folder)} == {"operators", "scaling", "training"}


def _nested(content: dict[str, object]) -> str:
    return '{"schema_version": 1, "created": ' + "[" * 100_000


def _other_version(content: dict[str, object]) -> str:
    return json.dumps(content | {"schema_version": 2})


def _dot(content: dict[str, object]) -> str:
    return json.dumps(content | {"arrays": {"name": ".", "sha256": "0" * 64}})


def _elsewhere(content: dict[str, object]) -> str:
    return json.dumps(content | {"arrays": {"name": "../secret.h5", "sha256": "0" * 64}})


def _altered(content: dict[str, object]) -> str:
    return json.dumps(content | {"arrays": {"name": "list.json", "sha256": "0" * 64}})


def _new_kind(content: dict[str, object]) -> str:
    return json.dumps({"schema_version": 1, "kind": "os:system"})


def _unknown_operation(content: dict[str, object]) -> str:
    suite = {"name": "communicate", "cases": [{"label": "a", "operator": "nothing"}]}
    system = {"label": "a", "framework": "a", "trials": [{"case": "a"}]}
    return json.dumps(content | {"arrays": None, "suite": suite, "systems": [system]})


@pytest.mark.parametrize(
    ("hostile", "said"),
    [
        (lambda content: json.dumps(content)[:-20], "truncated"),
        (lambda content: "", "no JSON"),
        (lambda content: "\0\1", "no JSON"),
        (_nested, "truncated"),
        (_other_version, "schema version 2"),
        (_dot, "Invalid name"),
        (_elsewhere, "pattern"),
        (_altered, "altered"),
        (_new_kind, "of kind 'os:system'"),
        (_unknown_operation, "suite.cases.0.attributes.bytes: None"),
    ],
)
def test_a_bad_file_hides_no_other(
    folder: Path, records: Path, hostile: Callable[[dict[str, object]], str], said: str
) -> None:
    (folder / "bad.json").write_text(hostile(_content(records, "operators")))
    _written(folder, "list.json", [])
    found = gather(folder)
    assert len(found) == 2
    (refused,) = found.refused
    assert refused.file.name == "bad.json"
    assert said in str(refused)
    assert "\n" not in str(refused)
    assert "bad.json" in repr(found)


@pytest.mark.parametrize("path", [[], ["a.json"], None, 5, b"a.json", "a\0b"])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidArgument, match="no path"):
        gather(path)
    with pytest.raises(InvalidArgument, match="no path"):
        Results().export(path)
    with pytest.raises(InvalidArgument, match="no path"):
        write([], path)


def test_a_moment_without_a_zone_is_in_utc(folder: Path, records: Path) -> None:
    _written(folder, "a.json", _content(records, "training") | {"created": "2026-01-01T00:00:00"})
    _written(folder, "b.json", _content(records, "training") | {"created": "0001-01-01T00:00:00+23:00"})
    found = gather(folder)
    assert "0001-01-01 is no date of a run" in found.refused[0].reason, "before all time"
    assert [r.kind for r in found] == ["training", "operators", "operators"]
    assert str(found[0].created) == "2026-01-01 00:00:00+00:00"


def test_a_file_of_any_size_is_not_read_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gathering, "LARGEST_BYTES", 100)
    _written(folder, "large.json", {"a": "b" * 100})
    (refused,) = gather(folder).refused
    assert "at most 100" in refused.reason


def test_a_record_that_is_replaced_meanwhile_is_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while its run goes on: the file of samples that it named is gone before it is read."""
    (file,) = (folder / "good").glob("2*.json")
    before, ours = file.stat().st_ino, gathering.kind_of

    def kind_of(path: Path) -> str | None:
        if path.stat().st_ino == before:
            shutil.copy(path, path.with_suffix(".part"))
            path.with_suffix(".part").replace(path)
            raise InvalidRecord(f"{path}: its samples' file is missing")
        return ours(path)

    monkeypatch.setattr(gathering, "kind_of", kind_of)
    found = gather(file)
    assert found.refused == ()
    assert len(found) == 2


def test_links_and_pipes_are_not_followed(folder: Path, tmp_path: Path, records: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(records / "scaling", outside)
    (folder / "away").symlink_to(outside)
    (folder / "away.json").symlink_to(next(outside.glob("*.json")))
    (folder / "circle").symlink_to(folder)
    (folder / "twice").symlink_to(folder / "good")
    (folder / "nowhere").symlink_to(tmp_path / "nothing")
    os.mkfifo(folder / "pipe.json")
    found = gather(folder)
    assert {r.kind for r in found} == {"operators"}
    assert len(found) == 2
    assert {r.file.name for r in found.refused} == {"away", "away.json"}
    assert all("out of the folder" in r.reason for r in found.refused)
    assert {r.kind for r in gather(folder / "away")} == {"scaling"}, "a link that is named is followed"


def test_what_is_named_must_be_there(tmp_path: Path, records: Path) -> None:
    with pytest.raises(InvalidArgument, match="does not exist"):
        gather(tmp_path / "nothing")
    with pytest.raises(InvalidArgument, match="no records"):
        gather()
    (refused,) = gather(records / "communication" / "machine.json").refused
    assert "holds no results" in refused.reason
    assert len(gather(tmp_path)) == 0
    assert str(gather(tmp_path)) == "0 results of 0 records"


def test_what_was_interrupted_says_so(records: Path, tmp_path: Path) -> None:
    _written(tmp_path, "a.json", _content(records, "training") | {"complete": False, "interrupted": True})
    (found,) = gather(tmp_path)
    assert not found.complete
    assert "incomplete: 1" in repr(Results([found]))
