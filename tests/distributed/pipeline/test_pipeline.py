"""Pipelines beside one process: gradients, training, what passes between stages, and what is refused."""

from functools import cache

import numpy as np
import pytest
from onnx import parser

import deep_bench as db
from deep_bench.check.subject import in_float64
from deep_bench.distributed import Pipeline, run_local
from deep_bench.distributed.pipeline import checksum, most_kept
from deep_bench.distributed.training.messages import RanksDiffer
from deep_bench.distributed.training.step import with_arithmetic
from deep_bench.errors import InvalidArgument, InvalidInput, Unsupported
from deep_bench.graph import Network
from deep_bench.reference.distributed import pipeline as reference
from deep_bench.training import training_form
from deep_bench.training.networks import mlp, transformer
from deep_bench.training.steps import SeparateStep
from deep_bench.variant import Variant
from tests.distributed.pipeline.problems import assert_right, host, native, on_ranks, problem


@cache
def framework(label):
    pytest.importorskip(Variant.parse(label).framework) if not label.startswith("reference") else None
    return Variant.parse(label).create()


@pytest.mark.parametrize(
    ("on", "name", "stages", "micro_batches", "schedule"),
    [
        ("reference", "cnn", 3, 3, "1f1b"),
        ("reference", "mlp", 1, 4, "gpipe"),
        ("reference", "transformer", 4, 2, "gpipe"),
        ("torch:threads=1", "cnn", 4, 4, "gpipe"),
        ("torch:threads=1", "mlp", 2, 7, "1f1b"),
        ("torch:threads=1", "transformer", 3, 3, "1f1b"),
        ("tensorflow:eager=true", "cnn", 2, 2, "1f1b"),
        ("tensorflow:eager=true", "mlp", 4, 3, "gpipe"),
        ("tensorflow:eager=true", "transformer", 2, 2, "1f1b"),
        ("onnxruntime:threads=1", "cnn", 2, 4, "gpipe"),
        ("onnxruntime:threads=1", "mlp", 3, 4, "1f1b"),
        ("onnxruntime:threads=1", "transformer", 3, 2, "gpipe"),
    ],
)
def test_gradients_are_those_of_one_process(on, name, stages, micro_batches, schedule):
    ranks = on_ranks(framework(on), name, stages, micro_batches=micro_batches, schedule=schedule)
    assert_right(name, {parameter: x for rank in ranks for parameter, x in rank.gradients.items()})
    orders = reference.order(schedule, stages, micro_batches)
    for number, rank in enumerate(ranks):
        done = rank.pipeline.done
        assert [(task.kind, task.micro_batch) for task in done] == orders[number]
        assert max(task.kept for task in done) == most_kept(schedule, number, stages, micro_batches)
        assert np.array_equal(rank.outputs["logits"], ranks[0].outputs["logits"])
        assert rank.outputs["loss"] == ranks[0].outputs["loss"]
    assert len(ranks[0].outputs["logits"]) == len(problem(name).batch["label"])


def test_any_interleaving_of_ranks_gives_the_same_bits():
    found = [on_ranks(framework("reference"), "mlp", 3, schedule="1f1b", order=order) for order in (None, 1, 2)]
    for others in found[1:]:
        for one, other in zip(found[0], others, strict=True):
            assert all(np.array_equal(x, other.gradients[name]) for name, x in one.gradients.items())


def test_values_that_a_stage_does_not_need_pass_through_it():
    cuts = ["first", "second", "residual"]  # ``pooled`` is for stages 1 and 3
    ranks = on_ranks(framework("reference"), "cnn", 4, cuts=cuts, schedule="1f1b", micro_batches=2)
    assert ["pooled" in rank.pipeline.stage.taken for rank in ranks] == [False, True, False, True]
    assert ranks[2].pipeline.stage.arriving == ("pooled", "first_active")
    assert ranks[2].pipeline.stage.made == ("second_normed",)
    assert_right("cnn", {parameter: x for rank in ranks for parameter, x in rank.gradients.items()})


