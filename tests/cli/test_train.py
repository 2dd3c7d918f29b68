"""``deep-bench train``: runs, records, checkpoints and refusals."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

import pytest

from deep_bench.cli import main
from deep_bench.training import Runs, latest_checkpoint


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        main(["train", *words])
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture(autouse=True)
def _there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)


SMALL = ("digits", "--on", "reference", "--no-target", "--network", "mlp", "sampler.batch=512")
KEEPING = (*SMALL, "--checkpoints", "kept")
QUICK = ("digits", "--on", "reference", "--every", "128", "--steps", "4", "--target", "accuracy=0.1")


def test_a_run_that_reaches_its_target(capsys: Any, tmp_path: Path) -> None:
    status, out, _ = run(capsys, *QUICK)
    assert status == 0, out
    assert "accuracy ≥ 0.1" in out
    (record,) = (tmp_path / "results").glob("*.json")
    again = Runs.load(record)
    assert again.success.reached == 1
    assert again.runs[0].label == "reference"


def test_a_run_that_misses_it(capsys: Any) -> None:
    status, out, _ = run(capsys, *QUICK[:-1], "accuracy=0.9999")
    assert status == 1
    assert "reached the target: 0 of 1" in out


def test_a_loss_that_is_lost_is_a_failure(capsys: Any, tmp_path: Path) -> None:
    words = (*SMALL, "--epochs", "2", "--optimizer", "sgd", "optimizer.lr=1e38")
    status, _, err = run(capsys, *words)
    assert status == 1
    (path,) = (tmp_path / "results").glob("*.json")
    (kept,) = Runs.load(path).runs
    assert kept.lost_from is not None
    assert kept.stopped_because == "epochs done"
    for said in (Runs.load(path).report(width=400), err):
        assert f"no finite loss from step {kept.lost_from} on" in said


def test_fields_and_options_change_the_recipe(capsys: Any) -> None:
    status, out, _ = run(
        capsys, *QUICK, "optimizer.lr=0.5", "sampler.batch=32", "--optimizer", "sgd", "--no-target", "--json"
    )
    assert status == 0
    record = json.loads(out)
    assert "SGD(lr=0.5" in record["runs"][0]["optimizer"]
    assert record["target"] is None


def test_several_seeds_and_a_picture(capsys: Any, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    status, out, _ = run(capsys, *QUICK, "--seed", "1", "--seed", "2", "--plot", "runs.png")
    assert status == 0
    assert "reached the target: 2 of 2" in out
    assert (tmp_path / "runs.png").stat().st_size > 5000


def test_it_goes_on_from_a_checkpoint(capsys: Any, tmp_path: Path) -> None:
    words = KEEPING
    assert run(capsys, *words, "--epochs", "1")[0] == 0
    latest = latest_checkpoint(tmp_path / "kept" / "reference" / "seed_0")
    assert latest is not None
    assert latest.name == "step_0000000003.h5"
    status, out, _ = run(capsys, *words, "--epochs", "2", "--resume", "--json")
    assert status == 0
    found = json.loads(out)["runs"][0]
    assert len(found["losses"]) == 6, "those before the checkpoint included"


@pytest.mark.long
def test_steps_are_validated_first(capsys: Any) -> None:
    status, out, _ = run(capsys, *QUICK, "--validate", "2")
    assert status == 0
    assert out.index("right") < out.index("accuracy ≥ 0.1")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["digit"], "did you mean 'digits'?"),
        (["missing.yaml"], "No such file"),
        (["digits", "--on", "torhc"], "torch"),
        (["digits", "--optimizer", "adm"], "adam"),
        (["digits", "optimizer.rl=0.1"], "rl"),
        (["digits", "epochs"], "epochs"),
        (["digits", "--target", "accuracy"], "accuracy=0.97"),
        (["digits", "--target", "acuracy=0.9", "--on", "reference", "--steps", "1"], "accuracy"),
        (["digits", "--resume"], "--checkpoints"),
        (["digits", "--checkpoints", "kept", "--changed"], "--resume"),
        (["digits", "--checkpoint-every", "10"], "--checkpoints"),
        (["digits", "--checkpoints", "kept", "--checkpoint-every", "10 parsecs"], "20s"),
        (["digits", "--checkpoints", "kept", "--checkpoint-every", "0s"], "30s"),
        (["digits", "--runs", "1000"], "seeds"),
        (["digits", "--plot", "runs.txt"], "picture"),
        (["digits", "--network", "nothing"], "nothing"),
    ],
)
def test_what_is_refused(words: list[str], said: str, capsys: Any) -> None:
    status, out, err = run(capsys, *words)
    assert status == 2, out
    assert said in err
    assert "Traceback" not in err


def test_other_settings_are_not_resumed(capsys: Any) -> None:
    words = KEEPING
    assert run(capsys, *words, "--epochs", "1")[0] == 0
    status, _, err = run(capsys, *words, "--epochs", "2", "--resume", "optimizer.lr=0.5")
    assert status == 2
    assert "another optimizer" in err
    assert "on the command line --changed" in err
    status, out, _ = run(capsys, *words, "--epochs", "2", "--resume", "--changed", "optimizer.lr=0.5", "--json")
    assert status == 0
    assert len(json.loads(out)["runs"][0]["losses"]) == 6
    status, _, err = run(capsys, *words, "--epochs", "2")
    assert status in (1, 2)


def test_a_refused_run_lets_go_of_its_folder(capsys: Any) -> None:
    assert run(capsys, *KEEPING, "--epochs", "1")[0] == 0
    gc.disable()
    try:
        assert run(capsys, *KEEPING, "--epochs", "2", "--resume", "optimizer.lr=0.5")[0] == 2
        status, _, err = run(capsys, *KEEPING, "--epochs", "2", "--resume")
    finally:
        gc.enable()
    assert status == 0, err


def test_nothing_to_resume_is_said(capsys: Any) -> None:
    status, _, err = run(capsys, *QUICK, "--checkpoints", "none", "--resume")
    assert status == 0
    assert "nothing to resume" in err


def test_a_record_is_shown_again(capsys: Any, tmp_path: Path) -> None:
    assert run(capsys, *QUICK)[0] == 0
    (record,) = (tmp_path / "results").glob("*.json")
    with pytest.raises(SystemExit) as ended:
        main(["show", str(record)])
    assert not ended.value.code
    assert "accuracy ≥ 0.1" in capsys.readouterr().out


def losses(out: str) -> list[float]:
    found: list[float] = json.loads(out)["runs"][0]["losses"]
    return found


def test_checkpoints_by_steps_and_at_the_end_and_a_damaged_one(capsys: Any, tmp_path: Path) -> None:
    _, out, _ = run(capsys, *SMALL, "--steps", "7", "--json")
    whole = losses(out)
    assert run(capsys, *KEEPING, "--checkpoint-every", "2", "--steps", "5")[0] == 0
    folder = tmp_path / "kept" / "reference" / "seed_0"
    last = latest_checkpoint(folder)
    assert last is not None
    assert sorted(path.name for path in folder.iterdir()) == ["step_0000000004.h5", last.name]
    assert last.name == "step_0000000005.h5"
    last.write_bytes(last.read_bytes()[:-1])
    status, out, err = run(capsys, *KEEPING, "--checkpoint-every", "9m", "--steps", "7", "--resume", "--json")
    assert status == 0, err
    assert "is now step_0000000005.h5.damaged; it goes on from step_0000000004.h5" in err
    assert losses(out) == whole
    for path in folder.glob("*.h5"):
        path.write_bytes(b"")
    status, _, err = run(capsys, *KEEPING, "--steps", "9", "--resume")
    assert (status, "all checkpoints in" in err, "delete them" in err) == (2, True, True)


STOPPING = """
import os, signal
import numpy as np
import deep_bench as db
from deep_bench.training.sets import ArrayDataset

