"""``python -m tests.environments [torch@FOLDER]``: two ONNX Runtimes, MXNet and, if named, another torch; writes the tables.

It builds the environments that it needs, which takes some minutes and the package index.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import deep_bench as db
from deep_bench.environments import Declaration, build
from deep_bench.operators.studies.experiment import study

PAGE = Path(__file__).parents[2] / "docs" / "environments.md"
BLOCK = re.compile(r"(<!-- tables: .*? -->\n).*?(<!-- end of tables -->)", re.DOTALL)
MXNET = Declaration(requirements=("mxnet==1.9.1", "numpy==1.23.5", "onnx<1.15"), python="3.11", deep_bench=False)
_ONE = "--suite transformer/gelu --case"


def main(others: list[str]) -> None:
    """Build, run, and write."""
    build("ort122", Declaration(requirements=("onnxruntime==1.22.1",)), tell=print)
    build("mxnet", MXNET, tell=print)
    on = ["onnxruntime:threads=1", "onnxruntime@ort122:threads=1", "mxnet@mxnet:threads=1"]
    on += ["torch:threads=1", *(f"{name}:threads=1" for name in others)] if others else []
    network = db.run("digits-cnn", on, batch=8, budget=30.0)
    case = next(iter(db.suites["transformer/gelu"]))
    operator = study(on[:2], case, budget=10.0)
    parts = [
        _block(f"deep-bench run digits-cnn --batch 8 --budget 30s {_words(on)}", network.table(width=150)),
        f"One operator in two versions of ONNX Runtime ({case.name}):\n",
        _block(f"deep-bench operators {_ONE} '{case.label}' --budget 10s {_words(on[:2])}", operator.table(width=150)),
    ]
    text = "\n".join(parts)
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(BLOCK.sub(lambda found: f"{found[1]}\n{text}\n{found[2]}", page), encoding="utf-8")


def _block(command: str, table: str) -> str:
    lines = [line.rstrip() for line in table.splitlines()]
    return "\n".join(["```text", f"$ {command}", *lines, "```", ""])


def _words(on: list[str]) -> str:
    return " ".join(f"--on {name}" for name in on)


if __name__ == "__main__":
    main(sys.argv[1:])
