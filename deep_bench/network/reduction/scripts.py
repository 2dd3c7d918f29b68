"""The scripts that come with a reduced network: a few lines each, which do without deep_bench."""

from __future__ import annotations

from collections.abc import Mapping

_LEVELS = {"off": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}
_DIFFERENCES = """
for name, right in expected.items():
    wide = [array.astype(np.float64) if array.dtype.kind in "fiub" else array for array in (actual[name], right)]
    print(f"output {name}: {actual[name].dtype}{list(actual[name].shape)}, expected {right.dtype}{list(right.shape)}")
    print("got:     ", actual[name].ravel()[:6])
    print("expected:", right.ravel()[:6])
    if right.dtype.kind in "fiub" and actual[name].shape == right.shape and right.size:
        print("largest difference:", np.max(np.abs(wide[0] - wide[1])), "of values up to", np.max(np.abs(wide[1])))
"""


def _head(description: str, graph: str, extra: str = "") -> str:
    text = "\n".join(f"#     {line}" for line in graph.splitlines())
    return f"# {description[0].upper()}{description[1:]}.\n#\n# model.onnx, fed with inputs.npz:\n#\n{text}\n#\n{extra}"


def onnxruntime(
    *,
    what: str,
    graph: str,
    options: Mapping[str, str],
    timed: bool,
    compared: bool,
) -> str:
    """Run the network in ONNX Runtime, and compare with what is expected or take the time."""
    settings = ["options = ort.SessionOptions()"]
    if "optimize" in options:
        settings.append(f"options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_{_LEVELS[options['optimize']]}")
    if "threads" in options:
        settings.append(f"options.intra_op_num_threads = {int(options['threads'])}")
    provider = "CUDAExecutionProvider" if options.get("device", "cpu") != "cpu" else "CPUExecutionProvider"
    lines = [
        "from pathlib import Path",
        *(["from time import perf_counter"] if timed else []),
        "",
        "import numpy as np",
        "import onnxruntime as ort",
        "",
        "here = Path(__file__).parent",
        'inputs = dict(np.load(here / "inputs.npz"))',
        *settings,
        f'session = ort.InferenceSession(here / "model.onnx", options, providers=["{provider}"])',
        "actual = dict(zip([output.name for output in session.get_outputs()], session.run(None, inputs)))",
    ]
    tail = "\n"
    if timed:
        tail = (
            "\ntimes = []\nfor _ in range(100):\n    start = perf_counter()\n    session.run(None, inputs)\n"
            '    times.append(perf_counter() - start)\nprint("median time of a call:", np.median(times), "s")\n'
        )
    elif compared:
        lines.append('expected = dict(np.load(here / "expected.npz"))  # in float64, rounded once')
        tail = _DIFFERENCES
    return _head(what, graph) + "\n".join(lines) + tail


def compared(*, what: str, system: str, graph: str, code: str) -> str:
    """Compare what a framework gave with what is expected."""
    note = f"# actual.npz is what {system} gave for this graph, expected.npz what its float64 evaluation gives.\n"
    if code:
        note += f"# The graph in {system}:\n#\n" + "\n".join(f"#     {line}" for line in code.splitlines()) + "\n#\n"
    return (
        _head(what, graph, note)
        + "from pathlib import Path\n\nimport numpy as np\n\nhere = Path(__file__).parent\n"
        + 'actual = dict(np.load(here / "actual.npz"))\nexpected = dict(np.load(here / "expected.npz"))\n'
        + _DIFFERENCES.lstrip("\n")
    )


def stated(*, what: str, system: str, graph: str, failure: str) -> str:
    """Show the network, for something that only the framework itself can show."""
    comment = "\n".join(f"# {line}" for line in failure.splitlines())
    note = f"# To see it, compute this in {system}." + (f" It says:\n#\n{comment}\n#\n" if comment else "\n")
    return (
        _head(what, graph, note)
        + "from pathlib import Path\n\nimport numpy as np\nimport onnx\n\nhere = Path(__file__).parent\n"
        + 'print(onnx.printer.to_text(onnx.load(here / "model.onnx").graph))\n'
        + 'for name, array in np.load(here / "inputs.npz").items():\n    print(f"{name} = {array!r}")\n'
    )


def gradients(*, what: str, system: str, graph: str) -> str:
    """Compare gradients that a framework gave with those that are expected."""
    note = (
        "# The loss is the sum of weight * output over the elements of the floating-point outputs.\n"
        "# actual.npz holds its gradients with respect to inputs and weights as "
        f"{system} differentiates,\n# expected.npz those of a float64 evaluation; "
        "inputs.npz has the weights of the loss too.\n"
    )
    return (
        _head(what, graph, note)
        + "from pathlib import Path\n\nimport numpy as np\n\nhere = Path(__file__).parent\n"
        + 'actual = dict(np.load(here / "actual.npz"))\nexpected = dict(np.load(here / "expected.npz"))\n'
        + _DIFFERENCES.lstrip("\n")
    )
