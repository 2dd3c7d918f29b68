"""Faults planted in a good log: what MLPerf's checker and deep_bench's own find."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.mlperf.training.check import ToolAnswer, check_log, check_system, examined, faults, scored, summarize
from deep_bench.mlperf.training.logs import TOKEN, official_benchmarks, read_log, result_files, rulesets
from deep_bench.mlperf.training.reference import ReferenceFile, compare, read_reference
from deep_bench.mlperf.training.runs import Timed
from deep_bench.training.figures import MlperfScore

Lines = list[str]


def place(lines: Lines, key: str) -> int:
    return next(i for i, line in enumerate(lines) if f'"key": "{key}"' in line)


def without(key: str) -> Callable[[Lines], Lines]:
    return lambda lines: [line for line in lines if f'"key": "{key}"' not in line]


def moved(key: str, before: str) -> Callable[[Lines], Lines]:
    """The first line of a key before that of another."""

    def change(lines: Lines) -> Lines:
        rest = list(lines)
        line = rest.pop(place(rest, key))
        rest.insert(place(rest, before), line)
        return rest

    return change


def edited(key: str, old: str, new: str) -> Callable[[Lines], Lines]:
    def change(lines: Lines) -> Lines:
        at = place(lines, key)
        assert old in lines[at]
        return [*lines[:at], lines[at].replace(old, new), *lines[at + 1 :]]

    return change


def doubled(key: str, old: str, new: str) -> Callable[[Lines], Lines]:
    def change(lines: Lines) -> Lines:
        at = place(lines, key)
        return [*lines[: at + 1], lines[at].replace(old, new), *lines[at + 1 :]]

    return change


def all_below(lines: Lines) -> Lines:
    """No evaluation reaches the target."""
    found = []
    for line in lines:
        event = json.loads(line.removeprefix(TOKEN))
        if event["key"] == "eval_accuracy":
            event["value"] = 0.5
        found.append(TOKEN + json.dumps(event))
    return found


PLANTED = {
    "no run_stop": (without("run_stop"), "no run_stop", True),
    "no run_start": (without("run_start"), "no run_start", True),
    "an evaluation before run_start": (moved("eval_accuracy", "init_stop"), "eval_accuracy before run_start", False),
    "init_stop after run_start": (moved("run_start", "init_stop"), "run_start before init_stop", True),
    "a doubled key": (doubled("global_batch_size", '"value": 64', '"value": 32'), "global_batch_size comes 2 times", True),
    "no train_samples": (without("train_samples"), "no train_samples", True),
    "no status": (edited("run_stop", '"status": "success"', '"state": "success"'), "run_stop with status", True),
    "a target that is not reached": (all_below, "does not reach the target", True),
    "training after the end": (moved("run_stop", "block_stop"), "block_stop after run_stop", False),
    "a block within a block": (without("block_stop"), "block_start within block_start", False),
    "half a line": (lambda lines: [*lines[:-1], lines[-1][:80]], "cut off", None),
}
"""Name of a fault to how it is planted, what deep_bench says, and whether MLPerf's checker finds it; ``None``: not asked."""


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_found(name: str, log_lines: Lines, tmp_path: Path) -> None:
    plant, said, official = PLANTED[name]
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join(plant(log_lines)) + "\n", encoding="utf-8")
    assert any(said in fault for fault in faults(read_log(path)))
    if official is None:
        with pytest.raises(InvalidRecord, match="is no event"):
            check_log(path)
    else:
        assert check_log(path).passed is not official


def test_time_that_runs_backwards_is_found(log_lines: Lines, tmp_path: Path) -> None:
    first, second = (json.loads(line.removeprefix(TOKEN)) for line in log_lines[-2:])
    second["time_ms"] = first["time_ms"] - 1000
    path = tmp_path / "log"
    path.write_text("\n".join([*log_lines[:-1], TOKEN + json.dumps(second)]), encoding="utf-8")
    assert any("time runs backwards" in fault for fault in faults(read_log(path)))


def test_logs_and_description_pass_mlperfs_checkers(made: Timed, tmp_path: Path) -> None:
    root = shutil.copytree(made.layout.root, tmp_path / "lab")
    for number in (2, 3, 4):
        (root / made.layout.log(number).relative_to(made.layout.root)).unlink()
    found = list(examined(root))
    assert [one.path.name for one in found] == ["result_0.txt", "result_1.txt", "box-1.json"]
    assert all(one.fine for one in found), [one.output for one in found if not one.fine]
    assert ["is no benchmark of MLPerf's round" in one.remark for one in found] == [True, False, False]


def test_as_it_is_mlperfs_checker_refuses_nothing_but_the_name(made: Timed) -> None:
    said = check_log(made.layout.log(0), register=False)
    assert not said.passed
    assert said.output.count("failed test") == 1
    assert "CHECK for 'submission_benchmark' failed" in said.output
    assert "digits-mlp" not in official_benchmarks()


