"""Every known fault of a framework is there today, shown by its script without deep_bench."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import deep_bench as db
from deep_bench.testing import run_case, standard_cases
from deep_bench.testing.case import KINDS
from deep_bench.testing.findings import findings, page

ROOT = Path(__file__).parents[2]
SCRIPTS = sorted((ROOT / "docs" / "reproducers").glob("*.py"))
FRAMEWORKS = ("onnx", "onnxruntime", "tensorflow", "torch")

RUN_ALL = """
import contextlib, io, json, runpy, sys
found = {}
for path in sys.argv[1:]:
    out, status = io.StringIO(), 0
    with contextlib.redirect_stdout(out):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as end:
            status = int(end.code or 0)
    found[path] = status, out.getvalue()
print(json.dumps(found))
"""


def test_cases_of_faults_exist() -> None:
    known = {case.name for kind in KINDS for case in standard_cases(kind)}
    listed = {name for faults in findings().values() for fault in faults for name in fault.cases}
    assert listed <= known


def needs(*names: str) -> None:
    lacking = [missing for name in names if name in db.frameworks for missing in db.frameworks.missing(name)]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} is not installed")


@pytest.fixture(scope="module")
def found():
    needs(*FRAMEWORKS)
    return findings()


def test_every_fault_has_a_script_and_every_script_a_fault(found) -> None:
    named = {fault.script(framework) for framework, faults in found.items() for fault in faults}
    assert named == {str(script.relative_to(ROOT)) for script in SCRIPTS}


def test_names_are_unique_and_in_order(found) -> None:
    for faults in found.values():
        names = [fault.name for fault in faults]
        assert names == sorted(set(names))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_scripts_are_short_and_do_without_deep_bench(script: Path) -> None:
    source = script.read_text(encoding="utf-8")
    imported = {
        (alias.name if isinstance(node, ast.Import) else str(node.module)).partition(".")[0]
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported <= {"numpy", "onnx", "onnxruntime", "os", "tensorflow", "torch"}
    assert len(source.splitlines()) <= 32


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_faults_are_there(found, framework: str) -> None:
    scripts = [f.script(framework) for f in found[framework] if f.severity != "crashes"]
    done = subprocess.run([sys.executable, "-c", RUN_ALL, *scripts], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout)
    assert list(results) == scripts
    gone = [f"{script}: {text}" for script, (status, text) in results.items() if status == 0]
    assert not gone, "these faults have gone: take them off the list\n" + "\n".join(gone)
    assert all("demanded" in text and "came" in text for _, text in results.values())


@pytest.mark.long
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_what_crashes_crashes(found, framework: str) -> None:
    for fault in found[framework]:
        if fault.severity == "crashes":
            done = subprocess.run([sys.executable, fault.script(framework)], capture_output=True, check=False, cwd=ROOT)
            assert done.returncode < 0, f"{fault.name} has gone: take it off the list"


def test_the_page_is_current(found) -> None:
    written = (ROOT / "docs" / "framework-findings.md").read_text(encoding="utf-8")
    assert written == page(), "python -m deep_bench.testing.findings > docs/framework-findings.md"


def test_the_known_failures_of_onnxruntime_are_not_right() -> None:
    needs("onnxruntime")
    adapter = db.frameworks["onnxruntime"](threads=1)
    known = adapter.known_failures
    cases = [case for case in standard_cases("node") if case.name in known]
    assert {case.name for case in cases} == set(known)
    words = {case.name: run_case(adapter, case).word for case in cases}
    assert set(words.values()) == {"failed", "wrong"}, words
