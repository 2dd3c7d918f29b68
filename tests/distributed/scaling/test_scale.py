"""``deep-bench scale``, from the command line to the record."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from deep_bench import __version__
from deep_bench.cli.scale import RANK_COUNTS, command
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.loggp import LogGP
from deep_bench.distributed.machine import Link, Machine, Segment
from deep_bench.distributed.scaling import formulas
from deep_bench.distributed.scaling.record import efficiency, load_scaling, where_it_stops
from deep_bench.distributed.scaling.report import as_text
from deep_bench.distributed.scaling.trace import scheme_to_trace
from deep_bench.distributed.training.train import train
from deep_bench.errors import InvalidArgument
from deep_bench.measure.environment import capture
from deep_bench.training.recipes import load_recipe
from deep_bench.training.record import RunRecord, TrainingRecord

SMALL = str(Path(__file__).with_name("small.yaml"))
STATED = ["--latency", "2us", "--bandwidth", "12GB/s"]
Call = Callable[..., Result]


@pytest.fixture
def call(tmp_path: Path) -> Call:
    def run(*words: str) -> Result:
        common = ["--on", "reference", "--steps", "3", "--budget", "0.05", "--output", str(tmp_path)]
        return CliRunner(env={"COLUMNS": "160"}).invoke(command, [SMALL, *words, *common], catch_exceptions=True)

    return run


def measured(path: Path, ranks: int) -> Path:
    """A record of a run of so many local ranks."""

    def on_rank(comm: LocalCommunicator) -> RunRecord | None:
        trainer = train(SMALL, on="reference", over=comm, local={"host": "here"})
        trainer.run(steps=12)
        facts = trainer.ranks.facts()
        return None if facts is None else RunRecord(label="reference", ranks=facts)

    run = run_local(ranks, on_rank)[0]
    assert run is not None
    record = TrainingRecord(deep_bench=__version__, environment=capture(), runs=[run])
    path.write_text(record.model_dump_json(), encoding="utf-8")
    return path


def test_from_the_command_line_to_the_record(call: Call, tmp_path: Path) -> None:
    run = measured(tmp_path / "run.json", 2)
    files = {name: tmp_path / name for name in ("a.png", "a.goal")}
    done = call(
        "--ranks", "2..64", "--scaling", "strong", "--measured", str(run), "--times", str(run), "--replay-up-to", "0",
        "--plot", str(files["a.png"]), "--trace", str(files["a.goal"]), "--trace-ranks", "4", *STATED,
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    lines = done.output.splitlines()
    titles = [before for before, line in pairwise(lines) if line.startswith("┏") and not before.startswith("└")]
    assert len(titles) == 4
    assert all("predicted" in title for title in titles)
    for words in (
        "predicted, not measured: A small perceptron", "predicted cost of each call", "predicted against measured",
        "validate the pattern of messages, and not a network", "no simulator was asked for: closed formulas only",
        "assumptions:", "independently of all others", "strong scaling ends at 32 ranks", "traces of 2, 3, 4 ranks",
        "more ranks than measured steps", "efficiency falls below 50 %",
    ):  # fmt: skip
        assert words in done.output.replace("\n", " "), words
    assert files["a.png"].stat().st_size > 10_000
    assert files["a.goal"].read_text(encoding="utf-8").startswith("num_ranks 4\n")
    record = load_scaling(next(tmp_path.glob("scaling-*.json")))
    assert [point.ranks for point in record.points] == [2, 4, 8, 16, 32]
    assert [point.batch for point in record.points] == [16, 8, 4, 2, 1]
    assert record.times[1].source == "from a record of 2 ranks"
    assert record.measured[0].calls["allreduce"][1] == 2
    assert record.measured[0].predicted > 0
    assert efficiency(record, record.points[0]) == pytest.approx(record.alone / record.points[0].mean / 2)
    assert as_text(record, 160) in done.output


@pytest.mark.long
def test_weak_scaling_far_away_as_json_from_a_machine_file(call: Call, tmp_path: Path) -> None:
    segments = [Segment(parameters=LogGP(L=1e-6, o=2e-7, g=0, G=1e-10, gamma=1e-10))]
    link = Link(system="mpi", between="one node", pair=(0, 1), hosts=("a", "a"), segments=segments)
    file = Machine(deep_bench=__version__, environment=capture(), hosts=["a"], links=[link]).save(tmp_path / "m.json")
    done = call(
        "--ranks", "4..65536", "--scaling", "weak", "--machine", str(file), "--distributed", "averaging:every=1",
        "--replay-up-to", "8", "--json", "--algorithm", "allreduce=ring",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    assert found["points"][-1]["ranks"] == 65536
    assert found["points"][-1]["batch"] == 32
    assert found["points"][-1]["mean"] > 2 * 65535 * 1e-6  # a ring has so many rounds
    assert "measured within one node, not over a network" in found["machine"]
    record = load_scaling(next(tmp_path.glob("scaling-*.json")))
    assert "falls below 50 %" in where_it_stops(record)[1]
    if record.network is not None:  # SimGrid is here
        assert [point.replayed is not None for point in record.points[:3]] == [True, True, False]


def test_what_is_refused(call: Call, tmp_path: Path) -> None:
    done = call("--ranks", "4")
    assert done.exit_code == 2
    assert "mpirun -n 2 deep-bench communicate" in done.output
    assert "--latency 1us --bandwidth 12GB/s" in done.output
    other = str(measured(tmp_path / "run.json", 2))
    assert "a record of what is predicted: Averaging" in str(
        call("--ranks", "2", "--measured", other, "--distributed", "averaging", *STATED).exception
    )
    for words, told in (
        (["--ranks", "64..4"], "the first number is the smaller one"),
        (["--latency", "2", "--bandwidth", "12GB/s"], "write 1us"),
        (["--trace", "a.txt"], "NAME.goal for LogGOPSim"),
    ):
        assert told in call(*words).output
    assert "--over names a communicator of the --machine file" in call("--over", "mpi", *STATED).output
    assert "asynchronous" in str(call("--distributed", "asynchronous", *STATED).exception)
    assert "some would have none" in str(call("--ranks", "64", *STATED).exception)
    assert RANK_COUNTS.convert("3..20", None, None) == (3, 6, 12, 20)


def test_a_signal_while_one_rank_is_measured_ends_all_and_writes_nothing(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupting(_: object, moment: object, index: int, *__: object) -> bool:
        del moment
        if index == 2:
            signal.raise_signal(signal.SIGTERM)
        return False

    monkeypatch.setattr(formulas._Stop, "__call__", interrupting)
    done = call("--ranks", "2", *STATED)
    assert done.exit_code != 0
    assert not list(tmp_path.glob("scaling-*"))
    recipe = load_recipe(SMALL)
    with pytest.raises(KeyboardInterrupt):
        formulas.measured_times(recipe, "reference", scheme_to_trace("allreduce", recipe), 8, 0.05)


def test_too_few_steps_of_the_batch_are_refused() -> None:
    recipe = load_recipe(SMALL)
    with pytest.raises(InvalidArgument, match=r"0 of \d+ steps had 100000 samples(.|\n)*last batch of an epoch is shorter"):
        formulas.measured_times(recipe, "reference", scheme_to_trace("allreduce", recipe), 100_000, 0.05)