def test_older_rounds_pass_too_and_unknown_ones_are_refused(made: Timed) -> None:
    assert rulesets()[0] == "4.0.0"
    assert check_log(made.layout.log(0), ruleset="4.0.0").passed
    with pytest.raises(InvalidArgument, match=r"the ruleset '3\.0\.0'"):
        check_log(made.layout.log(0), ruleset="3.0.0")


def test_the_score_is_that_of_mlperfs_summarizer(made: Timed) -> None:
    (ours,) = scored(made.layout.root)
    row, _ = summarize(made.layout.results, made.layout.description)
    assert ours.score.seconds == pytest.approx(float(row["digits-mlp"]) * 60)
    assert (row["submitter"], row["division"], row["accelerators_count"]) == ("A lab", "open", "0")
    assert ours.quality is not None
    assert 0.9 <= ours.quality <= 1


def test_a_run_whose_log_is_wrong_does_not_count(made: Timed, tmp_path: Path) -> None:
    for number, path in enumerate(result_files(made.layout.results)):
        lines = path.read_text(encoding="utf-8").splitlines()
        kept = without("run_stop")(lines) if number == 0 else doubled("seed", '"value": 1', '"value": 2')(lines)
        (tmp_path / path.name).write_text("\n".join(kept if number < 2 else lines), encoding="utf-8")
    (found,) = scored(tmp_path)
    assert [time is None for time in found.times] == [True, True, False, False, False]
    assert found.score.seconds is None
    assert "    not as it should be: seed comes 2 times" in found.lines()


def test_a_hostile_name_is_never_handed_on(log_lines: Lines, tmp_path: Path) -> None:
    """MLPerf's checker makes a path of it, and runs the code of what lies there."""
    trap = tmp_path / "sprung"
    (tmp_path / "evil.yaml").write_text(f"- BEGIN:\n    CODE: \"open({str(trap)!r}, 'w')\"\n")
    path = tmp_path / "result_0.txt"
    for name in (f"../../../../../../../..{tmp_path}/evil", "a\\nb", "", 7):
        lines = edited("submission_benchmark", '"digits-mlp"', json.dumps(name))(log_lines)
        path.write_text("\n".join(lines), encoding="utf-8")
        with pytest.raises(InvalidArgument, match="the benchmark"):
            check_log(path)
    assert not trap.exists()


def test_files_that_are_no_logs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "result_0.txt"
    for content in (b"", b"hello\n", b"\x00\xff" * 50, (TOKEN + "[" * 100_000).encode(), (TOKEN + "1" * 10_000).encode()):
        path.write_bytes(content)
        with pytest.raises(InvalidRecord, match=r"result_0\.txt has no line of :::MLLOG that is an event"):
            read_log(path)
    with pytest.raises(InvalidRecord, match="no file"):
        read_log(tmp_path)
    with pytest.raises(InvalidRecord, match="no result_0"):
        result_files(tmp_path / "nowhere")
    with open(path, "wb") as file:
        file.truncate(65 * 2**20)
    with pytest.raises(InvalidRecord, match="at most"):
        read_log(path)


def test_logs_of_several_benchmarks_do_not_lie_together(made: Timed, tmp_path: Path) -> None:
    for number in (0, 1):
        lines = made.layout.log(number).read_text(encoding="utf-8").splitlines()
        changed = edited("submission_benchmark", "digits-mlp", f"digits-{number}")(lines)
        (tmp_path / f"result_{number}.txt").write_text("\n".join(changed), encoding="utf-8")
    (found,) = scored(tmp_path)
    assert found.score.seconds is None
    assert "    not as it should be: submission_benchmark is 'digits-1', and 'digits-0' in other runs" in found.lines()
    with pytest.raises(InvalidRecord, match="2 benchmarks"):
        summarize(tmp_path, made.layout.description)


def copied(made: Timed, folder: Path) -> list[Path]:
    """The five logs, in a folder where they can be changed."""
    return [Path(shutil.copy(path, folder)) for path in result_files(made.layout.results)]


def change(path: Path, edit: Callable[[Lines], Lines]) -> None:
    path.write_text("\n".join(edit(path.read_text(encoding="utf-8").splitlines())) + "\n", encoding="utf-8")


