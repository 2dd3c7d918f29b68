"""The records behind results, read again: what the tables do not have."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from deep_bench.errors import DeepBenchError
from deep_bench.results.result import Result

MOST = 60
"""So many records are read again at most; of more, the first."""


@dataclass(frozen=True)
class Source:
    """A record's file.

    Args:
        file: Where it is.
        kind: Of its results.
        results: What was read from it.
        record: The record; ``None`` where it cannot be read any more, or nothing here knows its kind.
        fault: Why there is no record.
    """

    file: Path
    kind: str
    results: tuple[Result, ...]
    record: Any = None
    fault: str = ""

    @property
    def created(self) -> datetime:
        """When the run began."""
        return self.results[0].created

    @property
    def command(self) -> list[str]:
        """What was typed; empty where it is not known."""
        words = self.value("command")
        return [str(word) for word in words] if isinstance(words, list) else []

    def value(self, name: str) -> Any:
        """A field of the record, of whatever kind it is; ``None`` where it has none such."""
        return self.record.get(name) if isinstance(self.record, Mapping) else getattr(self.record, name, None)


def sources(results: Sequence[Result]) -> list[Source]:
    """The first `MOST` files of the results, read again.

    A file that was moved or changed since its results were read is no reason to write no report: the source says so.
    """
    files: dict[Path, list[Result]] = {}
    for result in results:
        files.setdefault(result.file, []).append(result)
    return [_source(file, tuple(file_results)) for file, file_results in list(files.items())[:MOST]]


def _source(file: Path, results: tuple[Result, ...]) -> Source:
    kind = results[0].kind
    try:
        return Source(file, kind, results, _readers().get(kind, _plain)(file))
    except (DeepBenchError, OSError, ValueError) as error:
        return Source(file, kind, results, None, str(error))


def _readers() -> Mapping[str, Callable[[Path], Any]]:
    from deep_bench.distributed.scaling.record import load_scaling
    from deep_bench.measure.storage import load
    from deep_bench.training.runs.storage import load as load_training

    measurement = dict.fromkeys(("network", "operators", "communication"), load)
    return {**measurement, "training": load_training, "scaling": load_scaling}


def _plain(file: Path) -> Any:
    """What is in the file of a kind that comes from elsewhere; its reader has seen that it is no larger than may be."""
    content = json.loads(file.read_text(encoding="utf-8"))
    return content if isinstance(content, dict) else None
