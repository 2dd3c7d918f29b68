"""What recipes make: cells, commands, conditions; and those that ship."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from deep_bench.cli.recipe import command
from deep_bench.errors import InvalidArgument
from deep_bench.recipes import READY, Experiment, load_experiment
from deep_bench.recipes.acceptance import judge_rules, rules_of
from deep_bench.recipes.cell import command_words, prepare_files
from deep_bench.recipes.levels import made_network
from deep_bench.recipes.recipe import select_cells
from deep_bench.recipes.requirements import missing_here, wrong_here
from deep_bench.recipes.run import as_accepted
from deep_bench.records.model import VerdictRecord
from deep_bench.results.result import Direction, Figure, Result
from deep_bench.training.preparation import Preparation
from deep_bench.training.recipes import Recipe
from deep_bench.yaml_text import parsed


def made(level: str, fixed: dict[str, Any], **more: Any) -> Experiment:
    return Experiment({"name": "made", "level": level, "fixed": fixed, **more})


def said(experiment: Experiment, number: int = 0, **files: Path) -> list[str]:
    return command_words(experiment.cells[number], Path("out"), files)


# Cells


def test_adapters_are_compared_within_a_cell_and_all_else_makes_cells() -> None:
    found = made(
        "network", {"network": "digits-cnn"},
        matrix={"on": ["torch", "onnxruntime"], "batch": [1, 8], "seed": [0, 1]},
        exclude=[{"on": "torch", "batch": 8}, {"batch": 1, "seed": 1}],
        include=[{"on": "torch:compile=inductor", "batch": 32}],
    )  # fmt: skip
    assert [(dict(cell.factors), cell.together) for cell in found.cells] == [
        ({"batch": 1, "seed": 0}, ("torch", "onnxruntime")),
        ({"batch": 8, "seed": 0}, ("onnxruntime",)),
        ({"batch": 8, "seed": 1}, ("onnxruntime",)),
        ({"batch": 32, "seed": 0}, ("torch:compile=inductor",)),
        ({"batch": 32, "seed": 1}, ("torch:compile=inductor",)),
    ]
    assert found.cells[0].content["on"] == ["torch", "onnxruntime"]
    assert len({cell.id for cell in found.cells}) == 5


def test_frameworks_that_train_make_cells() -> None:
    found = made("training", {"recipe": "digits"}, matrix={"on": ["torch", "onnxruntime"]})
    assert [cell.name for cell in found.cells] == ["on=torch", "on=onnxruntime"]


def test_a_cell_keeps_its_id() -> None:
    before, after = (load_experiment("small-network", f"matrix.batch={batches}") for batches in ([1, 64], [64, 2]))
    assert before.cells[1].id == after.cells[0].id
    assert before.cells[1].id != load_experiment("small-network", "fixed.seed=1").cells[1].id


def test_cells_are_chosen_by_their_factors() -> None:
    found = made("network", {"network": "digits-cnn"}, matrix={"batch": [1, 8], "seed": [0, 1]})
    chosen = select_cells(found.cells, ["batch=8", "seed=0", "seed=1"], found.factors)
    assert [cell.name for cell in chosen] == ["batch=8, seed=0", "batch=8, seed=1"]
    for wrong in ("batch=3", "batchs=1", "batch"):
        with pytest.raises(InvalidArgument):
            select_cells(found.cells, [wrong], found.factors)


def test_what_is_set_from_outside_is_a_field_a_factor_or_a_path_into_one() -> None:
    found = load_experiment(
        "scaling-strong", "fixed.sampler.batch=8", "matrix.ranks=[2]", "matrix.optimizer.lr=[0.1, 0.2]", "limits.cell=5min"
    )
    cell = found.cells[-1]
    assert (cell.changes["sampler.batch"], cell.changes["optimizer.lr"], cell.factors["ranks"]) == (8, 0.2, 2)
    assert found.fields.limits.cell == 300
    nested = load_experiment("resnet50-inference", "fixed.network.width=2").fields.fixed
    assert nested["network"] == {"name": "resnet", "depth": 50, "width": 2}
    for wrong in ("fixed.batch", "=3", "limits.cell.more=3"):
        with pytest.raises(InvalidArgument):
            load_experiment("small-network", wrong)


# Commands


def test_the_command_of_a_network() -> None:
    fixed = {"network": "digits-cnn", "on": ["torch", "reference"], "threads": 2, "sizes": {"n": 3}, "twin": False}
    found = said(made("network", fixed, matrix={"sizes.m": [5]}))
    assert found[0] == "run"
    assert found[-2:] == ["--", "digits-cnn"]
    assert {"--on=torch:threads=2", "--on=reference", "--size=n=3", "--size=m=5", "--no-twin", "--budget=20"} <= set(found)


def test_the_command_of_operators() -> None:
    suite = "deepbench/gemm/device"
    label = "1x700x2048"
    fixed = {"suite": suite, "on": "torch", "backward": True, "budget": "500ms", "limit": "1min"}
    found = command_words(made("operators", fixed).cells[0], Path("out"), {}, ["peak memory", "forward"])
    expected = {f"--suite={suite}", "--on=torch", "--backward", "--budget=0.5", "--limit=60", "--metric=peak memory"}
    assert expected <= set(found)
    with pytest.raises(InvalidArgument, match=label):
        made("operators", {**fixed, "cases": [label]})


def test_cases_that_are_written_out_become_a_suite(tmp_path: Path) -> None:
    cases = [{"operator": "Gemm", "inputs": [[2, 3], [3, 4]], "attributes": {"alpha": 0.5}, "count": 7}]
    cell = made("operators", {"cases": cases, "on": "torch"}).cells[0]
    files = prepare_files(cell, tmp_path, Path())
    (case,) = tomllib.loads(files["suite"].read_text())["cases"]
    assert (case["operator"], case["attributes"], case["count"]) == ("Gemm", {"alpha": 0.5}, 7)
    assert f"--suite={files['suite']}" in command_words(cell, tmp_path, files)


def test_a_network_with_fresh_parameters_is_made_once(tmp_path: Path) -> None:
    found = made("network", {"network": {"name": "mlp", "hidden": [4]}, "on": "torch"}, matrix={"batch": [1, 2]})
    first, second = (prepare_files(cell, tmp_path / cell.id, Path())["network"] for cell in found.cells)
    assert first == second
    assert first.is_file()
    with pytest.raises(InvalidArgument, match="hiden"):
        made_network({"name": "mlp", "hiden": [4]})


def test_the_command_of_a_training() -> None:
    fixed = {"recipe": "digits", "on": "torch", "target": {}, "optimizer.lr": 0.5, "ranks": 2, "checkpoints": True}
    found = said(made("training", fixed, matrix={"optimizer": ["sgd"]}))
    assert found[0] == "train"
    assert {"--no-target", "--distributed=allreduce", "--checkpoints=out/checkpoints", "--resume"} <= set(found)
    assert found[-5:] == ["--", "digits", "target={}", 'optimizer="sgd"', "optimizer.lr=0.5"]


def test_a_training_without_another_recipe_is_written_down(tmp_path: Path) -> None:
    cell = made("training", {"recipe": "digits", "on": "torch"}).cells[0]
    content = cell.fields.training_content(cell, Path())
    fixed = {name: value for name, value in content.items() if name not in ("name", "frameworks", "epochs")}
    cell = made("training", {**fixed, "on": "torch"}, matrix={"epochs": [3]}).cells[0]
    files = prepare_files(cell, tmp_path, Path())
    assert said(made("training", {**fixed, "on": "torch"}), recipe=files["recipe"])[-2:] == ["--", str(files["recipe"])]
    assert Recipe(cell.fields.training_content(cell, Path())).fields.epochs == 3


def test_the_command_of_a_prediction() -> None:
    fixed = {"recipe": "digits", "latency": "1us", "bandwidth": "12GB/s", "predicted": "4,8", "algorithms.allreduce": "ring"}
    found = said(made("scaling", fixed))
    assert {"--ranks=4,8", "--latency=1us", "--algorithm=allreduce=ring", "--network=fat-tree"} <= set(found)


def test_words_of_strangers_are_no_options() -> None:
    found = said(made("network", {"network": "--output=/", "on": "torch", "inputs": "--batch=3"}))
    assert found[found.index("--") :] == ["--", "--output=/"]
    assert "--input=--batch=3" in found


# Conditions


def result(name: str, value: float, *, unit: str = "s", direction: Direction = "lower", verdict: str = "right") -> Result:
    figure = Figure(name, unit, direction, ((np.array([value] * 9),),))
    about = VerdictRecord(verdict=verdict, reason="", significant_bits=22.5)
    return Result("network", Path("a.json"), datetime(2026, 1, 1, tzinfo=UTC), {"system": "torch"}, {name: figure}, about)


@pytest.mark.parametrize(
    ("condition", "found", "met", "told"),
    [
        ({"forward": "<= 5 ms"}, result("forward", 0.005), True, "5.000 ms"),
        ({"forward": "< 5 ms"}, result("forward", 0.005), False, "5.000 ms"),
        ({"forward": "<= 4.9ms"}, result("forward", 0.005), False, "5.000 ms"),
        ({"forward": "<= 5 MB"}, result("forward", 0.005), False, "the unit 'MB'"),
        ({"forward": "<= 5"}, result("forward", 0.005), False, "the unit '(none)'"),
        ({"forward": ">= 5 ms"}, result("forward", 0.005), False, "lower is better: write '<='"),
        ({"forwrad": "<= 5 ms"}, result("forward", 0.005), False, "did you mean 'forward'?"),
        ({"accuracy": ">= 95 %"}, result("accuracy", 0.96, unit="", direction="higher"), True, "0.9600"),
        ({"throughput": "> 3 samples/s"}, result("throughput", 3, unit="samples/s", direction="higher"), False, "3.000"),
        ({"peak memory": "<= 2 GiB"}, result("peak memory", 2**31, unit="B"), True, ""),
        ({"verdict": "right"}, result("forward", 1, verdict="wrong"), False, "wrong"),
        (
            {"verdict": ["right", "reduced precision"]},
            result("f", 1, verdict="reduced precision"),
            True,
            "reduced precision",
        ),
        ({"significant bits": ">= 20"}, result("forward", 1), True, "22.5"),
        ({"significant bits": "> 22.5"}, result("forward", 1), False, "22.5"),
        ([{"where": {"system": "torch"}, "forward": "<= 2 s"}], result("forward", 1), True, ""),
        ([{"where": {"system": "jax"}, "forward": "<= 2 s"}], result("forward", 1), False, "no result with system=jax"),
    ],
)
def test_conditions_know_units_and_directions(condition: Any, found: Result, met: bool, told: str) -> None:
    (one,) = judge_rules(rules_of(condition, {}), [found])
    assert one.met == met
    assert told in one.found


def timed(*seconds: float) -> Result:
    """A result with so many blocks of one sample each."""
    figure = Figure("forward", "s", "lower", (tuple(np.array([second]) for second in seconds),))
    return Result("network", Path("a"), datetime(2026, 1, 1, tzinfo=UTC), {}, {"forward": figure})


@pytest.mark.parametrize(
    ("found", "limit", "accepted"),
    [
        (timed(*np.linspace(0.9, 1.1, 11)), "<= 2 s", "yes"),
        (timed(*np.linspace(0.9, 1.1, 11)), "<= 1 s", "yes, the limit is within its interval"),
        (timed(1.0, 1.1), "<= 2 s", "yes, without an interval"),
        (timed(1.0, 1.1), "<= 1 s", "no: 1 of 2"),
    ],
)
def test_what_is_uncertain_about_a_condition_is_told(found: Result, limit: str, accepted: str) -> None:
    judgements = judge_rules(rules_of({"forward": limit, "verdict": "unchecked"}, {}), [found])
    assert as_accepted(judgements) == accepted
    remark = accepted.partition(", ")[2]
    assert remark in judgements[0].found
    assert judgements[0].as_json()["remark"] == (remark or judgements[0].remark)


def test_a_condition_on_a_factor_is_about_its_cells_only() -> None:
    accept = [{"where": {"batch": 64, "system": "torch"}, "forward": "<= 1 s"}]
    found = made("network", {"network": "digits-cnn", "on": ["torch"]}, matrix={"batch": [1, 64]}, accept=accept)
    (rule,) = found.rules
    assert [rule.about(cell) for cell in found.cells] == [False, True]
    one = result("forward", 0.5)
    labelled = replace(one, labels={**one.labels, "batch": "of another kind", "factor.batch": "64"})
    assert [judgement.met for judgement in judge_rules([rule], [labelled])] == [True]


def test_a_condition_without_results_is_missed() -> None:
    (one,) = judge_rules(rules_of({"forward": "<= 1 s"}, {}), [])
    assert not one.met


# Those that ship


@pytest.mark.parametrize("name", READY)
def test_a_recipe_that_ships_is_sound(name: str) -> None:
    recipe = load_experiment(name)
    assert recipe.fields.title
    assert recipe.fields.notes
    again = Experiment(parsed(recipe.to_yaml(), name), name)
    assert [cell.id for cell in again.cells] == [cell.id for cell in recipe.cells]


def test_all_of_deepbench() -> None:
    from deep_bench import suites

    assert load_experiment("deepbench").factors["suite"] == [name for name in suites if name.startswith("deepbench/")]


def test_what_is_missing_is_told_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEEP_BENCH_DATA", str(tmp_path))
    found = "\n".join(missing_here(load_experiment("cifar10-resnet44")))
    assert f"{tmp_path / 'cifar10' / 'cifar-10-binary.tar.gz'} is missing, which a run would fetch" in found
    assert not list(tmp_path.rglob("*.gz"))
    found = "\n".join(missing_here(load_experiment("imagenet-resnet50", f"fixed.data.path={tmp_path}")))
    assert f"{tmp_path} has nothing for the part 'train'" in found
    ended = CliRunner().invoke(command, ["check", "scaling-predicted", "--here", "--set", "fixed.machine=none.json"])
    assert ended.exit_code == 1
    assert "missing: the file none.json" in ended.output
    assert missing_here(load_experiment("small-network", "fixed.network=models/none", "fixed.on=reference")) == [
        "the file models/none"
    ]


def test_what_does_not_fit_is_told_before_anything_runs(tmp_path: Path) -> None:
    Path(tmp_path, "machine.json").write_text("{}")
    Path(tmp_path, "cases.toml").write_text("cases = 3")
    Path(tmp_path, "damaged.onnx").write_text("no network")
    recipes = {
        "level: network\nfixed: {network: digits-cnn, on: [reference, 'onnxruntime:threads=-3', 'reference:nonsense=1']}": [
            "onnxruntime:threads=-3: option threads=-3; expected: a whole number from 1",
            "reference:nonsense=1: reference has no option 'nonsense'",
        ],
        "level: network\nfixed: {network: digits-cnn, on: reference}\nmatrix: {sizes: [{}, {n: 3}]}": [
            "the cell sizes={\"n\": 3}: digits-cnn has no open dimension 'n'",
        ],
        "level: network\nfixed: {network: damaged.onnx, on: reference}": ["damaged.onnx (10 bytes) is not an ONNX file"],
        "level: network\nfixed: {network: digits-cnn, on: 'onnxruntime@./none'}": ["there is no environment ./none"],
        "level: operators\nfixed: {suite: cases.toml, on: reference}": ["cases.toml"],
        "level: scaling\nfixed: {recipe: digits, on: reference, machine: machine.json}": ["machine.json"],
    }
    for number, (text, expected) in enumerate(recipes.items()):
        file = tmp_path / f"recipe{number}.yaml"
        file.write_text(text)
        found = wrong_here(load_experiment(file, allow_code="@" in text))
        assert len(found) == len(expected), found
        assert all(words in told for words, told in zip(expected, found, strict=True)), found


@pytest.mark.parametrize(
    ("recipe", "change", "told"),
    [
        (
            "small-scaling",
            "fixed.latency=banana",
            "small-scaling: the cell distributed=allreduce: Invalid value for '--latency'",
        ),
        ("small-scaling", "fixed.predicted=4..x", "write 4..65536"),
        ("small-training", "fixed.recipe=none", "the training recipe 'none'"),
    ],
)
def test_what_the_command_of_a_cell_does_not_take_is_found_before_it_runs(recipe: str, change: str, told: str) -> None:
    ended = CliRunner().invoke(command, ["check", recipe, "--set", change])
    assert isinstance(ended.exception, InvalidArgument)
    assert told in str(ended.exception)


def test_images_of_imagenet_become_what_the_network_takes(tmp_path: Path) -> None:
    from deep_bench.training.workload import workload

    draws = np.random.default_rng(0)
    for part in ("train", "val"):
        for kind in ("cat", "dog"):
            (tmp_path / part / kind).mkdir(parents=True)
            for number in range(2):
                pixels = draws.integers(256, size=(300 + 20 * number, 310, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / part / kind / f"{number}.png")
    recipe = load_experiment(
        "imagenet-resnet50", f"fixed.data.path={tmp_path}", "fixed.sampler.batch=2", "fixed.network.width=1"
    )
    cell = recipe.cells[0]
    made = workload(Recipe(cell.fields.training_content(cell, Path())), 0)
    _, batch = next(iter(made.loader().epoch(0)))
    assert batch["image"].shape == (2, 3, 224, 224)
    assert batch["image"].dtype == np.float32
    assert made.held_out[np.arange(4)]["image"].shape == (4, 3, 224, 224)


def test_images_of_cifar_become_what_the_network_takes() -> None:
    fields = load_experiment("cifar10-resnet44").fields.fixed
    steps = Preparation([*fields["augmentation"], *fields["preparation"]])
    images = np.random.default_rng(0).integers(256, size=(5, 3, 32, 32), dtype=np.uint8)
    found = steps({"image": images, "label": np.zeros(5, np.int64)}, np.arange(5))
    assert found["image"].shape == (5, 3, 32, 32)
    assert abs(float(found["image"].mean())) < 1
