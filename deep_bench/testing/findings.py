"""The page that lists the faults of frameworks: ``python -m deep_bench.testing.findings > docs/framework-findings.md``."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module

from deep_bench.fault import KnownFault, nowhere

_SOURCES = {
    "onnxruntime": ("ONNX Runtime", "deep_bench.adapters.onnxruntime.faults"),
    "tensorflow": ("TensorFlow", "deep_bench.adapters.tensorflow.faults"),
    "torch": ("torch", "deep_bench.adapters.torch.faults"),
    "onnx": ("onnx", "deep_bench.testing.onnx_faults"),
}
_INTRODUCTION = """\
# Findings in frameworks

Faults of the frameworks themselves, found by comparing them with the standard's text, its cases and each other. This page is
written by `python -m deep_bench.testing.findings` from the faults that each adapter states.

Each finding has a script that shows it without deep_bench: it prints what the standard demands and what came, and exits with
1 (or dies, where the process crashes) as long as the fault is there. A test runs them all, and fails when one has gone, so
that the list is of today.

*At run time*: `deep-bench run` names the nodes of a network that may meet the fault, by their attributes, constants and
known shapes. *Avoided*: the adapter works around it, so that no network meets it. *A fact*: the adapter states it among its
facts, since every node may meet it. Cases are those of the ONNX standard that come out wrong or fail for it;
`deep-bench conformance` counts them as known failures, and reports one that passes.
"""


def findings() -> Mapping[str, Sequence[KnownFault]]:
    """Framework to its known faults.

    Raises:
        ImportError: A framework is not installed.
    """
    return {name: import_module(module).FAULTS for name, (_, module) in _SOURCES.items()}


def page() -> str:
    """The page as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRODUCTION
    for name, faults in findings().items():
        yield f"## {_SOURCES[name][0]}\n"
        for fault in faults:
            yield from _entry(name, fault)


def _entry(framework: str, fault: KnownFault) -> Iterator[str]:
    script = fault.script(framework).removeprefix("docs/")
    shown = "Avoided" if fault.avoided else "A fact" if fault.applies is nowhere else "At run time"
    yield f"### {fault.name}\n"
    yield f"{', '.join(fault.operators)}: **{fault.severity}**. {shown}. [`{script}`]({script})\n"
    yield f"{fault.reason}\n"
    if fault.cases:
        yield f"Cases: {', '.join(f'`{case}`' for case in fault.cases)}\n"


if __name__ == "__main__":
    sys.stdout.write(page())