def test_frameworks_mixed_train_as_one_process_does():
    network, batch = problem("mlp")
    network, batch = in_float64(network, batch)
    rule = db.optimizers["momentum"](lr=0.1)
    one = SeparateStep(framework("reference").prepare(network, mode="train"), rule)
    losses = [float(one(batch)["loss"]) for _ in range(6)]
    labels = ("torch:threads=1", "onnxruntime:threads=1", "reference")

    def on_rank(comm):
        adapter = with_arithmetic(framework(labels[comm.rank]))
        pipeline = Pipeline(adapter, network, comm, micro_batches=3, schedule="1f1b")
        step = SeparateStep(pipeline, rule)
        fed = native(adapter, batch)
        found = [float(adapter.to_numpy(step(fed)["loss"])) for _ in range(5)]
        after = host(adapter, pipeline.forward(fed))
        return found, float(after["loss"]), pipeline.gathered(), pipeline.bubble()

    for found, after, parameters, bubble in run_local(3, on_rank):
        np.testing.assert_allclose([*found, after], losses, rtol=1e-12)
        assert parameters.keys() == network.parameters.keys()
        assert 0 <= bubble.measured < 1
        assert bubble.formula == 2 / 5
    before = SeparateStep(framework("reference").prepare(network, mode="train"), rule)
    for _ in range(5):
        before(batch)
    for name, x in before.parameters.items():
        np.testing.assert_allclose(parameters[name], x, rtol=1e-11, atol=1e-14)


def test_an_optimizer_that_works_in_place_changes_both_ways():
    network, batch = in_float64(*problem("mlp"))
    adapter = framework("torch:threads=1")
    fed = native(adapter, batch)
    one = SeparateStep(adapter.prepare(network, mode="train"), db.optimizers["torch.adam"](lr=0.01))
    losses = [float(one(fed)["loss"]) for _ in range(4)]

    def on_rank(comm):
        pipeline = Pipeline(adapter, network, comm, micro_batches=2)
        pipeline.forward(fed)
        step = SeparateStep(pipeline, db.optimizers["torch.adam"](lr=0.01))
        return [float(step(fed)["loss"]) for _ in range(3)] + [float(pipeline.forward(fed)["loss"])]

    for found in run_local(2, on_rank):
        np.testing.assert_allclose(found, losses, rtol=1e-12)


def test_gradients_are_told_once_all_micro_batches_are_in_them():
    network, batch = problem("mlp")

    def on_rank(comm):
        pipeline = Pipeline(framework("reference"), network, comm, micro_batches=4, schedule="1f1b")
        told = []
        needed = {name: x for name, x in batch.items() if name in pipeline.stage.fed or name == "label"}
        wrt = pipeline.stage.parameters[::-1][:2]
        _, gradients = pipeline.gradients(needed, "loss", wrt=wrt, on_ready=lambda *one: told.append(one))
        assert sorted(name for name, _ in told) == sorted(wrt)
        assert tuple(gradients) == wrt
        assert all(gradients[name] is gradient for name, gradient in told)
        return gradients

    whole = {
        name: x for one in on_ranks(framework("reference"), "mlp", 2, schedule="1f1b") for name, x in one.gradients.items()
    }
    for found in run_local(2, on_rank):
        assert all(np.array_equal(x, whole[name]) for name, x in found.items())


def test_draws_that_are_inputs_are_cut_with_the_batch():
    network = mlp(hidden=(16, 8), dropout=0.5).with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    form = training_form(network)
    batch = problem("mlp").batch
    training, fed = in_float64(form.training, {**batch, **form.draw(batch, seed=3, step=0)})
    _, expected = framework("reference").prepare(training, mode="train").gradients(fed, "loss")

    def on_rank(comm):
        return Pipeline(framework("reference"), training, comm, micro_batches=3).gradients(fed, "loss")[1]

    found = {name: x for one in run_local(2, on_rank) for name, x in one.items()}
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        np.testing.assert_allclose(found[name], x, rtol=1e-11, atol=1e-15)


TWO_HEADS = """
<ir_version: 10, opset_import: ["": 21]>
heads (double[n, 2] x) => (double loss, double[n, 3] other)
<double[2, 2] w = {1.0, 2.0, 3.0, 4.0}, double[2, 3] v = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, double[2] s = {2.0, 0.5}>
{ y = MatMul(x, w)
  whole = CastLike(y, x)
  z = Mul(y, s)
  loss = ReduceSum <keepdims = 0>(z)
  other = MatMul(whole, v) }
"""


def named(text):
    return Network.from_proto(parser.parse_model(text))


def test_sums_are_not_weighted_and_what_the_loss_does_not_need_has_no_gradient():
    network = named(TWO_HEADS)
    batch = {"x": np.arange(10.0).reshape(5, 2)}
    outputs, expected = framework("reference").prepare(network, mode="train").gradients(batch, "loss")
    cut = network.nodes[-1].name

    def on_rank(comm):
        return Pipeline(framework("reference"), network, comm, 3, "1f1b", [cut]).gradients(batch, "loss")

    ranks = run_local(2, on_rank)
    found = {name: x for _, one in ranks for name, x in one.items()}
    assert not found["v"].any()
    for name, x in expected.items():
        np.testing.assert_allclose(found[name], x, rtol=1e-14)
    for given, _ in ranks:
        np.testing.assert_allclose(given["loss"], outputs["loss"], rtol=1e-14)
        np.testing.assert_allclose(given["other"], outputs["other"], rtol=1e-14)


