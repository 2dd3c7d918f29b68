"""The command line, and the tags of v0.5."""

from __future__ import annotations

import ast
import json
import logging
import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from deep_bench.cli import _cli
from deep_bench.errors import InvalidArgument
from deep_bench.mlperf import training
from deep_bench.mlperf.training.check import ToolAnswer
from deep_bench.mlperf.training.logs import read_log, write_tags
from deep_bench.mlperf.training.reference import ReferenceFile, read_reference
from deep_bench.mlperf.training.runs import Timed
from deep_bench.training.record import RunRecord
from deep_bench.training.runs import RunPlan
from deep_bench.training.runs import train as train_once


def deep_bench(*words: object) -> Result:
    return CliRunner().invoke(_cli, ["mlperf", *map(str, words)])


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("verbs")
    facts = folder / "facts.yaml"
    facts.write_text("submitter: A lab\nsystem_name: Box 1\nstatus: rdi\n", encoding="utf-8")
    small = ("network=mlp", "network.hidden=[64]", "target.accuracy=0.4", "evaluation.every=256")
    done = deep_bench(
        "train", "digits", *small, "--on", "reference", "--runs", 3, "--facts", facts, "--keep-caches", "-o", folder / "lab"
    )
    assert done.exit_code == 0, done.output
    assert "score: " in done.output
    assert "unknown of the system: " in done.stderr
    return folder / "lab"


def test_a_submission_is_laid_out_as_the_rules_say(lab: Path) -> None:
    found = {path.relative_to(lab).as_posix() for path in lab.rglob("*") if path.is_file() and "records" not in path.parts}
    assert found == {
        "systems/box-1.json",
        *(f"results/box-1/digits/result_{i}.txt" for i in range(3)),
        "benchmarks/digits/implementations/deep_bench/recipe.yaml",
        "benchmarks/digits/implementations/deep_bench/README.md",
        *(f"benchmarks/digits/box-1/{name}" for name in ("README.md", "box-1_deep_bench.json")),
        *(f"benchmarks/digits/box-1/{name}.sh" for name in ("setup", "init_datasets", "run_and_time")),
    }
    description = json.loads((lab / "systems/box-1.json").read_text())
    assert (description["division"], description["number_of_nodes"]) == ("open", "1")
    assert description["framework"].startswith("reference numpy")
    assert description["cooling"] == "unknown"


