"""Records of training in files: written whole or not at all, checked when they are read."""

from __future__ import annotations

import json
import re
import secrets
from datetime import UTC
from pathlib import Path
from typing import Any

import numpy as np

from deep_bench.arrays import grown, leaves
from deep_bench.errors import InvalidRecord
from deep_bench.measure.amounts import nanoseconds
from deep_bench.measure.folder import output_folder
from deep_bench.measure.record import ArrayFile
from deep_bench.measure.storage import INLINE_SAMPLES, digest, file_beside, read_model, written
from deep_bench.training.checkpoint import read_checkpoint, write_checkpoint
from deep_bench.training.history import PHASES
from deep_bench.training.record import RANK_COLUMNS, RunRecord, TrainingRecord, floats

_COLUMNS = ("losses", "sizes", "stamps")


def new_file(folder: str | Path, record: TrainingRecord) -> Path:
    """A path for a record in a folder, which is made if it is not there; named for its time and label.

    Raises:
        InvalidArgument: The folder cannot be made or written.
    """
    name = re.sub(r"[^\w.-]+", "_", f"training_{record.recipe.options.get('label') or ''}".rstrip("_"))[:60]
    file_name = f"{record.created.astimezone(UTC):%Y-%m-%dT%H-%M-%S}_{name}_{secrets.token_hex(4)}.json"
    return output_folder(folder) / file_name


def write(record: TrainingRecord, path: Path) -> Path:
    """Write a record, the arrays of its runs to an HDF5 file beside it where they are long.

    What ``path`` held before is replaced when all is written.

    Raises:
        InvalidArgument: The folder cannot be written.
    """
    before = _beside(path)
    arrays: ArrayFile | None = None
    outside: dict[str, Any] = {}
    if sum(array.size for run in record.runs for array in _arrays(run).values()) > INLINE_SAMPLES:
        tree = {str(i): grown(_arrays(run)) for i, run in enumerate(record.runs)}
        file = write_checkpoint(path.with_name(f"{path.stem}_{secrets.token_hex(4)}.h5"), tree)
        arrays = ArrayFile(name=file.name, sha256=digest(file))
        outside = {**dict.fromkeys(_COLUMNS, True), "ranks": {"ranks": {"__all__": set(RANK_COLUMNS)}}}
    whole = record.model_copy(update={"arrays": arrays})
    text = whole.model_dump_json(exclude={"runs": {"__all__": outside}}) + "\n"
    written(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
    if before is not None:
        before.unlink(missing_ok=True)
    return path


def load(path: str | Path) -> TrainingRecord:
    """Read a record, with the arrays from the HDF5 file beside it.

    Raises:
        InvalidRecord: No record of training, of another schema version, truncated, or too large; or the file beside it is
            missing or was altered.
    """
    path = Path(path)
    record = read_model(path, TrainingRecord, "a training record's JSON file")
    if record.arrays is not None:
        _fill(record, path, record.arrays)
        record.arrays = None
    for number, run in enumerate(record.runs):
        lengths = (len(run.losses), len(run.sizes), len(run.stamps))
        if lengths != (run.steps, run.steps, run.steps * (len(PHASES) + 1)):
            raise InvalidRecord(f"{path}: run {number} of {run.steps} steps has arrays of {lengths}")
        back = np.flatnonzero(np.diff(run.stamps) < 0)
        if len(back):
            raise InvalidRecord(
                f"{path}: runs.{number}.stamps: number {back[0] + 1} is {run.stamps[back[0] + 1]}",
                f"no earlier moment than the one before, {run.stamps[back[0]]}",
            )
    return record


def _fill(record: TrainingRecord, path: Path, arrays: ArrayFile) -> None:
    file = file_beside(path, arrays, "the file")
    tree = read_checkpoint(file)
    for number, run in enumerate(record.runs):
        columns = leaves(tree.get(str(number), {}))
        for at in _arrays(run):
            if at not in columns:
                raise InvalidRecord(f"{file} has no {'/'.join(at)} of run {number}")
            owner: Any = run if len(at) == 1 or run.ranks is None else run.ranks.ranks[int(at[1])]
            try:
                values = floats(columns[at]) if at == ("losses",) else nanoseconds(columns[at])
            except ValueError as error:
                raise InvalidRecord(f"{file}: {'/'.join(at)} of run {number}: {error}", "what a run noted") from error
            setattr(owner, at[-1], values)


def _arrays(run: RunRecord) -> dict[tuple[str, ...], np.ndarray]:
    """The arrays of a run by where they are in the file: its own, and those of its ranks."""
    ranks = [] if run.ranks is None else run.ranks.ranks
    arrays: dict[tuple[str, ...], np.ndarray] = {(name,): getattr(run, name) for name in _COLUMNS}
    return arrays | {("ranks", str(i), name): getattr(rank, name) for i, rank in enumerate(ranks) for name in RANK_COLUMNS}


def _beside(path: Path) -> Path | None:
    """The file of arrays that a record that is about to be replaced has."""
    if not path.exists():
        return None
    arrays = json.loads(path.read_text(encoding="utf-8")).get("arrays")
    return path.with_name(arrays["name"]) if arrays else None
