"""Cells that run, fail, hang and are interrupted: what is kept, and how it goes on."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from click.testing import CliRunner

from deep_bench.cli import main
from deep_bench.cli.recipe import command
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.recipes import (
    Experiment,
    NotWritten,
    cell_run,
    experiment_status,
    load_experiment,
    resume_experiment,
    run_experiment,
)
from deep_bench.recipes.cell_run import (
    ABOUT,
    CELL,
    INSTALLED_ONLY,
    OUTPUT,
    CellState,
    InUse,
    Store,
    measure_cell,
    note_factors,
    run_process,
)
from deep_bench.results.gathering import gather
from tests.recipes.expected import assert_expected

FIXED = {"network": "digits-cnn", "on": ["reference", "onnxruntime"], "budget": 0.2, "twin": False, "check": "quick"}


def recipe(**more: Any) -> Experiment:
    return Experiment({"name": "made", "level": "network", "fixed": FIXED, "accept": {"verdict": "right"}, **more})


# One process


def ran(tmp_path: Path, code: str, limit_s: float = 30.0) -> cell_run.ProcessEnding:
    return run_process(
        [sys.executable, "-c", code], home=tmp_path, output=tmp_path / "out", variables={"TOLD": "so"}, limit_s=limit_s
    )


def test_a_process_has_its_variables_and_its_status(tmp_path: Path) -> None:
    found = ran(tmp_path, "import os, sys; print(os.environ['TOLD']); sys.exit(2)")
    assert (found.status, found.why) == (2, "so")


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ("os.kill(os.getpid(), signal.SIGSEGV)", "its process crashed (SIGSEGV)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "its process was killed (SIGKILL)"),
        ("sys.exit(130)", "it was interrupted from outside"),
    ],
)
def test_a_process_that_dies_is_told(how: str, why: str, tmp_path: Path) -> None:
    found = ran(tmp_path, f"import os, signal, sys; {how}")
    assert found.why.startswith(why)


@pytest.mark.parametrize("deaf", ["", "signal.signal(signal.SIGTERM, signal.SIG_IGN); "])
def test_a_process_that_hangs_is_ended(deaf: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_run, "_PATIENCE_S", 0.3)
    found = ran(tmp_path, f"import signal, time; {deaf}time.sleep(1000)", limit_s=0.5)
    assert (found.status, found.why) == (None, "it took longer than its limit of 0.5 s")


def test_what_a_dead_process_leaves_behind_is_ended(tmp_path: Path) -> None:
    child = "import time; time.sleep(1000)"
    code = (
        "import os, signal, subprocess, sys\n"
        f"child = subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "print(child.pid, flush=True)\n"
        "os.kill(child.pid, signal.SIGSTOP)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    ran(tmp_path, code)
    _is_gone(int((tmp_path / "out").read_text()))


def test_what_a_caller_that_died_leaves_behind_is_ended(tmp_path: Path) -> None:
    environment = {**os.environ, cell_run.MARK: str(tmp_path / "out")}
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"], env=environment) as orphan:
        cell_run.end_leftovers(tmp_path / "other")
        assert orphan.poll() is None
        cell_run.end_leftovers(tmp_path / "out")
        assert orphan.poll() is not None


def _is_gone(pid: int) -> None:
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


# All cells


def _ending(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    """Each process ends so, at once."""
    monkeypatch.setattr("deep_bench.recipes.cell_run.run_process", lambda *_, **__: cell_run.ProcessEnding(2, why, 0.0))


def shipped(*changes: str) -> Experiment:
    """A recipe that ships, whole but for its budget, and one more cell, which is bad input."""
    quick = ("fixed.budget=0.2s", "fixed.twin=false", "include=[{batch: 1, sizes: {nope: 3}}]")
    return load_experiment("small-network", *quick, *changes)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("run") / "folder"
    run_experiment(shipped(), made, progress=False)
    return made


@pytest.mark.long
def test_a_cell_that_fails_stops_no_other(folder: Path) -> None:
    outcome = experiment_status(folder)
    one, many, bad = outcome.cells
    for fine in (one, many):
        assert (fine.state.state, fine.ok) == ("done", True), str(outcome)
        assert [judgement.met for judgement in fine.judgements] == [True] * 4
    assert (bad.state.state, bad.ok, bad.state.status) == ("failed", False, 2)
    assert "nope" in bad.state.why
    assert not outcome.ok
    assert "not all accepted" in str(outcome)
    assert outcome.as_json()["cells"][2]["state"] == "failed"


def test_records_say_which_cell_they_are_of(folder: Path) -> None:
    cells = [one.cell for one in experiment_status(folder).cells]
    found = gather(folder)
    assert [r.labels["system"] for r in found] == ["reference", "onnxruntime"] * 2
    assert [r.labels["factor.batch"] for r in found] == ["1", "1", "64", "64"]
    assert [r.labels["cell"] for r in found] == [cells[0].id] * 2 + [cells[1].id] * 2
    assert {r.labels["recipe"] for r in found} == {"small-network"}
    assert not found.refused


def test_results_hold_what_was_expected_of_them(folder: Path) -> None:
    for one in experiment_status(folder).cells[:2]:
        assert_expected(one)


def test_what_is_done_is_not_run_again(folder: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")}
    run_experiment(shipped(), folder, progress=False)
    resume_experiment(folder, progress=False)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/*.json")} == before


def test_another_recipe_in_an_old_folder_is_refused_with_what_changed(folder: Path) -> None:
    with pytest.raises(InvalidArgument) as found:
        run_experiment(shipped("fixed.seed=1", "matrix.batch=[1, 8]"), folder, progress=False)
    assert "fixed.seed is new: 1" in str(found.value)
    assert "matrix.batch was [1, 64], is [1, 8]" in str(found.value)


def test_limits_may_change_under_an_old_folder(folder: Path) -> None:
    outcome = run_experiment(shipped("limits.cell=5min", "notes=[a note]"), folder, progress=False)
    assert outcome.store.experiment.fields.limits.cell == 300
    assert [cell.state.attempts for cell in outcome.cells] == [1, 1, 1]


def test_two_runs_in_one_folder_are_refused(folder: Path) -> None:
    with open(folder / ".lock", "a+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(InUse):
            resume_experiment(folder, progress=False)
        assert len(experiment_status(folder).cells) == 3, "looking is allowed"


def test_a_failed_cell_is_run_again_if_asked_and_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _ending(monkeypatch, "it failed again")
    outcome = resume_experiment(folder, failed=True, progress=False)
    bad = outcome.cells[2].state
    assert (bad.state, bad.why, bad.attempts) == ("failed", "it failed again", 2)
    assert (folder / ".earlier" / f"{outcome.cells[2].cell.id}-1" / "output.txt").is_file()


def test_a_folder_that_holds_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InvalidArgument, match="is not empty"):
        run_experiment(recipe(), tmp_path, progress=False)
    with pytest.raises(InvalidRecord, match="holds no experiment"):
        resume_experiment(tmp_path)


def test_what_is_not_installed_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_bench import frameworks

    monkeypatch.setattr(type(frameworks), "missing", lambda self, name: ("torch",) if name == "torch" else ())
    outcome = run_experiment(recipe(fixed={**FIXED, "on": "torch:threads=1"}), tmp_path / "out", progress=False)
    (cell,) = outcome.cells
    assert cell.state.state == "skipped"
    assert cell.state.why == "torch:threads=1 is not installed here (torch)"
    assert outcome.ok, "a skip is neither a pass nor a failure"


def test_a_recipe_s_file_or_name_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(recipe(matrix={"batch": [1, 2]}).to_yaml())
    _ending(monkeypatch, "a test")
    for source in (str(file), file, "small-network"):
        outcome = run_experiment(source, tmp_path / "out" / Path(source).stem, only="batch=1", progress=False)
        assert outcome.cells[0].state.why == "a test"
        assert outcome.cells[1].state.state == "waiting"
        outcome.store.path.rename(tmp_path / f"{type(source).__name__}-{outcome.store.path.name}")


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ({"experiment": "mine"}, "no recipe 'mine'"),
        ({"experiment": {"level": "network"}}, "a recipe from fields"),
        ({"experiment": None}, "a recipe from empty"),
        ({"launcher": "Slurm"}, "the launcher 'Slurm'"),
        ({"only": "batch"}, "'batch'"),
    ],
)
def test_what_is_no_recipe_or_no_choice_is_refused(what: dict[str, Any], told: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=told):
        run_experiment(**{"experiment": recipe(), "folder": tmp_path / "out", "progress": False, **what})
    assert not (tmp_path / "out").exists()


def test_no_cell_begins_when_the_time_for_all_is_spent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_bench.recipes import run as running

    def instead(store: Store, cell: Any) -> CellState:
        state = CellState(factors=dict(cell.factors), state="skipped", why="a test")
        store.keep(cell, state)
        return state

    clock = iter([0.0, 1.0, 11.0])
    monkeypatch.setattr(running, "perf_counter", lambda: next(clock))
    monkeypatch.setattr(running, "measure_cell", instead)
    made = recipe(matrix={"batch": [1, 2]}, limits={"whole": 10})
    outcome = run_experiment(made, tmp_path / "out", progress=False)
    assert [cell.state.state for cell in outcome.cells] == ["skipped", "left"]
    assert not outcome.ok


def test_declared_environments_are_built_once_and_told_to_cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_bench.recipes import requirements as building

    built: list[tuple[str, tuple[str, ...]]] = []
    seen: list[str] = []

    def instead(command: Any, *, variables: Any, **_: Any) -> cell_run.ProcessEnding:
        seen.append(variables["DEEP_BENCH_ENVIRONMENTS"])
        return cell_run.ProcessEnding(2, "a test", 0.0)

    monkeypatch.setattr(building, "build", lambda name, declared: built.append((name, declared.requirements)))
    monkeypatch.setattr("deep_bench.recipes.cell_run.run_process", instead)
    content = {"environments": {"old": {"requirements": ["onnxruntime==1.20.1"]}}, "matrix": {"batch": [1, 2]}}
    made = Experiment({**recipe().content, **content}, allow_code=True)
    run_experiment(made, tmp_path / "out", progress=False)
    assert built == [("old", ("onnxruntime==1.20.1",))]
    assert seen == [str(tmp_path / "out" / "environments.yaml")] * 2
    assert "onnxruntime==1.20.1" in (tmp_path / "out" / "environments.yaml").read_text()


# No space


def test_a_cell_without_space_is_no_failure_and_the_run_says_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, out = tmp_path / "mine.yaml", tmp_path / "out"
    file.write_text(recipe(matrix={"batch": [1, 2]}).to_yaml())
    said = "deep-bench: cannot write the record /out/a.json: No space left on device"
    _ending(monkeypatch, f"a table | {said} | What to do: measure again")
    ended = CliRunner().invoke(command, ["run", str(file), "-o", str(out)])
    assert ended.exit_code == 1
    assert "the cell batch=1: deep-bench: cannot write the record /out/a.json: No space left on device" in ended.output
    assert "all that was written before is kept, 0 of 2 cells are done" in ended.output
    assert f"then: deep-bench recipe resume {out}" in ended.output
    first, second = experiment_status(out).cells
    assert (first.state.state, first.state.why, second.state.state) == ("interrupted", said, "waiting")


def test_a_state_that_cannot_be_written_damages_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.begun(tmp_path / "out", recipe(matrix={"batch": [1, 2]}))
    first, second = store.experiment.cells
    store.keep(first, CellState(state="done"))
    before = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file()}

    def full(target: Path, fill: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cell_run, "store_replace", full)
    with pytest.raises(
        NotWritten, match=f"cell batch=2: cannot write .*{second.id}/cell.json: No space left on device"
    ) as told:
        resume_experiment(store.path, progress=False)
    assert "1 of 2 cells are done" in told.value.advice
    after = {path: path.read_bytes() for path in store.path.rglob("*") if path.is_file() and path.name != ".lock"}
    assert after == before
    with pytest.raises(NotWritten, match=r"cannot write .*experiment.json"):
        Store.begun(tmp_path / "other", recipe())


def test_a_record_that_cannot_be_noted_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.begun(tmp_path / "out", recipe(matrix={"batch": [1]}))
    (cell,) = store.experiment.cells
    text = '{"schema_version": 1, "recipe": {"options": {}}, "complete": true}'

    def ends(*_: Any, **__: Any) -> cell_run.ProcessEnding:
        (store.folder(cell) / "2026.json").write_text(text)
        monkeypatch.setattr("deep_bench.records.store.os.replace", full)
        return cell_run.ProcessEnding(0, "", 0.0)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("deep_bench.recipes.cell_run.run_process", ends)
    with pytest.raises(NotWritten, match=r"cannot write .*2026.json: No space left on device"):
        measure_cell(store, cell)
    assert (store.folder(cell) / "2026.json").read_text() == text
    assert not list(store.path.rglob("*.part"))


# Interrupted


def test_a_cell_whose_runner_is_gone_is_interrupted(tmp_path: Path) -> None:
    store = Store.begun(tmp_path / "out", recipe(matrix={"batch": [1, 2]}))
    here, elsewhere = store.experiment.cells
    store.keep(here, CellState(state="running", host=socket.gethostname()))
    store.keep(elsewhere, CellState(state="running", host="another"))
    ended = CliRunner().invoke(command, ["status", str(store.path)])
    assert [one.state.state for one in experiment_status(store.path).cells] == ["interrupted", "running"], (
        "of others none knows"
    )
    assert "batch=1: interrupted: the process that ran it is gone" in ended.output
    assert f"what it had is kept in {store.folder(here)}; resume: deep-bench recipe resume {store.path}" in ended.output
    assert f"go on: deep-bench recipe resume {store.path}" in ended.output
    with store.alone():
        ended = CliRunner().invoke(command, ["status", str(store.path)])
        assert [one.state.state for one in experiment_status(store.path).cells] == ["running", "running"]
        assert "go on" not in ended.output


def test_a_run_that_a_full_disk_ended_is_told_as_far_as_it_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from deep_bench.recipes import cell_run as space

    store = Store.begun(tmp_path / "out", recipe(matrix={"batch": [1]}))
    (cell,) = store.experiment.cells
    store.keep(cell, CellState(state="running", host=socket.gethostname()))
    lines = ["│ a table │", "deep-bench: cannot write the record a.json: No space left on device", "What to do: free some"]
    (store.folder(cell) / OUTPUT).write_text("\n".join(lines))
    monkeypatch.setattr(space.shutil, "disk_usage", lambda _: SimpleNamespace(free=0))
    (one,) = experiment_status(store.path).cells
    assert one.state.why == (
        f"the process that ran it is gone; it said last: {lines[1]}; "
        f"no space is left on the disk; what it had is kept in {store.folder(cell)}; resume: {store.resume}"
    )


def test_an_interrupted_run_keeps_all_and_goes_on(tmp_path: Path) -> None:
    file, out = tmp_path / "long.yaml", tmp_path / "out"
    made = recipe(matrix={"batch": [1]}).changed("fixed.budget=1000s", "fixed.on=reference", "fixed.ci_width=1e-9")
    file.write_text(made.to_yaml())
    with subprocess.Popen(
        [sys.executable, "-m", "deep_bench", "recipe", "run", str(file), "-o", str(out)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        deadline = time.monotonic() + 60
        while not any(b'"ns"' in path.read_bytes() or b'"trials"' in path.read_bytes() for path in out.glob("*/20*.json")):
            assert running.poll() is None, running.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert experiment_status(out).cells[0].state.state == "running"
        os.kill(running.pid, signal.SIGTERM)
        _, errors = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"go on: deep-bench recipe resume {out}" in errors
    (cell,) = experiment_status(out).cells
    assert cell.state.state == "interrupted"
    (record,) = (out / cell.cell.id).glob("20*.json")
    content = json.loads(record.read_text())
    assert content["interrupted"]
    assert content["recipe"]["options"]["cell"] == cell.cell.note


# Strangers' folders


def test_a_stranger_s_folder_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mine.py").write_text(f"import pathlib; pathlib.Path({str(tmp_path / 'ran')!r}).touch()")
    folder = tmp_path / "out"
    Store.begun(folder, recipe())
    text = (folder / "recipe.yaml").read_text().replace("digits-cnn", "{name: 'mine:make'}")
    (folder / "recipe.yaml").write_text(text)
    assert len(experiment_status(folder).cells) == 1
    with pytest.raises(InvalidArgument, match="runs code"):
        resume_experiment(folder)
    assert not (tmp_path / "ran").exists()


def test_a_file_beside_a_recipe_of_data_is_no_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def instead(command: Any, *, variables: Any, **_: Any) -> cell_run.ProcessEnding:
        seen.append(variables.get(INSTALLED_ONLY, ""))
        return cell_run.ProcessEnding(2, "a test", 0.0)

    monkeypatch.setattr("deep_bench.recipes.cell_run.run_process", instead)
    monkeypatch.chdir(tmp_path)
    run_experiment(recipe(matrix={"batch": [1]}), tmp_path / "data", progress=False)
    code = {**recipe(matrix={"batch": [1]}).content, "fixed": {**FIXED, "on": ["reference", "mine:Adapter"]}}
    run_experiment(Experiment(code, allow_code=True), tmp_path / "code", progress=False)
    assert seen == ["1", ""]
    monkeypatch.setattr("deep_bench.cli.signal.signal", lambda *_: None)
    for variable, added in {"1": False, "": True}.items():
        monkeypatch.setenv(INSTALLED_ONLY, variable)
        monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
        with pytest.raises(SystemExit):
            main(["--version"])
        assert (str(tmp_path) in sys.path) is added


@pytest.mark.parametrize("content", ["", "[]", '{"state": "fine"}', '{"state": "done", "more": 1}', "[" * 100_000])
@pytest.mark.parametrize("file", [ABOUT, CELL])
def test_a_damaged_state_is_refused(file: str, content: str, tmp_path: Path) -> None:
    store = Store.begun(tmp_path / "out", recipe())
    (cell,) = store.experiment.cells
    store.keep(cell, CellState())
    (store.path / (cell.id if file == CELL else ".") / file).write_text(content)
    with pytest.raises(InvalidRecord):
        store.state(cell) if file == CELL else Store(store.path)


def test_a_note_changes_nothing_else(tmp_path: Path) -> None:
    cell = recipe(matrix={"batch": [1]}).cells[0]
    texts = {
        "a.json": '{"schema_version": 1, "recipe": {"options": {"x": [1, 2]}}, "complete": true, "steps": [1,  2]}',
        "b.json": '{"schema_version": 1, "recipe": {"options": {}}, "complete": false}',
        "c.json": '{"schema_version": 1, "kind": "scaling", "recipe": {"name": "digits"}}',
        "d.json": '{"machine": 1}',
        "e.json": "{",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    assert note_factors(cell, tmp_path)
    found = {name: (tmp_path / name).read_text() for name in texts}
    assert json.loads(found["a.json"])["recipe"]["options"] == {"cell": cell.note, "x": [1, 2]}
    assert found["a.json"].endswith('"complete": true, "steps": [1,  2]}')
    assert json.loads(found["b.json"])["recipe"]["options"] == {"cell": cell.note}
    assert json.loads(found["c.json"])["recipe"] == {"cell": cell.note, "name": "digits"}
    assert (found["d.json"], found["e.json"]) == (texts["d.json"], texts["e.json"])
    note_factors(cell, tmp_path)
    assert {name: (tmp_path / name).read_text() for name in texts} == found, "once is enough"


# The command line


def test_the_command_line_lists_and_expands() -> None:
    runner = CliRunner()
    listed = json.loads(runner.invoke(command, ["list", "--json"]).output)
    assert ("small-network", "network", 2) in [(one["name"], one["level"], one["cells"]) for one in listed]
    expanded = json.loads(runner.invoke(command, ["expand", "small-network", "--json"]).output)
    assert [one["name"] for one in expanded] == ["batch=1", "batch=64"]
    assert expanded[0]["command"].startswith("deep-bench run --on=reference")
    dry = runner.invoke(command, ["run", "small-network", "--dry-run", "--only", "batch=64", "--set", "fixed.seed=3"])
    assert (dry.exit_code, "--seed=3" in dry.output, "batch=1\n" in dry.output) == (0, True, False)
