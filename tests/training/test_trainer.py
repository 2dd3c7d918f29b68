"""The training loop: its steps, moments and ends, and that a resumed run is the same run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import deep_bench as db
from deep_bench.arrays import leaves
from deep_bench.errors import InvalidArgument, InvalidInput, UnknownName, Unsupported
from deep_bench.events import Moment
from deep_bench.training import scores, several
from deep_bench.training.callbacks import EarlyStopping, EvaluateEvery, WorstSamples
from deep_bench.training.checkpoint import Checkpoints, read_checkpoint, write_checkpoint
from deep_bench.training.scores import Evaluation
from deep_bench.training.sets import ArrayDataset
from deep_bench.training.steps import FusedStep
from deep_bench.training.trainer import EPOCHS_DONE, INTERRUPTED, STEPS_DONE, Trainer
from tests.training import small

EVERYWHERE = ("reference", "torch:threads=1", "tensorflow", "onnxruntime:threads=1")


def same(one: Any, other: Any) -> None:
    """Two trees are bitwise equal."""
    here, there = leaves(one), leaves(other)
    assert here.keys() == there.keys()
    for path, array in here.items():
        assert np.asarray(array).tobytes() == np.asarray(there[path]).tobytes(), path


@pytest.mark.parametrize("on", EVERYWHERE)
def test_it_learns(on: str) -> None:
    if on != "reference":
        pytest.importorskip(on.partition(":")[0])
    history = small.trainer(on).run(epochs=8)
    assert history.steps == 32
    assert history.samples == 400
    assert history.stopped_because == EPOCHS_DONE
    assert len(history.losses) == 32
    assert history.figures("accuracy")[-1] > 0.8
    assert history.figures("loss")[-1] < history.figures("loss")[0]


@pytest.mark.parametrize("on", EVERYWHERE[1:])
def test_the_first_steps_are_those_of_the_reference(on: str) -> None:
    pytest.importorskip(on.partition(":")[0])
    # Not Adam: the gradient of a bias before a normalization is rounding alone, and Adam divides it by its own size.
    sgd = db.optimizers["sgd"](lr=0.1)
    reference, other = (small.trainer(name, sgd, evaluated=False) for name in ("reference", on))
    a, b = reference.run(steps=5), other.run(steps=5)
    assert np.allclose(a.losses, b.losses, rtol=1e-5)
    there = other.snapshot()["step"]
    for name, array in reference.snapshot()["step"]["parameters"].items():
        assert np.allclose(array, there["parameters"][name], atol=1e-5), name
    for name, array in reference.snapshot()["step"]["statistics"].items():
        assert np.allclose(array, there["statistics"][name], atol=1e-5), name


def test_a_step_written_by_hand_gives_the_same() -> None:
    torch = pytest.importorskip("torch")
    run = small.trainer("torch:threads=1", db.optimizers["sgd"](lr=0.1), evaluated=False)
    start = {name: np.array(array) for name, array in run.taker.snapshot()["parameters"].items()}
    run.run(steps=1)
    index = next(iter(run.loader.sampler.epoch(0)))
    batch = small.data()[index]
    weights = {name: torch.tensor(array, requires_grad=True) for name, array in start.items()}
    hidden = torch.tensor(batch["x"]) @ weights["w1"] + weights["b1"]
    normal = torch.nn.functional.batch_norm(hidden, None, None, weights["scale"], weights["shift"], training=True)
    draw = np.random.Generator(np.random.Philox(key=[0, 0])).random((len(index), 8), np.float32)
    kept = torch.where(torch.tensor(draw) >= 0.25, normal.relu() / 0.75, 0.0)
    logits = kept @ weights["w2"] + weights["b2"]
    torch.nn.functional.cross_entropy(logits, torch.tensor(batch["label"])).backward()
    for name, w in weights.items():
        expected = start[name] - 0.1 * w.grad.numpy()
        assert np.allclose(run.taker.snapshot()["parameters"][name], expected, atol=1e-6), name


@pytest.mark.parametrize("on", ["reference", "torch:threads=1", "onnxruntime:threads=1"])
@pytest.mark.parametrize("at", [1, 4, 7])
def test_a_resumed_run_is_bitwise_the_same(on: str, at: int, tmp_path: Any) -> None:
    if on != "reference":
        pytest.importorskip(on.partition(":")[0])
    whole = small.trainer(on)
    expected = whole.run(epochs=3)
    first = small.trainer(on)
    first.run(steps=at)
    path = write_checkpoint(tmp_path / "run.h5", first.snapshot())
    first.run(epochs=3)
    second = small.trainer(on)
    second.restore(read_checkpoint(path))
    found = second.run(epochs=3)
    same(whole.snapshot()["step"], second.snapshot()["step"])
    same(whole.snapshot()["step"], first.snapshot()["step"])
    assert found.losses == expected.losses
    assert [e.figures for e in found.evaluations] == [e.figures for e in expected.evaluations]


def test_times_go_on_after_a_restart() -> None:
    first = small.trainer(evaluated=False)
    first.run(steps=3)
    second = small.trainer(evaluated=False)
    second.restore(first.snapshot())
    second.run(steps=6)
    stamps = np.array(second.history.stamps)
    assert np.all(np.diff(stamps) >= 0)
    assert len(stamps) == 6 * 5


def test_moments_come_in_their_order() -> None:
    seen: list[tuple[str, int]] = []

    def listen(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        assert time_ns > 0
        seen.append((moment.value, index))
        if moment is Moment.AFTER_GRADIENTS:
            assert set(data.gradients) == set(data.trainer.taker.parameters)
        if moment is Moment.AFTER_STEP:
            assert np.isfinite(data.loss)

    small.trainer(callbacks=[listen], every=0).run(epochs=1)
    steps = [(name, n) for n in range(4) for name in ("before step", "after gradients", "after step")]
    assert seen == [
        ("before run", 0),
        ("before epoch", 0),
        *steps,
        ("after evaluation", 4),
        ("after epoch", 0),
        ("after run", 4),
    ]


class Two:
    """Listens to steps only, and stops after two."""

    moments = (Moment.AFTER_STEP,)

    def __call__(self, moment: Moment, index: int, time_ns: int, data: Any) -> bool:
        assert moment is Moment.AFTER_STEP
        return index == 1


def test_a_callback_stops_it() -> None:
    history = small.trainer(callbacks=[Two()]).run(epochs=9)
    assert history.steps == 2
    assert history.stopped_because == "Two asked to"


def test_ctrl_c_keeps_what_is_there() -> None:
    def interrupt(moment: Moment, index: int, time_ns: int, data: Any) -> None:
        if moment is Moment.AFTER_STEP and index == 2:
            raise KeyboardInterrupt

    history = small.trainer(callbacks=[interrupt]).run(epochs=2)
    assert history.stopped_because == INTERRUPTED
    assert history.steps == len(history.losses) == 3


def test_evaluations_between() -> None:
    history = small.trainer(every=3).run(epochs=2)
    assert [e.step for e in history.evaluations] == [3, 6]
    assert [e.samples for e in history.evaluations] == [48, 50 + 32]


def test_steps_and_epochs_count_from_the_beginning() -> None:
    run = small.trainer(evaluated=False)
    assert run.run(steps=3).stopped_because == STEPS_DONE
    assert run.run(steps=3).steps == 3
    assert run.run(epochs=1).steps == 4
    assert run.epoch == 1


def test_the_same_seed_gives_the_same_and_another_does_not() -> None:
    one, two, three = (small.trainer(evaluated=False, seed=seed).run(steps=4).losses for seed in (5, 5, 6))
    assert one == two
    assert one != three


def test_one_graph_and_gradients_apart_agree() -> None:
    apart, fused = (small.trainer(fused=fused, evaluated=False) for fused in (False, True))
    assert isinstance(fused.taker, FusedStep)
    assert np.allclose(apart.run(steps=6).losses, fused.run(steps=6).losses, rtol=1e-5)


def test_the_trained_network_can_be_saved(tmp_path: Any) -> None:
    run = small.trainer()
    history = run.run(epochs=2)
    network = run.trained()
    points = small.data(20, seed=4)[np.arange(20)]
    outputs = db.frameworks["reference"]().prepare(db.load(network.save(tmp_path / "trained.onnx")))(points)
    assert np.isclose(outputs["loss"], history.figures("loss")[-1], rtol=1e-5)


def test_what_cannot_be_trained() -> None:
    network, points = small.network(), small.data()
    sampler = db.samplers["sequential"](points, batch_size=16)
    sgd = db.optimizers["sgd"](lr=0.1)
    executor = db.frameworks["reference"]().prepare(network, mode="train")
    with pytest.raises(InvalidArgument, match="optimizer=None"):
        Trainer(executor, None, points, sampler)
    with pytest.raises(InvalidArgument, match="no data"):
        Trainer(executor, sgd)
    with pytest.raises(InvalidArgument, match="a str to train"):
        Trainer("torch", sgd, points, sampler)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="without an end"):
        Trainer(executor, sgd, points, sampler).run()
    with pytest.raises(InvalidArgument, match="held_out"):
        Trainer.on(db.frameworks["reference"](), network, sgd, dataset=points, sampler=sampler, scores=[len])
    with pytest.raises(InvalidArgument, match="a int as a callback"):
        Trainer(executor, sgd, points, sampler, callbacks=[3])  # type: ignore[list-item]
    other = ArrayDataset({"y": np.zeros((4, 2), np.float32)})
    with pytest.raises(InvalidInput, match="samples without 'x'"):
        Trainer(executor, sgd, other, db.samplers["sequential"](other, batch_size=2)).run(steps=1)


@pytest.mark.parametrize("wrong", [float("nan"), 2.5, 2.0, True, "2", -1])
def test_numbers_that_are_no_whole_ones_are_refused(wrong: Any, tmp_path: Any) -> None:
    run = small.trainer()
    for limits in ({"epochs": wrong}, {"steps": wrong}, {"epochs": 1, "steps": wrong}):
        with pytest.raises(InvalidArgument, match="an integer of at least 0"):
            run.run(**limits)
    assert run.history.steps == 0
    for refused in (
        lambda: small.trainer(every=wrong),
        lambda: small.trainer(evaluation_batch=wrong),
        lambda: Checkpoints(tmp_path, steps=wrong),
        lambda: Checkpoints(tmp_path, epochs=wrong),
        lambda: Checkpoints(tmp_path, keep=wrong),
        lambda: EvaluateEvery(wrong),
        lambda: EarlyStopping("accuracy", wrong),
        lambda: WorstSamples(tmp_path / "worst.h5", wrong),
        lambda: several(lambda seed, callbacks: run, [1], epochs=wrong),
    ):
        with pytest.raises(InvalidArgument):
            refused()
    with pytest.raises(InvalidArgument, match="nan seconds"):
        Checkpoints(tmp_path, seconds=float("nan"))


READING: dict[str, Any] = {
    name: getattr(scores, name)
    for name in scores.__all__
    if name not in ("Direction", "MeanOutput", "Reads", "SampleLosses", "Score", "cross_entropies", "squared_errors")
} | {
    "cross-entropies": lambda output, array: scores.SampleLosses(scores.cross_entropies(output, array)),
    "squared errors": lambda output, array: scores.SampleLosses(scores.squared_errors(output, array)),
}


@pytest.mark.parametrize("name", READING)
def test_a_score_of_names_that_are_not_there_is_refused_at_once(name: str) -> None:
    executor, points = db.frameworks["reference"]().prepare(small.network(), mode="train"), small.data(8)

    def made(output: str, array: str) -> Evaluation[Any]:
        return Evaluation(executor, points, [lambda: READING[name](output, array)])

    for output, array, near in (("logit", "label", "logits"), ("logits", "lable", "label")):
        with pytest.raises(UnknownName, match=f"did you mean '{near}'"):
            made(output, array)
    assert len(made("logits", "label").scores) == 1


def test_a_loss_to_score_that_is_not_there_is_refused_at_once() -> None:
    with pytest.raises(UnknownName, match="did you mean 'loss'"):
        small.trainer(scores=[lambda: scores.MeanOutput("los")])


def test_arrays_without_arithmetic_are_refused() -> None:
    pytest.importorskip("onnxruntime")
    points = small.data()
    executor = db.frameworks["onnxruntime"]().prepare(small.network(dropout=False), mode="train")
    with pytest.raises(Unsupported):
        Trainer(executor, db.optimizers["sgd"](lr=0.1), points, db.samplers["sequential"](points, batch_size=16))


def test_a_snapshot_of_another_run_is_refused() -> None:
    snapshot = small.trainer(evaluated=False).snapshot()
    with pytest.raises(InvalidArgument, match="seed"):
        small.trainer(evaluated=False, seed=1).restore(snapshot)
    with pytest.raises(InvalidArgument, match="optimizer"):
        small.trainer(optimizer=db.optimizers["sgd"](lr=0.1), evaluated=False).restore(snapshot)
    with pytest.raises(InvalidArgument, match=r"optimizer.*lr=0\.03"):
        small.trainer(optimizer=db.optimizers["adam"](lr=0.5), evaluated=False).restore(snapshot)
    with pytest.raises(InvalidArgument, match="without"):
        small.trainer(evaluated=False).restore({"a": 1})
    other = small.trainer(optimizer=db.optimizers["adam"](lr=0.5), evaluated=False)
    other.restore(snapshot, changed=True)
    assert other.run(steps=1).steps == 1


def test_a_rule_made_of_functions_is_the_same_rule_in_another_process() -> None:
    one, other = (small.trainer(optimizer=db.optimizers["sgd"](lr=lambda steps, xp: 0.1), evaluated=False) for _ in range(2))
    other.restore(one.snapshot())


def test_a_batch_without_samples_is_refused() -> None:
    points = small.data()

    class Empty:
        def __len__(self) -> int:
            return 1

        def epoch(self, number: int) -> Any:
            return iter([np.zeros(0, np.int64)])

    executor = db.frameworks["reference"]().prepare(small.network(dropout=False, normalized=False), mode="train")
    with pytest.raises(InvalidArgument, match="without samples"):
        Trainer(executor, db.optimizers["sgd"](lr=0.1), points, Empty()).run(epochs=1)


def test_an_optimizer_that_forgets_a_parameter_is_refused() -> None:
    from deep_bench.reference.training.sgd import SGD

    class Forgetful(SGD):
        def update(self, *arguments: Any, **options: Any) -> Any:
            new, state = super().update(*arguments, **options)
            new.popitem()
            return new, state

    with pytest.raises(InvalidArgument, match="Forgetful returned the parameters"):
        small.trainer(optimizer=Forgetful(lr=0.1), evaluated=False).run(steps=1)


def test_a_failing_step_says_where() -> None:
    points = ArrayDataset({"x": np.zeros((4, small.FEATURES), np.float32), "label": np.array([0, 1, 99, 2])})
    executor = db.frameworks["reference"]().prepare(small.network(dropout=False), mode="train")
    run = Trainer(executor, db.optimizers["sgd"](lr=0.1), points, db.samplers["sequential"](points, batch_size=2))
    with pytest.raises(InvalidInput, match="sample 2: 99 in 'label'") as caught:
        run.run(epochs=1)
    assert any("step 1" in note for note in caught.value.__notes__)
    assert run.history.steps == len(run.history.losses) == 1


@pytest.mark.parametrize("name", ["torch.adam", "torch.sgd", "torch.lbfgs"])
def test_a_native_optimizer_is_resumed_bitwise(name: str, tmp_path: Any) -> None:
    pytest.importorskip("torch")
    settings = {"torch.sgd": {"momentum": 0.9, "dampening": 0.1}, "torch.lbfgs": {"max_iter": 2}}.get(name, {})

    def made() -> Trainer[Any]:
        return small.trainer("torch:threads=1", db.optimizers[name](lr=0.05, **settings), evaluated=False)

    whole, first, second = made(), made(), made()
    whole.run(steps=7)
    first.run(steps=3)
    second.restore(read_checkpoint(write_checkpoint(tmp_path / "a.h5", first.snapshot())))
    second.run(steps=7)
    same(whole.snapshot()["step"], second.snapshot()["step"])
    assert whole.history.losses == second.history.losses
