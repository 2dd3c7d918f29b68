"""The example of a regression gate: its workflow, its script, its test."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from check_jsonschema import main as check_jsonschema
from click.testing import CliRunner

import deep_bench.results.gate  # noqa: F401 - pytester forgets what its runs import

pytest_plugins = ["pytester"]

EXAMPLE = Path(__file__).parents[2] / "examples" / "regression_gate"
WORKFLOW = EXAMPLE / "regression.yml"


def test_the_workflow_keeps_to_the_published_schema(tmp_path: Path) -> None:
    def checked(file: Path) -> int:
        return CliRunner().invoke(check_jsonschema, ["--builtin-schema", "vendor.github-workflows", str(file)]).exit_code

    assert checked(WORKFLOW) == 0
    broken = tmp_path / "broken.yml"
    broken.write_text(WORKFLOW.read_text().replace("runs-on:", "runs-in:"))
    assert checked(broken) == 1


def test_the_workflow_calls_what_is_there() -> None:
    steps = yaml.safe_load(WORKFLOW.read_text())["jobs"]["compare"]["steps"]
    runs = {step["name"]: step["run"] for step in steps if "run" in step}
    script, base, head, rounds, tests, records = shlex.split(runs["Measure both by turns, in fresh processes"])
    assert (script, base, head, int(rounds) >= 4, records) == ("head/by_turns.sh", "base", "head", True, "records")
    assert (EXAMPLE / tests).is_file()
    words = shlex.split(runs["Compare"].partition(">")[0])
    assert words[:4] == ["head/.venv/bin/deep-bench", "compare", f"{records}/base", f"{records}/head"]


@pytest.fixture
def checkouts(tmp_path: Path) -> Path:
    """Two, whose Python only notes where and with what it was called; in ``broken`` ones it fails."""
    for side in ("base", "head"):
        bin_folder = tmp_path / side / ".venv" / "bin"
        bin_folder.mkdir(parents=True)
        python = bin_folder / "python"
        python.write_text(f'#!/bin/sh\necho "$(basename "$PWD") $*" >> {tmp_path}/calls\ntest ! -e broken\n')
        python.chmod(0o755)
    return tmp_path


def by_turns(folder: Path, rounds: int) -> tuple[int, list[str]]:
    words = [str(EXAMPLE / "by_turns.sh"), "base", "head", str(rounds), "tests", "records"]
    done = subprocess.run(words, cwd=folder, check=False, capture_output=True)
    return done.returncode, (folder / "calls").read_text().splitlines()


def test_the_script_measures_by_turns(checkouts: Path) -> None:
    status, calls = by_turns(checkouts, 3)
    assert status == 0
    assert [line.split()[0] for line in calls] == ["base", "head", "head", "base", "base", "head"]
    for line in calls:
        side, *words = line.split()
        assert words[-2:] == ["--deep-bench-records", str(checkouts / "records" / side)]
        assert str(checkouts / "head" / "tests") in words


def test_a_base_that_fails_is_no_fault_of_the_head(checkouts: Path) -> None:
    (checkouts / "base" / "broken").touch()
    assert by_turns(checkouts, 2)[0] == 0
    (checkouts / "head" / "broken").touch()
    status, calls = by_turns(checkouts, 2)
    assert status == 1
    assert len(calls) == 4 + 2


def test_the_example_runs(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    for file in EXAMPLE.glob("*.py"):
        shutil.copy(file, pytester.path)
    monkeypatch.syspath_prepend(pytester.path)
    done = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-p", "deep_bench.results.pytest_plugin")
    done.assert_outcomes(passed=1)
    done.stdout.fnmatch_lines(["*test_softmax_is_right_and_no_slower: no baseline: call *"])
