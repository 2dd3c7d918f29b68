"""Several ranks train as one process does, stop together, and go on from one checkpoint."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import leaves
from deep_bench.distributed.communicators.local import LocalCommunicator, run_local
from deep_bench.distributed.training.checkpoint import RANKS
from deep_bench.distributed.training.messages import RanksDiffer
from deep_bench.distributed.training.together import DRIFT, ON_THEIR_OWN, Together
from deep_bench.errors import CommunicationFailed, InvalidArgument
from deep_bench.events import Moment
from deep_bench.training import record
from deep_bench.training.callbacks import JsonLines, TargetReached, TimeLimit
from deep_bench.training.callbacks.stopping import Signals
from deep_bench.training.checkpoint import Checkpoints, latest_checkpoint, read_checkpoint
from deep_bench.training.record import RANK_COLUMNS
from deep_bench.training.runs import recorded
from deep_bench.training.sets import ArrayDataset
from tests.distributed.training.ranks import EVERY_FRAMEWORK, alone, together
from tests.training.small import data, network

STEPS = 13  # two epochs of 5 batches, and 3


def _of(trainer: Any) -> dict[str, np.ndarray]:
    return {"/".join(path): leaf for path, leaf in leaves(trainer.taker.snapshot()).items()}


def test_a_loss_that_is_lost_on_one_rank_is_lost_on_all() -> None:
    found = data()
    x = np.array(found[np.arange(len(found))]["x"])
    x[7] = np.nan
    spoilt = ArrayDataset({"x": x, "label": found[np.arange(len(found))]["label"]})
    histories = run_local(2, lambda comm: together(comm, dataset=spoilt).run(steps=STEPS))
    assert histories[0].lost_from is not None
    assert {h.lost_from for h in histories} == {histories[0].lost_from}
    assert {h.stopped_because for h in histories} == {"steps done"}


@pytest.mark.parametrize("on", EVERY_FRAMEWORK)
def test_ranks_together_do_what_one_process_does(on: str) -> None:
    """With dropout, parts of unequal length, an optimizer with a state, and the same figures everywhere."""
    if on != "reference":
        pytest.importorskip(on)
    ranks, steps = (2, 3) if on == "tensorflow" else (3, STEPS)  # which traces the network for each rank
    one = alone(on)
    history = one.run(steps=steps)

    def on_rank(comm: Any) -> Any:
        trainer = together(comm, on=on)
        return trainer.run(steps=steps), _of(trainer)

    together_found = run_local(ranks, on_rank)
    for found, parameters in together_found:
        np.testing.assert_allclose(found.losses, history.losses, rtol=2e-5)
        assert (found.samples, found.stopped_because) == (history.samples, history.stopped_because)
        assert [e.figures for e in found.evaluations] == [e.figures for e in together_found[0][0].evaluations]
        for name, array in _of(one).items():
            np.testing.assert_allclose(parameters[name], array, rtol=2e-4, atol=2e-6)
            assert np.array_equal(parameters[name], together_found[0][1][name])


@pytest.mark.parametrize(
    "scheme", ["decentralised:topology=ring", "averaging:every=2", "gossip", "asynchronous", "stale-synchronous:bound=1"]
)
def test_other_schemes_train_and_are_evaluated(scheme: str) -> None:
    def on_rank(comm: Any) -> Any:
        trainer = together(comm, scheme, rule="sgd", normalized=True)
        return trainer.run(epochs=6), trainer.ranks.facts(), trainer

    (history, facts, trainer), *others = run_local(3, on_rank)
    assert history.evaluations[-1].figures["accuracy"] > 0.6
    assert np.isfinite(history.losses).all()
    assert len(facts.ranks) == 3
    assert facts.ranks[1].samples.sum() == sum(others[0][0].sizes) or trainer.ranks.lockstep
    dedicated = trainer.taker.optimizer.dedicated
    assert history.samples == history.evaluations[-1].samples == 300  # of all ranks together
    assert (ON_THEIR_OWN in facts.remarks) == (scheme == "gossip")
    assert (DRIFT in history.evaluations[-1].figures) != dedicated
    report = recorded(trainer).report()
    assert "drift, a rank's largest distance" in report or dedicated
    assert ("on their own" in report) != trainer.ranks.lockstep
    assert "batch normalization takes the mean and variance of each rank's own part" in report


class _Stop:
    """Asks to stop after a step, on one rank."""

    moments = (Moment.AFTER_STEP,)

    def __init__(self, step: int) -> None:
        self.step = step

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool:
        return index == self.step


@pytest.mark.parametrize("scheme", ["allreduce", "gossip", "asynchronous"])
def test_one_rank_stops_all(scheme: str) -> None:
    def on_rank(comm: Any) -> Any:
        return together(comm, scheme, callbacks=[_Stop(6)] if comm.rank == 2 else []).run(epochs=50)

    found = run_local(3, on_rank)
    assert {history.stopped_because for history in found} == {"_Stop asked to (rank 2)"}
    if scheme == "allreduce":
        assert [history.steps for history in found] == [7, 7, 7]
    else:
        assert max(history.steps for history in found) < 50


def test_ends_that_ranks_come_to_apart_are_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    def target(comm: Any) -> Any:
        return together(comm, callbacks=[TargetReached("accuracy", 0.5)]).run(epochs=40)

    first, second = run_local(2, target)
    assert first.stopped_because == second.stopped_because
    assert first.stopped_because.startswith("accuracy")
    assert first.steps == second.steps

    def limited(comm: Any) -> Any:
        return together(comm, callbacks=[TimeLimit(1e-6 if comm.rank else 1e6)]).run(epochs=40)

    assert [history.steps for history in run_local(2, limited)] == [1, 1]

    def interrupted(comm: Any) -> Any:
        def tell(moment: Moment, index: int, time_ns: int, data: Any) -> None:
            if moment is Moment.AFTER_STEP and index == 3 and comm.rank == 1:
                taken[-1]()  # what a signal does; handlers belong to the main thread

        return together(comm, callbacks=[tell]).run(epochs=40)

    taken: list[Any] = []
    plain = Signals.__init__
    monkeypatch.setattr(Signals, "__init__", lambda self, told: (taken.append(told), plain(self, told))[1])
    found = run_local(2, interrupted)
    assert [(h.steps, h.stopped_because) for h in found] == [(4, "interrupted")] * 2


def test_a_signal_ends_a_run_after_its_step() -> None:
    def send(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_STEP and index == 2:
            os.kill(os.getpid(), signal.SIGTERM)

    history = together(LocalCommunicator(), callbacks=[send]).run(epochs=9)
    assert (history.steps, history.stopped_because) == (3, "interrupted")


@pytest.mark.long
@pytest.mark.parametrize(
    ("on", "scheme"),
    [
        ("torch", "allreduce"),
        ("reference", "sharded-state"),
        ("reference", "decentralised:topology=ring"),
        ("reference", "sparse"),
        ("reference", "parameter-server"),
    ],
)
def test_a_run_goes_on_from_its_checkpoint_bit_for_bit(on: str, scheme: str, tmp_path: Path) -> None:
    """After the seventh step, within an epoch, with normalizations, whose statistics each rank has for itself."""
    if on != "reference":
        pytest.importorskip(on)

    def whole(comm: Any) -> Any:
        trainer = together(comm, scheme, on, normalized=True, callbacks=[Checkpoints(tmp_path / "other", epochs=1)])
        return trainer.run(steps=STEPS), _of(trainer)

    def begun(comm: Any) -> Any:
        callbacks = [Checkpoints(tmp_path / "kept", steps=4), *([_Stop(6)] if comm.rank else [])]
        return together(comm, scheme, on, normalized=True, callbacks=callbacks).run(steps=STEPS).steps

    def resumed(comm: Any) -> Any:
        trainer = together(comm, scheme, on, normalized=True)
        latest = latest_checkpoint(tmp_path / "kept")
        assert latest is not None
        trainer.restore(read_checkpoint(latest) if comm.rank == 0 else None)
        before = trainer.history.steps
        return before, trainer.run(steps=STEPS), _of(trainer), trainer.ranks.facts()

    expected = run_local(2, whole)
    assert run_local(2, begun) == [7, 7]
    assert [path.name for path in sorted((tmp_path / "kept").iterdir())] == ["step_0000000005.h5", "step_0000000007.h5"]
    for (history, parts), (before, found, same, facts) in zip(expected, run_local(2, resumed), strict=True):
        assert before == 7
        assert list(found.losses) == list(history.losses)
        assert [e.figures for e in found.evaluations] == [e.figures for e in history.evaluations]
        assert parts.keys() == same.keys()
        assert all(np.array_equal(parts[name], same[name]) for name in parts)
        if facts is not None:
            assert [len(rank.computing) for rank in facts.ranks] == [STEPS, STEPS]


@pytest.mark.parametrize(("then", "now"), [(3, 2), (1, 3)])
@pytest.mark.parametrize("scheme", ["allreduce", "sharded-state"])
def test_another_number_of_ranks_goes_on(scheme: str, then: int, now: int, tmp_path: Path) -> None:
    def begun(comm: Any) -> Any:
        return together(comm, scheme, callbacks=[Checkpoints(tmp_path)]).run(steps=7).losses

    def resumed(comm: Any) -> Any:
        trainer = together(comm, scheme)
        latest = latest_checkpoint(tmp_path)
        assert latest is not None
        trainer.restore(read_checkpoint(latest) if comm.rank == 0 else None)
        return trainer.run(steps=STEPS), trainer.ranks.facts()

    run_local(then, begun)
    history, facts = run_local(now, resumed)[0]
    np.testing.assert_allclose(history.losses, alone().run(steps=STEPS).losses, rtol=2e-5)
    assert f"went on in step 7 from a checkpoint of {then} ranks" in facts.remarks


def test_states_that_cannot_be_shared_out_anew_keep_the_number_of_ranks(tmp_path: Path) -> None:
    scheme = db.distributed_optimizers["allreduce"](db.optimizers["sgd"](), LocalCommunicator())
    with pytest.raises(InvalidArgument, match="a checkpoint of 2 ranks, each of which has its own state of AllReduce"):
        scheme.regrouped([{"steps": np.int64(1)}, {"steps": np.int64(2)}])

    def begun(comm: Any) -> Any:
        return together(comm, "decentralised", callbacks=[Checkpoints(tmp_path)]).run(steps=5).steps

    run_local(2, begun)
    latest = latest_checkpoint(tmp_path)
    assert latest is not None
    tree = read_checkpoint(latest)
    assert list(tree[RANKS]) == ["1"]
    rows = [tree["step"]["parameters"]["w1"], tree[RANKS]["1"]["own"]["step"]["parameters"]["w1"]]

    def resumed(comm: Any) -> Any:
        trainer = together(comm, "decentralised")
        trainer.restore(tree if comm.rank == 0 else None)
        return _of(trainer)["parameters/w1"]

    for found in run_local(3, resumed):
        np.testing.assert_allclose(found, np.mean(rows, axis=0), rtol=1e-6)


def _differing() -> Iterator[tuple[str, Any]]:
    yield "network", lambda comm: together(comm, model=network(normalized=bool(comm.rank)))
    yield "optimizer", lambda comm: together(comm, rule="sgd" if comm.rank else "momentum")
    yield "optimizer", lambda comm: together(comm, "allreduce:bucket=8" if comm.rank else "allreduce")
    yield "framework", lambda comm: together(comm, on="torch" if comm.rank else "reference")
    yield "train", lambda comm: together(comm, dataset=data(50 + comm.rank)).run(steps=1)
    yield "checkpoints", lambda comm: together(comm, callbacks=[Checkpoints("kept")] * comm.rank).run(steps=1)


@pytest.mark.parametrize(("what", "made"), [*_differing()], ids=[str(n) for n in range(6)])
def test_ranks_that_differ_end_with_a_message_that_says_what(what: str, made: Any) -> None:
    pytest.importorskip("torch")
    with pytest.raises(RanksDiffer, match=f"ranks 0 and 1 differ in their {what}: "):
        run_local(2, made)


def test_other_parameters_are_those_of_rank_0_before_the_first_step() -> None:
    def on_rank(comm: Any) -> Any:
        return _of(together(comm, model=network(seed=comm.rank, normalized=False)))

    for found in run_local(3, on_rank):
        for name, array in network(normalized=False).parameters.items():
            assert np.array_equal(found[f"parameters/{name}"], array)


def test_ranks_that_drift_apart_unpromised_are_noticed() -> None:
    def on_rank(comm: Any) -> None:
        trainer = together(comm)
        if comm.rank == 1:
            trainer.taker.executor.parameters["b1"] = np.full(8, 0.5, np.float32)
        trainer.run(epochs=1)

    with pytest.raises(RanksDiffer, match="those of ranks 1 are not those of rank 0"):
        run_local(2, on_rank)


def test_a_rank_that_fails_ends_all_with_its_reason() -> None:
    def on_rank(comm: Any) -> None:
        def fail(moment: Moment, index: int, time_ns: int, data: Any) -> None:
            if moment is Moment.AFTER_STEP and comm.rank == 1:
                raise InvalidArgument("the disk is full")

        together(comm, callbacks=[fail]).run(epochs=1)

    with pytest.raises(CommunicationFailed, match="rank 1 ended the run: InvalidArgument: the disk is full"):
        run_local(3, on_rank)


def test_rank_0_alone_writes(tmp_path: Path) -> None:
    def on_rank(comm: Any) -> Any:
        return together(comm, callbacks=[JsonLines(tmp_path / f"{comm.rank}.jsonl")]).run(epochs=2)

    history, _ = run_local(2, on_rank)
    assert [path.name for path in tmp_path.iterdir()] == ["0.jsonl"]
    lines = (tmp_path / "0.jsonl").read_text().splitlines()
    assert len(lines) == history.steps + len(history.evaluations)


def test_averaged_statistics_are_equal_and_the_mean() -> None:
    def on_rank(comm: Any, *, averaged: bool) -> Any:
        trainer = together(comm, normalized=True)
        trainer.taker.synchronise_statistics = averaged
        trainer.run(epochs=1)
        return {n: x for n, x in _of(trainer).items() if n.startswith("statistics/")}

    apart = run_local(2, partial(on_rank, averaged=False))
    first, second = run_local(2, partial(on_rank, averaged=True))
    for name in first:
        assert not np.array_equal(apart[0][name], apart[1][name])
        assert np.array_equal(first[name], second[name])
        np.testing.assert_allclose(first[name], (apart[0][name] + apart[1][name]) / 2, rtol=1e-5, atol=1e-7)


def test_messages_and_times_of_each_rank_are_recorded(tmp_path: Path) -> None:
    def on_rank(comm: Any) -> Any:
        trainer = together(comm)
        trainer.run(epochs=1)
        return recorded(trainer) if comm.rank == 0 else trainer.ranks.facts()

    runs, other = run_local(2, on_rank)
    assert other is None
    path = runs.save(tmp_path)
    again = type(runs).load(path).record.runs[0].ranks
    assert [rank.samples.tolist() for rank in again.ranks] == [[5] * 5, [5] * 5]
    by_name = {m.operation: m for m in again.ranks[1].messages}
    gradients = 4 * sum(a.size for a in network(normalized=False).parameters.values())
    # Each step: five whole numbers, and the gradients. What ranks hold, one more message in the end, the losses.
    assert by_name["allreduce"].payload_bytes == 5 * (5 * 8 + gradients) + 16 + 5 * 8 + 5 * 8
    assert by_name["allreduce"].calls == 13
    for rank in again.ranks:
        assert (rank.communicating >= rank.exposed).all()
        assert (rank.updating >= rank.exposed).all()
    report = runs.report()
    assert "a step on each rank: medians" in report
    assert "messages of all ranks" in report


def test_nothing_is_known_of_ranks_of_one_process() -> None:
    trainer = alone()
    trainer.run(steps=2)
    assert trainer.ranks.facts() is None
    assert "rank" not in recorded(trainer).report()
    uncounted = db.distributed_optimizers["allreduce"](db.optimizers["sgd"](), LocalCommunicator())
    with pytest.raises(InvalidArgument, match="a scheme over 'local'"):
        Together(uncounted)


def test_long_arrays_of_ranks_lie_beside_the_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def on_rank(comm: Any) -> Any:
        trainer = together(comm)
        trainer.run(epochs=1)
        return recorded(trainer) if comm.rank == 0 else None

    runs = run_local(2, on_rank)[0]
    monkeypatch.setattr(record, "INLINE_SAMPLES", 10)
    path = runs.save(tmp_path)
    assert '"exposed"' not in path.read_text()
    again = record.load_training(path).runs[0].ranks
    for rank, found in zip(runs.record.runs[0].ranks.ranks, again.ranks, strict=True):
        for name in RANK_COLUMNS:
            assert np.array_equal(getattr(rank, name), getattr(found, name))
