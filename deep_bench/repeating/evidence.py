"""What badges are judged by: a bundle, what its author claims, and what came of repeating it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from deep_bench.errors import InvalidArgument
from deep_bench.measure.storage import digest
from deep_bench.repeating.kept import RepetitionRecord
from deep_bench.repeating.manifest import MANIFEST, Manifest
from deep_bench.repeating.unpacking import check_folder
from deep_bench.results import Result, gather

_DOI = re.compile(r"10\.\d{4,9}/[^\s\"<>]+")


@dataclass(frozen=True)
class Claims:
    """What nobody but people can know.

    Args:
        doi: The identifier that an archive gave the bundle, such as ``"10.5281/zenodo.1234567"``.
        archive: Where it lies for good.
        paper: What it belongs to.

    Raises:
        InvalidArgument: A DOI that is none.
    """

    doi: str = ""
    archive: str = ""
    paper: str = ""

    def __post_init__(self) -> None:
        if self.doi and not _DOI.fullmatch(self.doi):
            raise InvalidArgument(f"the DOI {self.doi!r}", "such as 10.5281/zenodo.1234567")


@dataclass(frozen=True)
class Evidence:
    """All of it.

    Args:
        folder: The unpacked bundle, whose files are as its manifest says.
        manifest: The manifest.
        results: Of its records.
        repetitions: What came of repeating it; only those of this very bundle.
        claims: What is claimed.
        others: Repetitions of other bundles, which were set aside.
    """

    folder: Path
    manifest: Manifest
    results: tuple[Result, ...]
    repetitions: tuple[RepetitionRecord, ...] = ()
    claims: Claims = field(default_factory=Claims)
    others: int = 0

    @classmethod
    def of(cls, folder: Path, repetitions: tuple[RepetitionRecord, ...] = (), claims: Claims | None = None) -> Evidence:
        """Read a bundle's folder.

        Raises:
            InvalidRecord: A file is missing or was altered.
        """
        made, own = check_folder(folder), digest(folder / MANIFEST)
        mine = tuple(one for one in repetitions if one.bundle == own)
        results = tuple(gather(*(folder / path for path in made.records)))
        return cls(folder, made, results, mine, claims or Claims(), len(repetitions) - len(mine))

    @property
    def clean(self) -> tuple[RepetitionRecord, ...]:
        """The repetitions in environments that were built from the lock."""
        return tuple(one for one in self.repetitions if one.clean)

    @property
    def elsewhere(self) -> Mapping[str, RepetitionRecord]:
        """Repetitions that went well on other machines, by what they are."""
        known = {result.environment.hostname for result in self.results if result.environment is not None}
        return {
            f"{one.environment.cpu_model} ({one.environment.hostname})": one
            for one in self.repetitions
            if one.repeated and one.environment.hostname not in known
        }
