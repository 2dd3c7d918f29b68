"""The records of runs as what they are, for what their results do not tell: commands, and digests of all that was run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from deep_bench.arrays import digest
from deep_bench.distributed.scaling.record import ScalingRecord, load_scaling
from deep_bench.errors import InvalidInput
from deep_bench.measure import storage
from deep_bench.measure.record import Record
from deep_bench.mlperf.inference.record import InferenceRecord
from deep_bench.mlperf.inference.storage import load_inference
from deep_bench.network.inputs import read_inputs
from deep_bench.results.reading.files import kind_of
from deep_bench.results.reading.kinds import MEASUREMENT
from deep_bench.training.record import TrainingRecord
from deep_bench.training.runs import storage as training

AnyRecord: TypeAlias = Record | TrainingRecord | ScalingRecord | InferenceRecord

_LOADERS: Mapping[str, Callable[[Path], AnyRecord]] = {
    MEASUREMENT: storage.load,
    "mlperf": load_inference,
    "scaling": load_scaling,
    "training": training.load,
}

_FILE = "file "
"""How a record's source of inputs begins where they were read from a file."""


def load_records(files: Iterable[Path]) -> list[AnyRecord]:
    """Read records; kinds of other packages, of which only the results are known, are left out.

    Raises:
        InvalidRecord: One cannot be read.
    """
    kinds = ((file, kind_of(file)) for file in files)
    return [_LOADERS[kind](file) for file, kind in kinds if kind is not None and kind in _LOADERS]


def cell_factors(record: AnyRecord) -> Mapping[str, object]:
    """The factors of the cell that a record is of; empty where it is of none."""
    options = record.recipe if isinstance(record, ScalingRecord) else record.recipe.options
    cell = options.get("cell")
    factors = cell.get("factors") if isinstance(cell, dict) else None
    return factors if isinstance(factors, dict) else {}


@dataclass(frozen=True)
class Recorded:
    """What some records say of the files that were run.

    Args:
        networks: Name to the digests of all that were run under it.
        arrays: A file of inputs, as the command named it, to name and digest of each array in it.
    """

    networks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    arrays: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[AnyRecord]) -> Recorded:
        """Collect it; of training nothing, whose networks begin with parameters of their own."""
        networks: dict[str, frozenset[str]] = {}
        arrays: dict[Path, Mapping[str, str]] = {}
        for record in records:
            network = record.network if isinstance(record, Record | InferenceRecord) else None
            if network is not None:
                networks[network.name] = networks.get(network.name, frozenset()) | {network.sha256}
            if isinstance(record, Record) and record.data is not None and record.data.source.startswith(_FILE):
                arrays[Path(record.data.source.removeprefix(_FILE))] = record.data.sha256
        return cls(networks, arrays)

    def other_arrays(self, named: str, file: Path) -> str:
        """How a file of inputs differs from what was run; empty if it does not, or is none.

        Args:
            named: The file, as the command names it.
            file: Where it is.
        """
        before = self.arrays.get(Path(named))
        if before is None:
            return ""
        try:
            current = {name: digest(array) for name, array in read_inputs(file).items()}
        except InvalidInput as error:
            return error.came
        return ", ".join(f"the array {name}" for name, checksum in before.items() if current.get(name) != checksum)
