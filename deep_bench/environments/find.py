"""From what stands after the ``@`` of a variant to the place where its worker runs."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from deep_bench.environments.declaration import Declarations
from deep_bench.environments.finished import all_built, current
from deep_bench.errors import InvalidArgument, UnknownName
from deep_bench.measure.place import Place

ANY_SOURCE = "DEEP_BENCH_ANY_SOURCE"
"""The environment variable that, set to 1, allows environments whose deep_bench differs from this one."""


def place_of(text: str, *, lean: bool = False, declared: Declarations | None = None) -> Place:
    """The place that a variant names.

    Args:
        text: A path (it has a slash, or begins with a dot or a tilde): the folder of a virtual environment or a conda
            prefix, or an interpreter. Else the name of a declared environment, or of one that was built; or a folder here.
        lean: Whether the framework does without deep_bench there.
        declared: The declared environments; by default those of the file here.

    Raises:
        InvalidArgument: A path that is no environment, or an environment that is not built.
        UnknownName: A name that is not declared; the nearest one is suggested.
    """
    any_source = os.environ.get(ANY_SOURCE) == "1"
    if os.sep in text or text.startswith((".", "~")):
        return Place(text, (str(_interpreter(text)),), lean=lean, any_source=any_source)
    declared = Declarations.read() if declared is None else declared
    if text in declared or text in all_built():
        declaration = declared.get(text)
        environment = current(text, declaration)
        declaration = declaration or environment.declaration
        return Place(
            text,
            (*declaration.prefix, str(environment.interpreter)),
            declaration.variables,
            lean,
            declaration.any_source or any_source,
            environment.facts(),
        )
    if Path(text).exists():
        return Place(text, (str(_interpreter(text)),), lean=lean, any_source=any_source)
    raise UnknownName("environment", text, {*declared, *all_built()}, f"declare it in {declared.path}, or name a folder")


def _interpreter(text: str) -> Path:
    """The interpreter that a path leads to; the link that a virtual environment has is not followed."""
    path = Path(text).expanduser().absolute()
    if path.is_dir():
        python = next((path / "bin" / name for name in ("python", "python3") if os.path.lexists(path / "bin" / name)), None)
        if python is None:
            raise InvalidArgument(
                f"the folder {text} is no Python environment: it has no bin/python",
                "a virtual environment, a conda prefix, or an interpreter",
                f"make one: python -m venv {text}",
            )
        if not os.access(python, os.X_OK):
            gone = "leads to an interpreter that is gone" if not python.exists() else "cannot be executed"
            raise InvalidArgument(f"the environment {text} does not work: its {python.name} {gone}", advice="make it anew")
        return python
    if not path.exists():
        near = _nearest(path)
        advice = f"did you mean {Path(text).with_name(near)}?" if near else "name a folder, an interpreter or a declared one"
        raise InvalidArgument(f"there is no environment {text}", "a folder with bin/python, or an interpreter", advice)
    if not os.access(path, os.X_OK):
        raise InvalidArgument(f"{text} cannot be executed", "a Python interpreter, or an environment's folder")
    return path


def _nearest(path: Path) -> str:
    try:
        beside = [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return ""
    return next(iter(difflib.get_close_matches(path.name, beside, n=1)), "")