def digits(part, to=None):
    "The digits; a few of them; the process that it is made for gets Ctrl-C when the sixth batch is read."
    whole = db.datasets["digits"](part)
    found = ArrayDataset(whole[np.arange(300)])
    return Interrupting(found, os.getppid() if to == "parent" else os.getpid()) if part == "train" else found

class Interrupting:
    def __init__(self, dataset, pid):
        self.dataset, self.pid, self.specs, self.left = dataset, pid, dataset.specs, 6
    def __len__(self):
        return len(self.dataset)
    def __getitem__(self, indices):
        self.left -= 1
        if not self.left:
            os.kill(self.pid, signal.SIGINT)
        return self.dataset[indices]
"""


@pytest.mark.parametrize("to", ["itself", "parent"])
def test_ctrl_c_keeps_what_was_done(to: str, capsys: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stopping.py").write_text(STOPPING)
    monkeypatch.syspath_prepend(tmp_path)
    data = f"data={{name: 'stopping:digits', to: {to}}}"
    words = (*KEEPING[:-3], "--checkpoints", "kept", "sampler.batch=100", data, "--json")
    apart = ("--apart",) if to == "parent" else ()
    status, out, err = run(capsys, *words, "--epochs", "900", "--seed", "3", "--seed", "4", *apart)
    assert status == 130, err
    assert 5 <= len(losses(out)) < 900
    assert json.loads(out)["interrupted"]
    latest = latest_checkpoint(tmp_path / "kept" / "reference" / "seed_3")
    assert latest is not None
    assert latest.stem.endswith(f"{len(losses(out)):010d}")
    assert not (tmp_path / "kept" / "reference" / "seed_4").exists()
    _, resumed, err = run(capsys, *words, "--steps", f"{len(losses(out)) + 1}", "--seed", "3", "--resume")
    assert losses(resumed)[:-1] == losses(out), err


def test_a_framework_that_cannot_be_imported_is_left_out(capsys: Any, tmp_path: Path, monkeypatch: Any) -> None:
    (tmp_path / "broken_here.py").write_text("raise RuntimeError('built for another numpy\\nand more')")
    monkeypatch.syspath_prepend(tmp_path)
    for validated in ((), ("--validate", "1")):
        status, out, err = run(capsys, *SMALL, "--steps", "2", "--on", "broken_here:Adapter", "--json", *validated)
        assert status == 1
        assert "broken_here:Adapter is left out: it cannot be imported here: RuntimeError: built for another numpy" in err
        assert err.count("broken_here") == 1
        assert "Traceback" not in err
        assert [entry["label"] for entry in json.loads(out)["runs"]] == ["reference"]
    status, out, err = run(capsys, "digits", "--on", "broken_here:Adapter")
    assert (status, out, err.count("\n")) == (1, "", 1)


def test_runs_of_another_framework_are_named(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "kept" / "torch" / "seed_0").mkdir(parents=True)
    (tmp_path / "kept" / "torch" / "seed_0" / "step_0000000004.h5").touch()
    _, _, err = run(capsys, *KEEPING, "--steps", "1", "--resume")
    assert "(there are runs of torch, which go on only there); it starts afresh" in err
