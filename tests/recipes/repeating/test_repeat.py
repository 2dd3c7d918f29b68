"""Runs that are repeated."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deep_bench.cli.bundle import command as bundle_verb
from deep_bench.cli.repeat import command as repeat_verb
from deep_bench.errors import InvalidArgument, InvalidRecord, Unsupported
from deep_bench.recipes.bundles import bundle, load_records
from deep_bench.recipes.manifest import (
    Manifest,
    PackedFile,
    bundle_variables,
    clean_interpreter,
    dropped_variables,
    lock_lines,
    unpack,
    variables_not_set,
)
from deep_bench.recipes.repetition import Bits, Repetition, allowed_command, output_digests, repeat
from tests.recipes.repeating.conftest import WORDS


@pytest.fixture(scope="session")
def record(place: Path) -> Path:
    (found,) = (place / "mine").glob("*.json")
    return found


def changed(record: Path, folder: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """A copy of a record with something else in it."""
    shutil.copytree(record.parent, folder)
    content = json.loads(record.read_text())
    change(content)
    (folder / record.name).write_text(json.dumps(content))
    return folder / record.name


def test_a_run_is_repeated(packed: tuple[Path, Manifest], tmp_path: Path) -> None:
    """In earnest; other tests of what is made of it take the records of before for those of now."""
    found = repeat(packed[0], tmp_path / "again", here=True, margin=0.5)
    assert (found.verdict, found.status, found.clean) == ("repeated to the last bit", 0, False)
    assert found.bits.same == ("reference on small: y [batch=1]",)
    assert found.given.same == ("the network small [batch=1]", "the input x [batch=1]")
    assert found.differences == {}
    assert [result.labels["system"] for result in found.after] == ["reference"]
    text = found.report(100)
    assert text.startswith("verdict: repeated to the last bit\n- 1 of 1 results are equal to the last bit\n")
    assert "the environment is the same" in text


@pytest.mark.usefixtures("as_before")
def test_other_bits_and_other_verdicts(place: Path, record: Path, tmp_path: Path) -> None:
    """The record of the bundle is changed, so that what comes now is another result."""

    def change(content: dict[str, Any]) -> None:
        content["systems"][0]["verdict"]["outputs"]["y"]["sha256"] = "0" * 64
        content["environment"]["packages"]["numpy"] = "1.0"

    changed(record, tmp_path / "bits", change)
    bundle([tmp_path / "bits"], tmp_path / "bits.zip", command=["deep-bench", *WORDS], folder=place)
    found = repeat(tmp_path / "bits.zip", tmp_path / "again", here=True)
    assert (found.verdict, found.bits.differ) == ("repeated", ("reference on small: y [batch=1]",))
    assert found.differences["numpy"][0] == "1.0"
    assert found.manifest.lock.drifted["numpy"][0] == "1.0"
    assert "numpy: 1.0 → " in found.report(100)
    assert "not the same to the last bit: reference on small: y [batch=1]" in found.report(100)


def test_runs_that_fail_now(packed: tuple[Path, Manifest], place: Path, tmp_path: Path) -> None:
    words = ["deep-bench", *WORDS[:2], "--on", "no-such-framework"]
    made = bundle([place / "mine"], tmp_path / "b.zip", command=words, folder=place)
    assert made.command == ["deep-bench", "run", "inputs/small.onnx", *words[3:], "--output", "repeated"]
    found = repeat(tmp_path / "b.zip", tmp_path / "again", here=True)
    assert (found.verdict, found.status) == ("not repeated", 2)
    assert found.reasons == ("it left no record; exit status 2",)
    assert found.log == tmp_path / "again" / "repeated.log"
    assert "no-such-framework" in found.log.read_text()
    text = found.report(200)
    assert f"what it said: {found.log}\n| deep-bench: unknown framework 'no-such-framework'\n| Expected: one of" in text
    slow = repeat(packed[0], tmp_path / "slow", here=True, limit_s=0.01)
    assert (slow.verdict, slow.status, slow.reasons[0]) == ("not repeated", None, "it took too long, and was ended")


def test_only_the_end_of_a_log_is_shown(packed: tuple[Path, Manifest], tmp_path: Path) -> None:
    nothing = Bits((), (), ())
    found = Repetition(packed[1], tmp_path, ("deep-bench",), 1, True, (), (), nothing, nothing, None, {})
    found.log.write_bytes(b"first\n" + b"x" * 100_000 + b"\n" + b"\n".join(b"\x1b[2J%d\xff" % i for i in range(20)))
    assert found.last_lines(2) == ["\x1b[2J18\ufffd", "\x1b[2J19\ufffd"]
    text = found.report(100)
    assert "| \\x1b[2J8\ufffd\n" in text
    assert ("first" in text, "\x1b" in text, text.count("\n| ")) == (False, False, 12)


def test_code_of_strangers_is_run_with_leave_only(place: Path, tmp_path: Path) -> None:
    script = tmp_path / "mine.py"
    script.write_text("import sys, shutil\nshutil.copytree(sys.argv[1], 'repeated')\n")
    bundle([place / "mine"], tmp_path / "b.zip", command=[str(script), str(place / "mine")], folder=tmp_path)
    with pytest.raises(Unsupported, match=r"runs code that came with it: inputs/mine\.py"):
        repeat(tmp_path / "b.zip", tmp_path / "no", here=True)
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").write_text("#!/bin/sh\n")
    bundle([place / "mine"], tmp_path / "e.zip", command=["deep-bench", *WORDS], inputs=[tmp_path / "env"], folder=place)
    with pytest.raises(Unsupported, match=r"runs code that came with it: inputs/env/bin/python"):
        repeat(tmp_path / "e.zip", tmp_path / "no-env", here=True)
    found = repeat(tmp_path / "b.zip", tmp_path / "yes", here=True, allow_code=True)
    assert found.verdict == "repeated to the last bit"
    bundle([place / "mine"], tmp_path / "c.zip", command=["rm", "-rf", "x"])
    with pytest.raises(InvalidArgument, match="the command 'rm'"):
        repeat(tmp_path / "c.zip", tmp_path / "rm", here=True, allow_code=True)
    bundle([place / "mine"], tmp_path / "d.zip", command=[])
    with pytest.raises(InvalidArgument, match="without a command"):
        repeat(tmp_path / "d.zip", tmp_path / "none", here=True)


@pytest.mark.parametrize(
    ("command", "files", "kind", "message"),
    [
        (["deep-bench", "export", "records", "-o", "repeated"], {}, InvalidArgument, "the command deep-bench export"),
        (["deep-bench"], {}, InvalidArgument, "the command deep-bench "),
        (["deep-bench", "run", "x", "--output", "/tmp/there"], {}, InvalidArgument, "leads out of the bundle's folder"),
        (["deep-bench", "run", "x", "--output=mine"], {}, InvalidArgument, "goes to repeated"),
        (["deep-bench", "operators", "x", "--json", "mine"], {}, InvalidArgument, "goes to repeated"),
        (["deep-bench", "run", "--json", "x", "-o", "mine"], {}, InvalidArgument, "-o mine"),
        (["deep-bench", "run", "../x.onnx"], {}, InvalidArgument, "leads out of the bundle's folder"),
        (["deep-bench", "operators", "/tmp/e.py:X"], {}, InvalidArgument, "leads out of the bundle's folder"),
        (["deep-bench", "run", "x", "--on", "torch@/opt/env"], {}, InvalidArgument, "leads out of the bundle's folder"),
        (["deep-bench", "recipe", "run", "e.yaml", "--allow-code"], {}, Unsupported, "--allow-code"),
        (["deep-bench", "recipe", "run", "e.yaml"], {"e.yaml": "environments: {a: {container: sh}}"}, Unsupported, "e.yaml"),
        (["deep-bench", "run", "x"], {"environments.yaml": "a: {requirements: [evil]}"}, Unsupported, "environments.yaml"),
        (["deep-bench", "run", "x"], {"broken.yaml": "a: [&b *b"}, Unsupported, "broken.yaml"),
        (["deep-bench", "run", "x"], {"evil.so": ""}, Unsupported, "evil.so"),
    ],
)
def test_commands_of_strangers(
    command: list[str],
    files: dict[str, str],
    kind: type[Exception],
    message: str,
    packed: tuple[Path, Manifest],
    tmp_path: Path,
) -> None:
    made = packed[1]
    for name, text in files.items():
        (tmp_path / name).write_text(text)
        more = PackedFile(path=name, role="input", bytes=len(text), sha256="0" * 64)
        made = made.model_copy(update={"files": [*made.files, more]})
    made = made.model_copy(update={"command": command})
    with pytest.raises(kind, match=re.escape(message)):
        allowed_command(made, tmp_path, here=True, allow_code=False)


def test_cells_of_a_recipe_do_not_hide_each_other(record: Path, tmp_path: Path) -> None:
    files = []
    for batch in (1, 8):
        cell = {"recipe": "r", "id": str(batch), "factors": {"batch": batch}}
        file = changed(record, tmp_path / str(batch), lambda c, cell=cell: c["recipe"]["options"].update(cell=cell))
        files.append(file)
    one, eight = load_records(files)
    assert list(output_digests([one, eight])) == ["reference on small: y [batch=1]", "reference on small: y [batch=8]"]
    assert list(output_digests([one, one])) == ["reference on small: y [batch=1]", "reference on small: y [batch=1] (2)"]


def test_what_a_bundle_may_set_and_install(
    packed: tuple[Path, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    monkeypatch.setenv("PYTHONOPTIMIZE", "1")
    wanted = {"OMP_NUM_THREADS": "3", "LD_PRELOAD": "/tmp/evil.so", "PYTHONPATH": "/tmp", "OMPI_MCA_plugin": "x"}
    made = packed[1].model_copy(update={"variables": wanted})
    assert variables_not_set(made) == ["LD_PRELOAD", "OMPI_MCA_plugin", "PYTHONPATH"]
    found = bundle_variables(made, here=False)
    assert (found["OMP_NUM_THREADS"], found.get("LD_PRELOAD")) == ("3", os.environ.get("LD_PRELOAD"))
    assert not [name for name in found if name.startswith("PYTHON")]
    assert {"PYTHONPATH", "PYTHONOPTIMIZE"} <= set(dropped_variables())
    assert bundle_variables(made, here=True)["PYTHONPATH"] == "/elsewhere"
    lines = tmp_path / "lock.txt"
    for line in ("--index-url http://bad", "x @ http://bad/x.whl", "-r other.txt", "numpy>=2", "git+https://bad"):
        lines.write_text(f"numpy==2.4.0\n{line}\n")
        with pytest.raises(InvalidRecord, match="the lock has the line"):
            lock_lines(lines)
    other = made.model_copy(update={"lock": made.lock.model_copy(update={"platform": "win-arm64"})})
    with pytest.raises(Unsupported, match="a lock of win-arm64"):
        clean_interpreter(other, tmp_path)


@pytest.mark.usefixtures("as_before")
def test_from_the_command_line(record: Path, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    kept = changed(record, tmp_path / "kept", lambda content: content.update(command=["deep-bench", *WORDS]))
    archive = tmp_path / "b.zip"
    found = CliRunner().invoke(bundle_verb, [str(kept), "-o", str(archive), "--title", "mine"])
    assert found.exit_code == 0, found.output
    assert f"repeat it: deep-bench repeat {archive}" in found.output
    with pytest.raises(InvalidArgument, match="is there already"):
        CliRunner().invoke(bundle_verb, [str(kept), "-o", str(archive)], catch_exceptions=False)
    assert CliRunner().invoke(bundle_verb, [str(kept), "-o", str(archive), "--force"]).exit_code == 0
    unpack(archive, tmp_path / "there")
    words = [str(tmp_path / "there"), "--into", str(tmp_path / "there"), "--here", "--margin", "50%"]
    found = CliRunner().invoke(repeat_verb, words)
    assert found.exit_code == 0, found.output
    assert "verdict: repeated to the last bit" in found.stdout
    with pytest.raises(InvalidArgument, match="is there already"):
        CliRunner().invoke(repeat_verb, words, catch_exceptions=False)
    shutil.rmtree(tmp_path / "there")


@pytest.mark.full
def test_in_a_clean_environment(packed: tuple[Path, Manifest], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "nothing"))
    found = repeat(packed[0], tmp_path / "again", margin=0.5)
    assert (found.verdict, found.status, found.clean) == ("repeated to the last bit", 0, True)
    assert sys.executable not in (tmp_path / "again" / "repeated.log").read_text()
    assert "PYTHONPATH" in found.dropped
    assert "that the clean environment was not given: PYTHON" in found.report(200)
