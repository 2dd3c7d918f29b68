"""Writes the pages of the reference before Sphinx reads them: one for each package, and one for the command line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Collection, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import click
from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = "deep_bench"

# What nobody imports: the insides of adapters and tables of rules; the command line has a page of its own.
INSIDES = (
    "deep_bench.adapters.jax.",
    "deep_bench.adapters.lowering",
    "deep_bench.adapters.mxnet.",
    "deep_bench.adapters.onnxruntime.",
    "deep_bench.adapters.tensorflow.",
    "deep_bench.adapters.torch.",
    "deep_bench.cli",
    "deep_bench.data",
    "deep_bench.network.gradient.rules",
)


def packages(name: str = ROOT) -> Iterator[str]:
    """Every package whose names a user may want, the innermost first."""
    if name.startswith(INSIDES):
        return
    for inner in iter_modules(_folders(name)):
        if inner.ispkg and not inner.name.startswith("_"):
            yield from packages(f"{name}.{inner.name}")
    yield name


def modules(package: str) -> list[str]:
    """The modules right in a package."""
    found = (f"{package}.{m.name}" for m in iter_modules(_folders(package)) if not m.ispkg and not m.name.startswith("_"))
    return [name for name in found if not name.startswith(INSIDES)]


def public(module: str, named: Collection[str]) -> bool:
    """Whether a module is described as a whole: a slow reference, one of the ground floor, or one that other pages name."""
    return module.startswith(f"{ROOT}.reference.") or module.count(".") == 1 or module in named


def named_in(folder: Path) -> set[str]:
    """The modules that the pages below a folder name."""
    texts = (file.read_text(encoding="utf-8") for file in folder.rglob("*.md"))
    return {name for text in texts for name in re.findall(rf"\b{ROOT}(?:\.[a-z_0-9]+)+", text)}


def _folders(package: str) -> list[str]:
    spec = find_spec(package)
    return list(spec.submodule_search_locations or []) if spec else []


def _here(module: str, name: str | None = None) -> Any:
    """A module, or a name in it; ``None`` where it needs a library that is not installed."""
    try:
        found = import_module(module)
        return found if name is None else getattr(found, name)
    except ModuleNotFoundError as error:
        if str(error.name).startswith(ROOT):
            raise
        logging.getLogger(__name__).info(
            "%s is left out: %s is not installed", ".".join(filter(None, (module, name))), error.name
        )
        return None


def _first(value: Any) -> str:
    """The first paragraph of a docstring, in one line."""
    return " ".join((inspect.getdoc(value) or "").split("\n\n")[0].split())


def _heading(text: str, line: str = "=") -> str:
    return f"{text}\n{line * len(text)}\n"


class Pages:
    """The page of each package. Every name is described once: where it is at home, and else on the innermost package's page.

    Args:
        named: The modules that other pages name.
    """

    def __init__(self, named: Collection[str]) -> None:
        self._packages = list(packages())
        self._whole = {m for p in self._packages for m in modules(p) if public(m, named)}
        self._described: set[str] = set()
        self.texts = {package: text for package in self._packages if (text := self._page(package))}

    def _page(self, package: str) -> str:
        rows, descriptions = self._exported(package)
        parts = []
        if rows:
            table = "\n".join(f"   {line}" for row in rows for line in row.split("\n"))
            parts += [
                f"To be imported from ``{package}``:\n",
                f".. list-table::\n   :widths: auto\n\n{table}\n",
                *descriptions,
            ]
        for module in modules(package):
            if module in self._whole and _here(module):
                parts += [_heading(module.removeprefix(f"{ROOT}."), "-"), f".. automodule:: {module}\n"]
        head = [_heading(package), f".. automodule:: {package}\n   :no-members:\n"]
        return "\n".join([*head, *parts]) if parts else ""

    def _exported(self, package: str) -> tuple[list[str], list[str]]:
        rows, descriptions = [], []
        for name in getattr(_here(package), "__all__", ()):
            value = _here(package, name)
            if value is None or inspect.ismodule(value) or name.startswith("_"):
                continue
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                rows.append(f"* - ``{name}``\n  - a value: {type(value).__name__}")
                continue
            place = f"{value.__module__}.{value.__qualname__}"
            rows.append(f"* - :py:obj:`{name} <{place}>`\n  - {_first(value)}")
            if place not in self._described and value.__module__ not in self._whole:
                self._described.add(place)
                descriptions.append(f".. auto{'class' if inspect.isclass(value) else 'function'}:: {place}\n")
        return rows, descriptions


def commands() -> str:
    """The page of the command line: the help of each verb, as it is printed."""
    from deep_bench.cli import _cli

    parts = [_heading("The command line"), "What ``deep-bench VERB --help`` prints.\n"]
    for path, command in _verbs(_cli, ("deep-bench",)):
        text = command.get_help(click.Context(command, info_name=" ".join(path), max_content_width=100, terminal_width=100))
        block = "\n".join(f"   {line}".rstrip() for line in text.splitlines())
        parts += [_heading(" ".join(path), "-" if len(path) <= 2 else "~"), f".. code-block:: text\n\n{block}\n"]
    return "\n".join(parts)


def _verbs(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command, info_name=" ".join(path))
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            if inner is not None:
                yield from _verbs(inner, (*path, name))


def index(pages: Sequence[str]) -> str:
    """The page that lists the others, each with what its package is for."""
    lines = {name: _first(_here(name)) for name in pages if name.startswith(ROOT)} | {"commands": "The help of every verb."}
    rows = "\n".join(f"   * - :doc:`{name.removeprefix(f'{ROOT}.')} <{name}>`\n     - {lines[name]}" for name in pages)
    table = f".. list-table::\n   :widths: auto\n\n{rows}\n"
    tree = "\n".join(f"   {name}" for name in pages)
    intro = "What packages export, the slow references, and the modules that other pages name; from their docstrings.\n"
    return "\n".join([_heading("Reference"), intro, table, f".. toctree::\n   :hidden:\n\n{tree}\n"])


def write(app: Sphinx) -> None:
    """Write the pages into ``reference``, which is not kept; those that did not change stay as they are."""
    folder = Path(app.srcdir, "reference")
    folder.mkdir(exist_ok=True)
    pages = Pages(named_in(Path(app.srcdir))).texts | {"commands": commands()}
    pages["index"] = index(sorted(pages, key=lambda name: (name != "commands", name)))
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    for file in folder.glob("*.rst"):
        if file.stem not in pages:
            file.unlink()


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
