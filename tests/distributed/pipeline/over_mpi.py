"""A pipeline over MPI, whose activations are too long to be sent before somebody waits for them: a program for two ranks."""

import numpy as np

import deep_bench as db
from deep_bench.check.subject import in_float64
from deep_bench.distributed import Pipeline, guarded
from deep_bench.reference.distributed import pipeline as reference
from deep_bench.training.networks import mlp
from deep_bench.training.steps import SeparateStep

MICRO_BATCHES = 5


def main(comm):
    rng = np.random.default_rng(3)
    network = mlp(hidden=(4000, 8)).with_loss("SoftmaxCrossEntropyLoss", output="logits", target="label")
    network, batch = in_float64(
        network, {"image": rng.standard_normal((23, 1, 8, 8)).astype(np.float32), "label": rng.integers(0, 10, 23)}
    )
    rule, adapter = db.optimizers["momentum"](lr=0.05), db.frameworks["reference"]()
    one = SeparateStep(adapter.prepare(network, mode="train"), rule)
    losses = [float(one(batch)["loss"]) for _ in range(2)]
    for schedule in ("gpipe", "1f1b"):
        pipeline = Pipeline(adapter, network, comm, MICRO_BATCHES, schedule, ["layer2.MatMul_1"])
        step = SeparateStep(pipeline, rule)
        np.testing.assert_allclose([float(step(batch)["loss"]) for _ in range(2)], losses, rtol=1e-12)
        done = [(task.kind, task.micro_batch) for task in pipeline.done]
        assert done == reference.order(schedule, comm.size, MICRO_BATCHES)[comm.rank]
        for name, x in pipeline.gathered().items():
            np.testing.assert_allclose(x, one.parameters[name], rtol=1e-11, atol=1e-14)
        bubble = pipeline.bubble()
        assert 0 < bubble.measured < 1
        kept = max(task.kept for task in pipeline.done)
        print(f"{schedule}, rank {comm.rank}: {kept} kept, bubble {bubble.measured:.2f} ({bubble.formula:.2f})", flush=True)


if __name__ == "__main__":
    ranks = db.communicators["mpi"]()
    with guarded(ranks):
        main(ranks)
