"""MXNet 1.9.1 (``mxnet@ENVIRONMENT``), whose NumPy is older than deep_bench's: a lean framework (docs/environments.md)."""

from pathlib import Path

from deep_bench.adapters.mxnet.rewrite import rewritten
from deep_bench.environments import Lean

MXNET = Lean(
    name="mxnet",
    program=Path(__file__).with_name("program.py"),
    attribute="MXNet",
    rewrite=rewritten,
    options=("threads",),
    install="mxnet==1.9.1 numpy==1.23.5 'onnx<1.15'",
)
