"""``deep-bench train``: runs, records, checkpoints and refusals."""

from __future__ import annotations

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
    words = ("digits", "--on", "reference", "--no-target", "--checkpoints", "kept", "sampler.batch=512")
    assert run(capsys, *words, "--epochs", "1")[0] == 0
    latest = latest_checkpoint(tmp_path / "kept" / "reference" / "seed_0")
    assert latest is not None
    assert latest.name == "step_0000000003.h5"
    status, out, _ = run(capsys, *words, "--epochs", "2", "--resume", "--json")
    assert status == 0
    found = json.loads(out)["runs"][0]
    assert len(found["losses"]) == 6, "those before the checkpoint included"


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
    words = ("digits", "--on", "reference", "--no-target", "--checkpoints", "kept", "sampler.batch=512")
    assert run(capsys, *words, "--epochs", "1")[0] == 0
    status, _, err = run(capsys, *words, "--epochs", "2", "--resume", "optimizer.lr=0.5")
    assert status == 2
    assert "another optimizer" in err
    status, _, err = run(capsys, *words, "--epochs", "2")
    assert status in (1, 2)


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