def tied():
    network = transformer(vocabulary=11, length=5, layers=1, width=8, heads=2, tied=True)
    return network.with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")


def by_batch():
    return training_form(problem("cnn").network).training


def ignoring():
    return mlp().with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label", ignore_index=3)


def changed(was, becomes):
    return lambda: named(TWO_HEADS.replace(was, becomes))


def dropping():
    return named(
        TWO_HEADS.replace("CastLike(y, x)", "Dropout(y, half, on)").replace(
            "double[2] s", "bool on = {1}, float half = {0.5}, double[2] s"
        )
    )


REFUSED = {
    "stages": (
        lambda: mlp(hidden=()),
        {"loss": None},
        4,
        InvalidArgument,
        r"4 stages of .*\n.*1 to [23], as many as it",
    ),
    "shared": (tied, {}, 2, Unsupported, "parameter 'embedding.weight' of .* is in stages 0, 1"),
    "statistics": (by_batch, {"loss": "loss"}, 1, Unsupported, "normalizes by the batch, and a micro-batch has other"),
    "random": (changed("CastLike(y, x)", "RandomNormalLike(y)"), {}, 2, Unsupported, "draws at random, and would draw anew"),
    "dropout": (dropping, {}, 2, Unsupported, "draws at random, and would draw anew"),
    "loss": (
        changed("loss = ReduceSum <keepdims = 0>(z)", "loss = ReduceMax <keepdims = 0>(z)"),
        {},
        2,
        InvalidArgument,
        "say which",
    ),
    "no samples": (
        changed("z = Mul(y, s)", "z = Mul(s, s)"),
        {},
        2,
        InvalidArgument,
        "the loss 'loss' of heads, which ReduceSum",
    ),
    "constant": (changed("=> (double loss,", "=> (double loss, double[2] s,"), {}, 2, Unsupported, "is not of each sample"),
    "fixed": (lambda: problem("mlp").network.with_sizes({"batch": 8}), {}, 2, InvalidArgument, "open first axis"),
    "no loss": (lambda: mlp(), {}, 2, InvalidArgument, "has no output 'loss'"),
    "ignore": (ignoring, {}, 2, Unsupported, "takes the mean with ignore_index"),
    "pieces": (lambda: problem("mlp").network, {"micro_batches": 0}, 2, InvalidArgument, "micro_batches=0"),
    "cuts": (lambda: problem("mlp").network, {"cuts": ["nowhere"]}, 2, InvalidArgument, "no node 'nowhere'"),
    "costs": (lambda: problem("mlp").network, {"costs": {"head.MatMul": -1}}, 2, InvalidArgument, "costs of -1 for node"),
    "nan": (lambda: problem("mlp").network, {"costs": {"x": float("nan")}}, 2, InvalidArgument, "costs of nan for node 'x'"),
    "no parameters": (
        lambda: problem("mlp").network,
        {"cuts": ["loss.SoftmaxCrossEntropyLoss"]},
        2,
        InvalidArgument,
        "stage 1 of 2 of .* has no parameters to train: loss.Soft",
    ),
    "many cuts": (lambda: problem("mlp").network, {"cuts": []}, 2, InvalidArgument, "cuts \\[\\] for 2 stages"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_a_pipeline_is_refused_by_name(what):
    make, options, stages, error, words = REFUSED[what]
    network = make()
    with pytest.raises(error, match=words):
        run_local(stages, lambda comm: Pipeline(framework("reference"), network, comm, **options))


def test_what_cannot_be_asked_of_one_is_refused():
    network, batch = problem("mlp")

    def on_rank(comm):
        pipeline = Pipeline(framework("reference"), network, comm, micro_batches=3)
        few = {name: x[:2] for name, x in batch.items()}
        theirs = list(network.parameters)[-1 if comm.rank == 0 else 0]
        for arguments, error, words in (
            ((few, "loss"), InvalidInput, "a batch of 2 samples in 3 micro-batches"),
            (({**batch, "label": batch["label"][:5]}, "loss"), InvalidInput, "7 in 'image', 5 in 'label'"),
            (({"x": batch["image"]}, "loss"), InvalidInput, "unknown input 'x'"),
            (({}, "loss"), InvalidInput, "is missing"),
            ((batch, "logits"), InvalidArgument, "loss 'logits' of a pipeline"),
        ):
            with pytest.raises(error, match=words):
                pipeline.gradients(*arguments)
        with pytest.raises(InvalidArgument, match=f"rank {1 - comm.rank} has {theirs!r}"):
            pipeline.gradients(batch, "loss", wrt=[theirs])
        with pytest.raises(Unsupported, match="with respect to its input 'image'"):
            pipeline.gradients(batch, "loss", wrt=["image"])
        with pytest.raises(InvalidArgument, match="not called yet"):
            pipeline.bubble()

    run_local(2, on_rank)


def test_a_network_without_a_loss_only_goes_forward():
    network, images = mlp(hidden=(16, 8)), {"image": problem("mlp").batch["image"]}
    expected = framework("reference").prepare(network).forward(images)["logits"]

    def on_rank(comm):
        pipeline = Pipeline(framework("reference"), network, comm, micro_batches=2, loss=None)
        with pytest.raises(InvalidArgument, match="it was made with loss=None"):
            pipeline.gradients(images, "loss")
        return pipeline.bind(images)()["logits"]

    for found in run_local(3, on_rank):
        np.testing.assert_array_max_ulp(found, expected, 64)


def test_ranks_must_agree():
    network = problem("mlp").network
    with pytest.raises(RanksDiffer, match="ranks 0 and 1 differ in their micro-batches: 2 and 3"):
        run_local(2, lambda comm: Pipeline(framework("reference"), network, comm, micro_batches=2 + comm.rank))


def test_ranks_with_different_batches_are_refused_on_all():
    network, batch = problem("mlp")
    other = {"image": batch["image"], "label": batch["label"][::-1].copy()}
    sharded = [{name: x[rank::2][:3] for name, x in batch.items()} for rank in range(2)]

    def on_rank(comm):
        pipeline = Pipeline(framework("reference"), network, comm, micro_batches=2)
        for given, words in (
            (sharded[comm.rank], "ranks 0 and 1 of a pipeline were given different batches: other values of 'image'"),
            ((batch, other)[comm.rank], "other values of 'label'"),
            (({"image": batch["image"]}, {"label": batch["label"][:5]})[comm.rank], "different batches: 7 and 5 samples"),
        ):
            for call in (pipeline.forward, lambda one: pipeline.gradients(one, "loss")):
                with pytest.raises(RanksDiffer, match=words) as caught:
                    call(given)
                assert "a sampler that is not sharded" in str(caught.value)
        return sorted(pipeline.forward({name: batch[name] for name in ("image", "label")[comm.rank :]}))

    assert run_local(2, on_rank) == [["logits", "loss"]] * 2


def test_large_inputs_are_compared_in_every_sample_and_in_what_any_framework_holds():
    one = np.random.default_rng(0).standard_normal((64, 3, 60, 60))
    spec = db.TensorSpec("x", ("n", 3, 60, 60), np.dtype(np.float64))
    for sample in (0, 63):
        other = one.copy()
        other[sample] += 1e-3
        assert checksum(other, spec) != checksum(one, spec)
    assert checksum(one.astype(np.float32), spec) == checksum(one, spec)
    words = db.TensorSpec("w", ("n",), np.dtype(object))
    assert checksum(np.array(["a", "b"], object), words) == checksum(np.array(["a", "b"], object), words)


def test_numpy_arrays_for_another_framework_are_refused_by_name():
    network, batch = problem("mlp")
    with pytest.raises(InvalidInput, match=r"input 'image' is a ndarray(.|\n)*pipeline.device.from_numpy"):
        run_local(2, lambda comm: Pipeline(framework("torch:threads=1"), network, comm).forward(batch))


FAULTS = {
    "all micro-batches count alike": ("pipeline.Batches.weights", lambda self, sizes: [1 / len(sizes)] * len(sizes)),
    "only the last micro-batch counts": ("pipeline.Sums.add", lambda self, name, x: self._native.__setitem__(name, x)),
    "what passes through has no gradient": (
        "pipeline._total",
        lambda name, own, passed, forms: own[name] if name in own else 0 * passed[name],
    ),
    "batches are cut by the wrong sizes": ("stages.StageExecutor.piece", lambda self, x, begin, end: x[: end - begin]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_wrong_on_purpose_is_caught(fault, monkeypatch):
    where, wrong = FAULTS[fault]
    monkeypatch.setattr(f"deep_bench.distributed.{where}", wrong)
    name, cuts = ("cnn", ["first", "second", "residual"]) if "passes" in fault else ("mlp", ["layer2.MatMul_1"])
    ranks = on_ranks(framework("reference"), name, len(cuts) + 1, cuts=cuts, micro_batches=4)
    with pytest.raises(AssertionError):
        assert_right(name, {parameter: x for rank in ranks for parameter, x in rank.gradients.items()})
