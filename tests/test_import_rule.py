"""Which part of deep_bench may import which, and that importing it is cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "deep_bench"

ORDER = (
    ("tensor", "errors", "registry", "deprecated", "events", "data", "arrays", "yaml_text", "facts"),
    ("graph",),
    ("fault",),
    ("framework", "variant"),
    ("measure", "workers", "check", "records", "study"),
    ("environments",),
    ("operators",),
    ("network",),
    ("training",),
    ("distributed",),
    ("results",),
    ("mlperf",),
    ("recipes",),
    ("cli", "__main__"),
)
"""Each part imports from its own group and those before it."""

RANK = {part: rank for rank, group in enumerate(ORDER) for part in group}
PLUGGED_IN = ("adapters", "reference", "testing")
"""May import any layer; no layer imports them. The command line is no layer: it may run the public suites."""

HOME = {
    "torch": "torch",
    "triton": "torch",
    "tensorflow": "tensorflow",
    "keras": "tensorflow",
    "onnxruntime": "onnxruntime",
    "mpi4py": "mpi",
    "jax": "jax",
    "mxnet": "mxnet",
}
"""Framework (import name) to the one folder or file of ``adapters`` that may import it."""

FILES = sorted(
    file.relative_to(PACKAGE)
    for folder in (PACKAGE, PACKAGE / "reference")  # a symbolic link, which rglob does not follow
    for file in folder.rglob("*.py")
)


def part_of(file: Path) -> str:
    """The layer, file or plug-in folder of the package that a file belongs to."""
    return file.parts[0].removesuffix(".py")


def imports(file: Path, source: str | None = None) -> Iterator[tuple[int, str]]:
    """Line and full name of everything that a file of the package imports, relative imports resolved."""
    here = ("deep_bench", *file.parts[:-1])
    for node in ast.walk(ast.parse(source or (PACKAGE / file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = (
                ".".join([*here[: len(here) - node.level + 1], *filter(None, [node.module])]) if node.level else node.module
            )
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def layer_faults(file: Path, source: str | None = None) -> list[str]:
    """The imports of a file that the order of the layers forbids."""
    part = part_of(file)
    if part in PLUGGED_IN or file == Path("__init__.py"):
        return []
    faults = []
    for line, name in imports(file, source):
        root, _, rest = name.partition(".")
        other = rest.partition(".")[0]
        plugged_in = other in PLUGGED_IN and (part, other) != ("cli", "testing")
        if root == "deep_bench" and (plugged_in or RANK.get(other, -1) > RANK[part]):
            faults.append(f"{file}:{line}: {part} imports {name}")
    return faults


def framework_faults(file: Path, source: str | None = None) -> list[str]:
    """The imports of a framework outside its own adapter."""
    inside = file.parts[1].removesuffix(".py") if part_of(file) == "adapters" else None
    return [
        f"{file}:{line}: imports {name}"
        for line, name in imports(file, source)
        if (root := name.partition(".")[0]) in HOME and HOME[root] != inside
    ]


MODULES = {
    ".".join(("deep_bench", *(file.parent if file.name == "__init__.py" else file.with_suffix("")).parts)): file
    for file in FILES
}
"""Full name of each module to its file."""


def without_type_checking(source: str) -> str:
    """A file without what only type checkers import."""
    tree = ast.parse(source)
    tree.body = [node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))]
    return ast.unparse(tree)


def imported_modules(module: str, file: Path) -> set[str]:
    """The modules of the package that one of them imports."""
    source = without_type_checking((PACKAGE / file).read_text(encoding="utf-8"))
    names = (name if name in MODULES else name.rpartition(".")[0] for _, name in imports(file, source))
    return {name for name in names if name in MODULES and name != module}


def run(code: str) -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=PACKAGE.parent)
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_every_part_has_its_place() -> None:
    assert {part_of(file) for file in FILES} - {"__init__"} <= {*RANK, *PLUGGED_IN}


def test_layers_import_only_what_stands_before_them() -> None:
    assert [fault for file in FILES for fault in layer_faults(file)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports within functions count, those for type checkers do not."""
    sorter = TopologicalSorter({name: imported_modules(name, file) for name, file in MODULES.items()})
    sorter.prepare()  # raises where there is a circle, and names it


def test_only_its_adapter_imports_a_framework() -> None:
    assert [fault for file in FILES for fault in framework_faults(file)] == []


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("graph/load.py", "from deep_bench.network import run"),
        ("graph/load.py", "from ..measure import timing"),
        ("graph/load.py", "from deep_bench import check"),
        ("check/oracle.py", "def f():\n    import deep_bench.reference.operators"),
        ("network/run.py", "from deep_bench.adapters.torch import TorchAdapter"),
        ("errors.py", "from .testing import adapter"),
    ],
)
def test_a_forbidden_layer_is_found(file: str, source: str) -> None:
    assert len(layer_faults(Path(file), source)) == 1


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("measure/timing.py", "import torch.cuda"),
        ("reference/operators/linear.py", "from onnxruntime import InferenceSession"),
        ("adapters/tensorflow/adapter.py", "def f():\n    import torch"),
        ("adapters/options.py", "import tensorflow as tf"),
    ],
)
def test_a_misplaced_framework_is_found(file: str, source: str) -> None:
    assert len(framework_faults(Path(file), source)) == 1


def test_importing_the_package_loads_numpy_at_most() -> None:
    code = (
        "import sys; before = set(sys.modules); import deep_bench; "
        "roots = {name.partition('.')[0] for name in set(sys.modules) - before}; "
        "print(*sorted(roots - sys.stdlib_module_names))"
    )
    assert set(run(code)) <= {"deep_bench", "lazy_loader", "numpy"}


def test_importing_every_layer_loads_no_framework() -> None:
    modules = [f"deep_bench.{part}" for part in (*RANK, "reference", "testing", "adapters")]
    code = f"import sys, {', '.join(modules)}, deep_bench.mlperf.training; print(*sys.modules)"
    loaded = {name.partition(".")[0] for name in run(code)}
    assert loaded & {*HOME, "matplotlib", "pandas", "mlperf_logging", "mlperf_compliance"} == set()


def test_listing_the_frameworks_imports_none() -> None:
    code = "import sys; from deep_bench import frameworks as f; [f.missing(name) for name in f]; print(*sys.modules)"
    assert {name.partition(".")[0] for name in run(code)} & set(HOME) == set()


def test_the_reference_has_one_name_only() -> None:
    done = subprocess.run([sys.executable, "-c", "import reference"], capture_output=True, text=True, check=False, cwd=ROOT)
    assert "ImportError" in done.stderr
    assert "deep_bench.reference" in done.stderr
