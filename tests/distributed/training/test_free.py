"""Ranks that take steps each on their own: whose figures are told, and when a checkpoint is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from deep_bench.cli.train import command
from deep_bench.distributed.communicators.local import run_local
from deep_bench.errors import InvalidArgument
from deep_bench.events import Moment
from deep_bench.training.callbacks import EvaluateEvery
from deep_bench.training.checkpoint import Checkpoints, latest_checkpoint, read_checkpoint
from tests.distributed.training.ranks import together


class _Stop:
    """Asks to stop after a step."""

    moments = (Moment.AFTER_STEP,)

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool:
        return index == 6


@pytest.mark.parametrize("order", [None, 1, 2, 3])
def test_samples_are_those_of_all_ranks(order: int | None, tmp_path: Path) -> None:
    """However ranks take their turns, whoever is first, and also where a run goes on from a checkpoint."""

    def on_rank(comm: Any) -> Any:
        every = EvaluateEvery(samples=60)
        trainer = together(comm, "gossip", callbacks=[every, Checkpoints(tmp_path), *([_Stop()] if comm.rank == 1 else [])])
        trainer.run(epochs=6)
        return trainer.history, sum(trainer.ranks.observed.as_tree()["samples"]), trainer.ranks.facts()

    def resumed(comm: Any) -> Any:
        trainer = together(comm, "gossip", callbacks=[EvaluateEvery(samples=60)])
        latest = latest_checkpoint(tmp_path)
        assert latest is not None
        trainer.restore(read_checkpoint(latest) if comm.rank == 0 else None)
        return trainer.run(epochs=6).samples

    found = run_local(3, on_rank, order=order)
    history, _, facts = found[0]
    done = sum(own for _, own, _ in found)
    assert sum(rank.samples.sum() for rank in facts.ranks) == done
    assert history.samples == history.evaluations[-1].samples == done < 300
    told = [one.samples for one in history.evaluations]
    assert told == sorted(told)
    assert all(60 <= later - earlier <= 60 + 2 * 10 for earlier, later in zip([0, *told], told[:-1], strict=False))
    assert [path.name for path in tmp_path.iterdir()] == [f"step_{history.steps:010d}.h5"]
    with pytest.raises(InvalidArgument, match="a checkpoint amid an epoch, of 3 ranks"):
        run_local(2, resumed)
    assert run_local(3, resumed, order=order)[0] == 300  # six epochs of 50 samples


def test_no_checkpoint_is_written_amid_steps_that_ranks_take_on_their_own(tmp_path: Path) -> None:
    for often in ({"steps": 3}, {"seconds": 1.0}):

        def on_rank(comm: Any, often: Any = often) -> Any:
            return together(comm, "asynchronous", callbacks=[Checkpoints(tmp_path / str(*often), **often)])

        with pytest.raises(InvalidArgument, match="checkpoints amid a run whose ranks take steps each on their own"):
            run_local(3, on_rank)
        assert run_local(1, on_rank)[0].run(steps=1).steps == 1
    words = ["digits", "--distributed", "stale-synchronous:bound=2", "--checkpoints", str(tmp_path / "kept")]
    found = CliRunner().invoke(command, [*words, "--checkpoint-every", "3", "--output", str(tmp_path)])
    assert (found.exit_code, "--checkpoint-every with stale-synchronous" in found.stderr) == (2, True)
    assert "at the end only" in " ".join(CliRunner().invoke(command, ["--help"]).stdout.split())
