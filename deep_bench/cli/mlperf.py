"""``deep-bench mlperf``: systems under test for the LoadGen, logs of training, and the folder of a submission."""

from __future__ import annotations

from deep_bench.cli.group import Subcommands

command = Subcommands(
    "mlperf",
    {
        "inference": (
            "deep_bench.cli.mlperf_inference:inference",
            "Run a network under MLPerf's LoadGen: is the run valid, were outputs right, how fast was it?",
        ),
        "submission": (
            "deep_bench.cli.mlperf_inference:submission",
            "Lay out runs as the folder of an open-division submission, and check it.",
        ),
        "train": (
            "deep_bench.cli.mlperf_training:train",
            "Train a recipe several times, with MLPerf's log of each run.",
        ),
        "check": (
            "deep_bench.cli.mlperf_training:check",
            "Check logs of training by MLPerf's own checker and by deep_bench's.",
        ),
        "score": ("deep_bench.cli.mlperf_training:score", "The score of runs by their logs."),
        "rcp": (
            "deep_bench.cli.mlperf_training:rcp",
            "Do runs need less training to their target than a reference?",
        ),
        "reference": (
            "deep_bench.cli.mlperf_training:reference",
            "Train a recipe with several batch sizes, and keep after how many epochs it converges.",
        ),
        "system": (
            "deep_bench.cli.mlperf_training:system",
            "Describe this machine as MLPerf has it, and tell what is unknown.",
        ),
        "tags": ("deep_bench.cli.mlperf_training:tags", "Write the log of a run in the tags of MLPerf v0.5."),
    },
    "Run MLPerf's own tools on any framework: results are unverified unless MLCommons has reviewed them.",
)
