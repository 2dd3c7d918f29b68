"""Recipes: what is wrong with one is named, what is left out is stated, what ships can be made."""

import json

import numpy as np
import pytest
import yaml

from deep_bench.errors import FrameworkMissing, InvalidArgument, UnknownName
from deep_bench.training.recipes import RECIPES, Recipe, load_recipe
from deep_bench.training.recipes.recipe import CHAIN, SCHEDULES, SCORES
from deep_bench.training.recipes.splits import SPLITS
from deep_bench.yaml_text import parsed

LEAST = {
    "network": "mlp",
    "loss": {"name": "SoftmaxCrossEntropyLoss", "output": "logits", "target": "label"},
    "data": "digits",
    "scores": ["accuracy"],
}


def with_(**fields):
    return {**LEAST, **fields}


@pytest.mark.parametrize("name", RECIPES)
def test_each_recipe_that_ships_is_complete_and_can_be_read_again(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.fields.target
    assert recipe.fields.domain
    again = Recipe(parsed(recipe.to_yaml(), name))
    assert again.resolved() == recipe.resolved()
    assert Recipe(recipe.resolved()).sha256 == recipe.sha256
    json.dumps(recipe.resolved())


def test_each_of_the_four_domains_has_a_recipe():
    assert {load_recipe(name).fields.domain for name in RECIPES} == {"vision", "language", "recommendation", "science"}


def test_all_that_is_left_out_is_stated():
    resolved = Recipe(LEAST, "least").resolved()
    assert resolved["name"] == "least"
    assert resolved["network"] == {
        "name": "mlp",
        "sample": [1, 8, 8],
        "hidden": [128, 64],
        "classes": 10,
        "data": "image",
        "output": "logits",
        "activation": "Relu",
        "dropout": 0.0,
    }
    assert resolved["optimizer"]["beta2"] == 0.999
    assert resolved["sampler"] == {"name": "shuffled", "batch": 64, "drop_last": False}
    assert resolved["data"]["split"] == {"name": "parts", "train": "train", "held_out": "test"}
    assert resolved["scores"] == [
        {"name": "accuracy", "output": "logits", "target": "label", "k": 1, "axis": 1, "ignore": None}
    ]
    assert (resolved["epochs"], resolved["seeds"], resolved["target"]) == (10, [0], {})
    assert resolved["initialization"]["scheme"] == "he-normal"


def test_the_checksum_is_that_of_what_is_resolved():
    stated = with_(optimizer={"name": "adam", "beta1": 0.9}, epochs=10)
    assert Recipe(stated, "a").sha256 == Recipe(LEAST, "a").sha256
    assert Recipe(with_(epochs=11), "a").sha256 != Recipe(LEAST, "a").sha256


REFUSED = {
    "an unknown field": (with_(epoch=3), "unknown field 'epoch'", "did you mean 'epochs'"),
    "an unknown field inside": (
        with_(evaluation={"evry": 100}),
        "unknown field 'evaluation.evry'",
        "did you mean 'every'",
    ),
    "another type": (with_(epochs="many"), "'epochs' is 'many'", "valid integer"),
    "a number for a list": (with_(seeds=3), "'seeds' is 3", "valid list"),
    "a fraction": (with_(epochs=1.5), "'epochs' is 1.5", "integer"),
    "none at all": (with_(epochs=0), "'epochs' is 0", "greater than 0"),
    "NaN": (with_(target={"accuracy": float("nan")}), "'target.accuracy' is nan", "finite"),
    "two targets": (with_(target={"accuracy": 0.9, "loss": 1.0}), "'target'", "at most 1"),
    "a missing field": ({k: v for k, v in LEAST.items() if k != "network"}, "'network' is missing", "a value"),
    "a misspelt field": (
        {"netwrk": "mlp", **{k: v for k, v in LEAST.items() if k != "network"}},
        "'network' is missing",
        "is 'netwrk' it, misspelt?",
    ),
    "a missing field inside": (with_(loss={"name": "MeanSquaredError"}), "'loss.output' is missing", "a value"),
    "no scores": (with_(scores=[]), "'scores' is []", "at least 1"),
    "a wrong score": (with_(scores=[{"k": 3}]), "'scores.0.name' is missing", "a value"),
    "another domain": (with_(domain="sport"), "'domain' is 'sport'", "'vision'"),
    "no mapping": (["mlp"], "recipe 'r'", "dictionary"),
    "a setting": (with_(network={"name": "mlp", "hiden": [3]}), "network mlp has no setting 'hiden'", "'hidden'?"),
    "a setting of a score": (with_(scores=[{"name": "accuracy", "kk": 3}]), "score accuracy has no setting 'kk'", "'k'"),
    "a setting of a schedule": (
        with_(optimizer={"lr": 0.1, "schedule": {"name": "cosine", "lastt": 0}}),
        "optimizer.schedule cosine has no setting 'lastt'",
        "did you mean 'last'",
    ),
    "a setting of a sampler": (with_(sampler={"batch": 3, "drop": True}), "shuffled has no setting 'drop'", "drop_last"),
    "a setting of an optimizer": (
        with_(optimizer={"name": "adam", "beta": 0.9}),
        "optimizer adam has no setting 'beta'",
        "did you mean 'beta",
    ),
    "a setting that is missing": (
        with_(chain=[{"name": "clip-norm"}]),
        "chain.0 clip-norm lacks the setting 'limit'",
        "a value for 'limit'",
    ),
    "a setting of a set": (with_(data={"name": "hamlet", "contxt": 3}), "data hamlet has no setting 'contxt'", "'context'?"),
    "a part beside parts": (with_(data={"name": "digits", "part": "all"}), "data digits with part='all'", "other fields"),
    "a schedule without a rate": (with_(optimizer={"schedule": "cosine"}), "an optimizer without lr", "optimizer.lr"),
    "an end of what has none": (
        with_(optimizer={"lr": 0.1, "schedule": {"name": "step", "every": 3, "steps": 9}}),
        "steps=9 of the schedule step",
        "it has no end",
    ),
    "a stream without end": (with_(sampler="infinite"), "infinite lacks the setting 'batches'", "a value for 'batches'"),
    "a sampler of something else": (with_(sampler="collections:Counter"), "the sampler collections:Counter", "of a batch"),
    "the size of a batch elsewhere": (with_(sampler={"batch_size": 3}), "batch_size=3", "that is sampler.batch"),
    "a seed": (with_(network={"name": "mlp", "seed": 3}), "network mlp with seed=3", "other fields"),
    "a target without its score": (with_(target={"acuracy": 0.9}), "a target for 'acuracy'", "did you mean 'accuracy'"),
    "a score twice": (with_(scores=["accuracy", "accuracy"]), "called alike", "each score once"),
    "settings of a file": (with_(network={"name": "a.onnx", "hidden": [3]}), "beside the file a.onnx", "none"),
    "a preparation": (with_(preparation=[{"step": "scale", "by": 3}]), "step 1 (scale): by", "divisor"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_wrong_is_named_with_what_is_near(case):
    content, came, advice = REFUSED[case]
    with pytest.raises(InvalidArgument) as error:
        Recipe(content, "r")
    assert came in error.value.came
    assert advice in str(error.value)


UNKNOWN = {
    "network": ("network", "mpl", "mlp"),
    "data": ("data", "digit", "digits"),
    "optimizer": ("optimizer", "adan", "adam"),
    "sampler": ("sampler", "shufled", "shuffled"),
    "score": ("scores", ["acuracy"], "accuracy"),
    "chain": ("chain", ["clip_norm"], "clip-norm"),
    "schedule": ("optimizer", {"lr": 1.0, "schedule": "cosin"}, "cosine"),
    "loss": ("loss", {"name": "BinaryCrossentropy", "output": "y"}, "BinaryCrossEntropy"),
    "split": ("data", {"name": "digits", "split": "part"}, "parts"),
    "scheme": ("initialization", {"scheme": "he_normal"}, "he-normal"),
    "framework": ("frameworks", ["pytorch"], "torch"),
    "step": ("preparation", [{"step": "scal"}], "scale"),
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_an_unknown_name_comes_with_the_nearest(kind):
    field, value, near = UNKNOWN[kind]
    with pytest.raises(UnknownName) as error:
        Recipe(with_(**{field: value}))
    assert f"did you mean {near!r}?" in str(error.value)


def test_fields_are_changed_by_their_path():
    recipe = load_recipe(
        "digits",
        "epochs=3",
        "optimizer.lr=1e-3",
        "network.name=mlp",
        "network.hidden=[32]",
        "scores.1.axis=1",
        "evaluation.every=500",
        "frameworks=[torch, 'onnxruntime:threads=1']",
        "initialization=null",
    )
    assert recipe.fields.epochs == 3
    assert recipe.fields.optimizer.settings["lr"] == 1e-3
    assert recipe.fields.network.settings == {"hidden": [32]}
    assert recipe.fields.evaluation.every == 500
    assert recipe.fields.frameworks == ["torch", "onnxruntime:threads=1"]
    assert recipe.fields.initialization is None
    assert recipe.changed("target={}").fields.target == {}
    assert recipe.fields.target == {"accuracy": 0.97}


@pytest.mark.parametrize(
    ("assignment", "came"),
    [
        ("epochs", "'epochs' to change"),
        ("=3", "'=3' to change"),
        ("epochs=[", "the value of epochs is no YAML"),
        ("optimzer.lr=1", "unknown field 'optimzer'"),
        ("optimizer.lrr=1", "optimizer adam has no setting 'lrr'"),
        ("scores.7.k=1", "the path 'scores.7.k', whose '7' leads nowhere"),
        ("epochs.most=1", "the path 'epochs.most', whose 'most' leads nowhere"),
        ("sampler.batch=64.5", "'sampler.batch' is 64.5"),
    ],
)
def test_a_wrong_change_is_refused(assignment, came):
    with pytest.raises(InvalidArgument) as error:
        load_recipe("digits", assignment)
    assert came in error.value.came


def test_files_are_read(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(LEAST))
    assert load_recipe(path).name == "mine"
    assert load_recipe(str(path), "name=other").name == "other"


@pytest.mark.parametrize(
    ("content", "came"),
    [
        (b"epochs: [", "is no YAML"),
        (b"epochs: 3\nepochs: 4\n", "the key 'epochs' comes twice"),
        (b"\xff\xfe\x00", "cannot be read"),
        (b"", "is empty"),
        (b"!!python/object/apply:os.system ['true']", "is no YAML"),
    ],
)
def test_what_is_no_recipe_is_refused(tmp_path, content, came):
    path = tmp_path / "mine.yaml"
    path.write_bytes(content)
    with pytest.raises(InvalidArgument) as error:
        load_recipe(path)
    assert came in error.value.came


def test_an_unknown_recipe_comes_with_the_nearest(tmp_path):
    with pytest.raises(InvalidArgument, match="did you mean 'digits'"):
        load_recipe("digts")
    with pytest.raises(InvalidArgument, match="cannot be read"):
        load_recipe(tmp_path / "none.yaml")


def test_whatever_can_be_named_says_what_it_takes():
    for table in (CHAIN, SCHEDULES, SCORES, SPLITS):
        assert all(make.__doc__ for make in table.values())


def test_a_framework_that_is_missing_is_told(monkeypatch):
    monkeypatch.setattr("deep_bench.registry.find_spec", lambda name: None if name == "torch" else object())
    assert "torch" in Recipe(LEAST).fields.frameworks  # where it is to run is asked when it is run
    with pytest.raises(FrameworkMissing, match="torch"):
        Recipe(with_(optimizer="torch.adam"))


def test_yaml_numbers_are_those_of_its_newer_version():
    assert parsed("[1e-3, 1.5E+3, -2e2, .5e1, 1_0, e3, 0.1]", "x") == [1e-3, 1500.0, -200.0, 5.0, 10, "e3", 0.1]
    assert np.isnan(parsed(".nan", "x"))
