"""Ctrl-C, a time limit, or an error in one of several systems: what was found by then is shown and written, as partial."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deep_bench.cli import main
from deep_bench.network.profile_result import Profile
from deep_bench.testing.adapter import small_network

PATIENCE = 120.0
START = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "  # a shell's background job ignores it
    "from deep_bench.cli import main; main()"
)
SLOW = """
import time
from pathlib import Path
from deep_bench.errors import Unsupported
from deep_bench.reference.network import ReferenceAdapter

def wait():
    Path("waiting").touch()
    time.sleep(600)

class Slow(ReferenceAdapter):
    '''Waits when it is asked for values inside its network, and when it is profiled.'''
    name = "slow"
    def prepare(self, network, **options):
        if options.get("outputs"):
            wait()
        executor = super().prepare(network, **options)
        executor.profile = lambda *_, **__: wait()
        return executor

class Shy(ReferenceAdapter):
    name = "shy"
    def prepare(self, network, **options):
        raise Unsupported("it is shy")

class Broken(ReferenceAdapter):
    name = "broken"
    def prepare(self, network, **options):
        raise RuntimeError("a fault of its own")
"""


def deep_bench(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(w) for w in words])
    return ended.value.code


@pytest.fixture
def network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.delitem(sys.modules, "slow", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    return small_network().save(tmp_path / "small.onnx")


def interrupted(folder: Path, number: signal.Signals, *words: str) -> tuple[int, str, str]:
    """Start a verb, and send it a signal once its slow framework waits."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    command = [sys.executable, "-c", START, words[0], "small.onnx", "--size", "batch=2", *words[1:]]
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + PATIENCE
    while not (folder / "waiting").exists() and process.poll() is None:
        assert time.monotonic() < deadline, "it does not wait"
        time.sleep(0.05)
    process.send_signal(number)
    out, err = process.communicate(timeout=PATIENCE)
    assert "Traceback" not in err, err
    return process.returncode, out, err


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda s: s.name)
@pytest.mark.usefixtures("network")
def test_diverge_keeps_what_was_examined(tmp_path: Path, number: signal.Signals) -> None:
    pytest.importorskip("matplotlib")
    words = ("--on", "reference", "--on", "slow:Slow", "--json", "d.json", "--plot", "p.png")
    status, out, err = interrupted(tmp_path, number, "diverge", *words)
    assert status == 130, err
    assert "interrupted" in err
    assert "partial: interrupted; " in out
    whole, partial = json.loads((tmp_path / "d.json").read_text())
    assert (whole["system"], whole["interrupted"], whole["first"]) == ("reference", False, None)
    assert (partial["system"], partial["interrupted"]) == ("slow:Slow", True)
    assert {node["word"] for node in partial["nodes"]} == {"right"}
    assert {node["carried"]["reason"] for node in partial["nodes"]} == {"interrupted before it was reached"}
    assert (tmp_path / "p-reference.png").is_file()
    assert (tmp_path / "p-slow-Slow.png").is_file()


@pytest.mark.long
@pytest.mark.usefixtures("network")
def test_profile_keeps_what_was_profiled(tmp_path: Path) -> None:
    words = ("--on", "reference", "--on", "slow:Slow", "--repeat", "2", "--json", "p.json")
    status, out, err = interrupted(tmp_path, signal.SIGINT, "profile", *words)
    assert status == 130, err
    assert "interrupted" in err
    assert "partial: interrupted; 1 of 2 systems were profiled" in out
    assert "between the nodes" in out
    found = Profile.load(tmp_path / "p.json")
    assert found.interrupted
    assert found["reference"].pieces
    assert found["slow:Slow"].error == "not profiled: interrupted before it was reached"


@pytest.mark.usefixtures("network")
def test_nothing_found_is_nothing_written(tmp_path: Path) -> None:
    status, out, err = interrupted(tmp_path, signal.SIGINT, "profile", "--on", "slow:Slow", "--json", "p.json")
    assert (status, out) == (130, "")
    assert "interrupted" in err
    assert not (tmp_path / "p.json").exists()


def test_an_error_in_one_system_costs_only_that_one(network: Path, tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    words = ("--on", "reference", "--on", "slow:Shy", "--json", tmp_path / "d.json")
    assert deep_bench("diverge", network, "--size", "batch=2", *words) == 1
    assert "slow:Shy: not examined: it is shy" in capsys.readouterr().out
    whole, failed = json.loads((tmp_path / "d.json").read_text())
    assert (whole["first"], failed) == (None, {"system": "slow:Shy", "error": "it is shy"})
    assert deep_bench("diverge", network, "--on", "slow:Shy") == 2
    assert "it is shy" in capsys.readouterr().err


@pytest.mark.parametrize("process", [(), ("--in-process",)], ids=["apart", "here"])
def test_a_fault_of_a_framework_leaves_what_was_examined(
    process: tuple[str, ...], network: Path, tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    words = ("--on", "reference", "--on", "slow:Broken", "--json", tmp_path / "d.json", *process)
    assert deep_bench("diverge", network, "--size", "batch=2", *words, "--debug") == 1
    said = capsys.readouterr()
    assert "RuntimeError: a fault of its own" in said.out
    assert "in prepare" in said.err
    whole, failed = json.loads((tmp_path / "d.json").read_text())
    assert whole["system"] == "reference"
    assert failed["system"] == "slow:Broken"
    assert failed["error"].endswith("RuntimeError: a fault of its own")


@pytest.mark.long
def test_gradients_keep_the_nodes_that_were_examined(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    from deep_bench.network import diverge
    from deep_bench.network import divergence as divergence_backward

    scored = small_network().with_loss("Sum", output=small_network().outputs[0].name)
    own, seen = divergence_backward.isolate, []

    def second_is_interrupted(*arguments: object) -> object:
        seen.append(arguments)
        if len(seen) > 1:
            raise KeyboardInterrupt
        return own(*arguments)

    monkeypatch.setattr(divergence_backward, "isolate", second_is_interrupted)
    found = diverge(scored, "torch:threads=1", gradients="loss", sizes={"batch": 2})
    assert found.interrupted
    assert found.nodes[0].word == "right"
    assert {n.reason for n in found.nodes[1:]} == {"interrupted before it was reached"}
    assert "partial" in found.table()