def test_check_score_and_tags(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = lab / "results/box-1/digits/result_0.txt"
    assert "MLPerf's checker passes; deep_bench: nothing wrong" in deep_bench("check", log).output
    row = {"digits": "0.0125"}  # `test_checks` compares MLPerf's own with ours
    monkeypatch.setattr("deep_bench.mlperf.training.check.summarize", lambda *_: (row, None))
    scored = deep_bench("score", lab, "--official")
    assert scored.exit_code == 0, scored.output
    assert "score: " in scored.output
    assert "MLPerf's result summarizer: 0.01250 min" in scored.output
    assert deep_bench("tags", log, "-o", tmp_path / "tags.txt").exit_code == 0
    assert (tmp_path / "tags.txt").read_text().splitlines()[-1].endswith("run_final")


def test_a_run_that_misses_its_target_exits_with_1(tmp_path: Path) -> None:
    small = ("network=mlp", "network.hidden=[8]", "epochs=1")
    done = deep_bench("train", "digits", *small, "--on", "reference", "--runs", 1, "--keep-caches", "-o", tmp_path)
    assert done.exit_code == 1
    assert "aborted after" in done.output
    assert deep_bench("score", tmp_path).exit_code == 1
    refused = deep_bench("train", "digits", "--runs", 11, "-o", tmp_path)
    assert refused.exit_code == 2
    assert "the recipe has 10 seeds" in refused.output


def test_the_three_verbs_take_the_same_folders(lab: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reference = tmp_path / "reference.json"
    point = read_reference("digits").root["digits_ref_64"].model_copy(update={"target": 0.4, "every": 256})
    reference.write_text(ReferenceFile({"digits_ref_64": point}).model_dump_json(by_alias=True), encoding="utf-8")
    logs = lab / "results/box-1/digits"
    monkeypatch.setattr("deep_bench.mlperf.training.check.check_log", lambda *_, **__: ToolAnswer(True, ""))
    monkeypatch.setattr("deep_bench.mlperf.training.check.check_system", lambda *_: ToolAnswer(True, ""))
    for verb in (("check",), ("score",), ("rcp", "--reference", reference)):
        of_lab, of_logs = (deep_bench(*verb, folder) for folder in (lab, logs))
        assert of_lab.exit_code == of_logs.exit_code != 2, of_lab.output
        assert of_lab.output.splitlines()[:2] == of_logs.output.splitlines()[:2]
    other = shutil.copytree(logs, tmp_path / "two/results/box-2/digits")
    shutil.copytree(logs, tmp_path / "two/results/box-1/digits")
    assert f"{other}:" in deep_bench("rcp", tmp_path / "two", "--reference", reference).output.splitlines()
    monkeypatch.chdir(logs)
    monkeypatch.setattr("deep_bench.mlperf.training.check.summarize", lambda *_: ({"digits": "0.0125"}, None))
    assert "0.01250 min" in deep_bench("score", ".", "--official").output


def test_a_log_cannot_move_the_cursor(lab: Path, tmp_path: Path) -> None:
    text = (lab / "results/box-1/digits/result_0.txt").read_text(encoding="utf-8")
    assert '"status": "success", "reason": "' in text
    hostile = text.replace('"status": "success", "reason": "', '"status": "aborted", "reason": "\\u001b[2J')
    (tmp_path / "result_0.txt").write_text(hostile, encoding="utf-8")
    said = deep_bench("score", tmp_path).output
    assert "\x1b" not in said
    assert "\\x1b[2J" in said


def test_an_interrupted_command_says_what_is_kept_and_how_to_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(make: Any, seed: int, plan: RunPlan) -> RunRecord:
        if seed == 1:
            raise KeyboardInterrupt
        return train_once(make, seed, plan)

    monkeypatch.setattr("deep_bench.training.runs.train", interrupted)
    small = ("network=mlp", "network.hidden=[8]", "epochs=1", "--on", "reference", "--runs", 3, "--keep-caches")
    done = deep_bench("train", "digits", *small, "-o", tmp_path)
    assert done.exit_code == 130
    assert f"interrupted; kept in {tmp_path}/results/unknown/digits: result_0.txt" in done.stderr
    assert f"the record: deep-bench show {tmp_path}/records/" in done.stderr
    assert "to go on: the same command with --seed 1 --seed 2 instead of --runs, and another folder" in done.stderr
    assert "then move result_0.txt beside its logs" in done.stderr


def test_system_tells_what_is_unknown(tmp_path: Path) -> None:
    done = deep_bench("system", "--kind", "inference", "-o", tmp_path / "box.json")
    assert done.exit_code == 1
    assert "submitter: no program can know it; state it in the facts" in done.stderr
    assert json.loads((tmp_path / "box.json").read_text())["submitter"] == "unknown"


@pytest.mark.long
def test_tags_of_v05_have_the_times_of_the_events(made: Timed, tmp_path: Path) -> None:
    log = read_log(made.layout.log(0))
    from mlperf_compliance import mlperf_log, tags

    before = list(mlperf_log.LOGGER.handlers)
    lines = write_tags(log, tmp_path / "tags.txt").read_text().splitlines()
    assert mlperf_log.LOGGER.handlers == before
    assert all(isinstance(handler, logging.Handler) for handler in before)
    heads = {line.split()[0] for line in lines}
    assert heads == {":::MLPv0.5.0"}
    names = [line.split(") ")[1].partition(":")[0] for line in lines]
    assert set(names) <= tags.ALL_USED_TAGS
    assert (names[0], names[-2], names[-1]) == ("run_start", "run_stop", "run_final")
    begun, ended = (float(line.split()[2]) for line in (lines[0], lines[-1]))
    assert ended - begun == pytest.approx(log.seconds, abs=1e-6)
    assert lines[-2].endswith('{"success": true}')


def test_a_name_with_a_line_in_it_is_refused(log_lines: list[str], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text("\n".join(log_lines).replace('"digits-mlp"', '"a\\n:::MLPv0.5.0 b"'), encoding="utf-8")
    with pytest.raises(InvalidArgument, match="the benchmark"):
        write_tags(read_log(path), tmp_path / "tags.txt")


def test_mlperfs_packages_are_imported_in_one_file() -> None:
    folder = Path(training.__file__).parent
    found = {
        (node.module or "").partition(".")[0]: file.name
        for file in sorted(folder.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("mlperf_")
    }
    assert found == {"mlperf_compliance": "logs.py", "mlperf_logging": "logs.py"}
