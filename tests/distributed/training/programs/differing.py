"""The command line, where one rank is told other words than the others."""

from __future__ import annotations

import sys
from pathlib import Path

import onnx

import deep_bench as db
from deep_bench.cli import main

WORDS = ["--on", "reference", "--output", sys.argv[1]]
OTHERS = Path(sys.argv[1], "kept")
BARE = Path(sys.argv[1], "bare.onnx")


def bare() -> None:
    """Write a network without parameters, that takes digits."""
    (name,) = (spec.name for spec in db.load("digits-cnn").inputs)
    image = onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["N", 1, 8, 8])
    logits = onnx.helper.make_tensor_value_info("logits", onnx.TensorProto.FLOAT, ["N", 64])
    graph = onnx.helper.make_graph([onnx.helper.make_node("Flatten", [name], ["logits"])], "bare", [image], [logits])
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), BARE)


if __name__ == "__main__":
    other = db.communicators["mpi"]().rank == 1
    status = []
    folder = OTHERS / "reference" / "seed_0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step_0000000009.h5").touch()
    if not other:
        bare()
    db.communicators["mpi"]().barrier()
    for scheme, *words in (
        ["allreduce", "digitz"],
        ["allreduce", "digits", "data.name=digitz"] if other else ["allreduce", "digits"],
        ["allreduce", "digits", f"optimizer.lr=0.{1 + other}"],
        ["allreduce", "digits", "--runs", "2", "--resume", "--checkpoints", "kept"] if other else ["allreduce", "digits"],
        ["alreduce", "digits"],
        ["allreduce:bukket=2", "digits"],
        ["decentralised:topology=rang", "digits"],
        ["allreduce", "digits", "--checkpoints", str(OTHERS)],
        ["allreduce", "digits", "--network", str(BARE)],
        ["allreduce", "digits", "sampler.batch=1"],
    ):
        try:
            main(["train", *words, *WORDS, "--distributed", scheme])
        except SystemExit as end:
            status.append(end.code)
    sys.exit(0 if status == [2] * 10 else 1)
