"""The Python environments that a recipe declares: built once, before its cells run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from deep_bench.environments import Declarations, build
from deep_bench.environments.declaration import FILE, VARIABLE
from deep_bench.experiments.state import Store
from deep_bench.measure.progress import Bars


def build_environments(store: Store, progress: bool) -> None:
    """Build what a recipe declares, unless it is there already, and tell the cells by a file of the experiment's folder.

    Args:
        store: The experiment's folder.
        progress: Whether to show a bar on a terminal.

    Raises:
        InvalidArgument: One of the same name was built from another declaration.
        NotWritten: The folder can no longer be written.
        WorkerError: A step failed; ``details`` holds the end of what it said.
    """
    declared = store.experiment.fields.environments
    if not declared:
        return
    text = yaml.safe_dump(declared, sort_keys=False)
    store.write(store.path / FILE, text)
    bars = Bars(progress)
    bars.phase("building environments", len(declared), "environments")
    try:
        for name, declaration in Declarations(declared, store.path / FILE).items():
            bars.at(name)
            build(name, declaration)
            bars.advance()
    finally:
        bars.close()


def told(store: Store) -> Mapping[str, str]:
    """The variable that names the declared environments to a cell; none where there are none."""
    file: Path = store.path / FILE
    return {VARIABLE: str(file)} if store.experiment.fields.environments else {}
