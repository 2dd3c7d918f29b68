"""Ranks under mpirun, one of which is killed, stops, hangs or raises: all end, and one message says why."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from deep_bench.training import Runs, read_checkpoint
from tests.distributed.launched import ROOT, launched

PROGRAM = Path(__file__).with_name("misbehaving.py").relative_to(ROOT)


def messages(found: subprocess.CompletedProcess[str]) -> list[str]:
    """What ranks said; there is no traceback beside it."""
    assert "Traceback" not in found.stderr.replace("Tracebacks of all ranks", "")
    return re.findall(r"^deep-bench: (.*)", found.stderr, re.MULTILINE)


def only_message(found: subprocess.CompletedProcess[str]) -> str:
    said = messages(found)
    assert len(said) == 1, found.stderr
    return said[0]


@pytest.mark.long
@pytest.mark.parametrize(
    ("what", "rank", "status", "cause"),
    [
        ("raise", 1, 3, r"rank 1 of 3 on n1 failed, after 7 steps: ValueError: a tooth is missing"),
        ("kill", 0, 137, r"rank 0 of 3 on n0 was killed or crashed, last heard of .*: its process ended without a word"),
        ("loop", 2, 3, r"rank 2 of 3 on n2 hangs: for 4 s, after 7 steps, in misbehaving.py:\d+, loop, while .* allreduce"),
        ("wait", 1, 3, r"the 3 ranks wait for each other, for 4 s: ranks 0, 2 wait in allreduce and rank 1 waits in recv"),
        ("stop", 1, None, r"rank 1 of 3 on n1 has not answered for 4 s, last heard of .*: it was stopped, or its node .*"),
    ],
)
def test_all_end_with_one_message(what: str, rank: int, status: int | None, cause: str, tmp_path: Path) -> None:
    found = launched(3, PROGRAM, what, str(rank), str(tmp_path))
    message = only_message(found)
    assert re.fullmatch(cause, message)
    assert found.returncode in ((3, 137) if status is None else (status,))
    (file,) = tmp_path.glob("ranks_*.txt")
    assert f"Tracebacks of all ranks: {file}" in found.stderr
    text = file.read_text()
    expected = {"raise": "in fail\n", "loop": "in loop\n", "wait": "comm.recv("}.get(what, "")
    assert expected in text
    assert "comm.allreduce(np.zeros(4))" in text


def test_from_the_command_line(tmp_path: Path) -> None:
    words = ["train", "digits", "--on", "reference", "--distributed", "allreduce", "--checkpoints", str(tmp_path / "kept")]
    found = launched(2, PROGRAM, "raise", "1", str(tmp_path / "out"), *words, "--checkpoint-every", "3", timeout_s=120.0)
    message = only_message(found)
    assert re.fullmatch(r"rank 1 of 2 on .* failed, after 7 steps: ValueError: a tooth is missing", message)
    assert "What to do: go on with the same command and --resume" in found.stderr
    assert (found.returncode, found.stdout) == (3, "")
    kept = {path.name for path in tmp_path.glob("kept/reference/seed_0/*.h5")}
    assert kept == {"step_0000000003.h5", "step_0000000006.h5"}


@pytest.mark.long
def test_an_asynchronous_run_survives_the_loss_of_a_worker(tmp_path: Path) -> None:
    """Its checkpoint is one of the ranks that are left."""
    words = ["train", "digits", "--on", "reference", "--distributed", "asynchronous:survive=true", "--steps", "12"]
    words += ["--no-target", "--checkpoints", str(tmp_path / "kept")]
    found = launched(3, PROGRAM, "kill", "2", str(tmp_path / "out"), *words, timeout_s=120.0, options=("--with-ft", "ulfm"))
    message = only_message(found)
    assert re.match(r"rank 2 of 3 on .* was killed or crashed, last heard of", message)
    assert "The others go on without it." in found.stderr
    assert "lost on the way, and gone on without: rank 2 of 3" in found.stdout
    assert found.returncode == 0
    (kept,) = tmp_path.glob("kept/reference/seed_0/*.h5")
    tree = read_checkpoint(kept)
    assert np.asarray(tree["step"]["optimizer"]["clocks"]).tolist() == [0, 12]
    (record,) = (tmp_path / "out").glob("*.json")
    (run,) = Runs.load(record).runs
    assert np.flatnonzero(np.isnan(run.losses)).tolist() == run.untold, "it was killed before it told of its last step"
    assert len(run.untold) == 1
    assert run.history().about_losses() == "the loss of 1 step is not known, since its rank was lost"