def refused_by_all(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    """What is said of runs that do not go together, by `examined` and `scored`; `compare` says it too."""
    monkeypatch.setattr("deep_bench.mlperf.training.check.check_log", lambda *_, **__: ToolAnswer(True, ""))
    reference = tmp_path / "reference.json"
    if not reference.exists():
        point = read_reference("digits").root["digits_ref_64"].model_copy(update={"benchmark": "digits-mlp", "target": 0.9})
        reference.write_text(ReferenceFile({"a": point.model_copy(update={"every": 256})}).model_dump_json(by_alias=True))
    (found,) = scored(folder)
    checked = [fault for one in examined(folder) for fault in one.faults]
    wrong = [*(fault for one in (*found.faults, *found.unlike) for fault in one)]
    assert checked == wrong
    if not wrong:
        assert found.score.seconds is not None
        assert compare(folder, reference).mean > 0
        return ""
    if any(found.unlike):
        assert found.score == MlperfScore(None, "not valid: these are not different runs of one and the same")
        with pytest.raises(InvalidRecord, match=re.escape(wrong[0])):
            compare(folder, reference)
    assert found.quality is None
    return wrong[0]


def test_runs_that_are_not_different_runs_of_the_same_have_no_score(
    made: Timed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    logs = copied(made, folder)
    good = logs[3].read_text(encoding="utf-8")
    assert refused_by_all(folder, monkeypatch, tmp_path) == ""
    for plant, why in (
        (edited("seed", '"value": 3', '"value": 1'), "seed 1 as in result_1.txt: each run has a seed of its own"),
        (edited("global_batch_size", '"value": 64', '"value": 32'), "global_batch_size is 32, and 64 in other runs"),
        (edited("eval_target", '"value": 0.9', '"value": 0.8'), f"eval_target is {0.8:.17g}, and {0.9:.17g} in other runs"),
        (edited("opt_name", '"adam"', '"sgd"'), "opt_name is 'sgd', and 'adam' in other runs"),
        (without("opt_adam_beta_1"), "the list of optimizer settings"),
        (edited("submission_platform", "Box 1", "Box 2"), "submission_platform is 'Box 2', and 'Box 1' in other runs"),
        (edited("eval_accuracy", '"samples_count": 256', '"samples_count": 128'), "samples_count of the first evaluation"),
    ):
        change(logs[3], plant)
        assert refused_by_all(folder, monkeypatch, tmp_path).startswith(why)
        logs[3].write_text(good, encoding="utf-8")
    for path in logs[1:]:
        shutil.copy(logs[0], path)
    assert "it is a copy of result_0.txt" in refused_by_all(folder, monkeypatch, tmp_path)
    change(logs[1], edited("seed", '"value": 0', '"value": 7'))
    assert "it is a copy of result_0.txt" in refused_by_all(folder, monkeypatch, tmp_path)


@pytest.mark.parametrize(
    ("plant", "why"),
    [
        (edited("eval_accuracy", '"value": 0', '"value": 97'), "as accuracy, which is a share from 0 to 1"),
        (edited("eval_target", '"value": 0.9', '"value": 90'), "eval_target 90 as accuracy, which is a share"),
        (edited("global_batch_size", '"value": 64', '"value": 6.5'), "global_batch_size of '6.5'"),
        (edited("train_samples", '"value": 1442', '"value": -1442'), "train_samples of '-1442'"),
        (edited("seed", '"value": 0', '"value": "?"'), "seed '?', which is no whole number"),
        (edited("opt_base_learning_rate", "0.002", '"fast"'), "opt_base_learning_rate of 'fast'"),
        (edited("eval_accuracy", '"samples_count": 256', '"samples_count": 25600'), "samples_count of evaluations"),
    ],
)
def test_a_value_that_cannot_be_is_found(
    plant: Callable[[Lines], Lines], why: str, log_lines: Lines, tmp_path: Path
) -> None:
    path = tmp_path / "result_0.txt"
    path.write_text("\n".join(plant(log_lines)) + "\n", encoding="utf-8")
    assert any(why in fault for fault in faults(read_log(path))), faults(read_log(path))


@pytest.mark.parametrize("content", [b"", b"\x00\xff" * 50])
def test_a_file_that_holds_no_event_is_a_run_that_failed(
    content: bytes, made: Timed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    logs = copied(made, folder)
    logs[0].write_bytes(content)
    assert "no line of :::MLLOG" in refused_by_all(folder, monkeypatch, tmp_path)
    (found,) = scored(folder)
    assert found.times[0] is None
    assert found.score.reason == "mean of 3 of 5 runs; the one that missed the target is the slowest"
    assert any("make that run anew" in line for line in found.lines())
    if not content:
        row, _ = summarize(folder, made.layout.description)
        assert found.score.seconds == pytest.approx(float(row["digits-mlp"]) * 60)
    logs[1].write_bytes(content)
    assert scored(folder)[0].score.seconds is None


def test_an_unfit_description_fails(made: Timed, tmp_path: Path) -> None:
    content = json.loads(made.layout.description.read_text())
    del content["cooling"]
    path = tmp_path / "box.json"
    path.write_text(json.dumps(content))
    assert not check_system(path).passed
