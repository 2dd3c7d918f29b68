"""What badges are judged by: a bundle, what its author claims, and what came of repeating it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.storage import digest
from deep_bench.repeating.kept import RepetitionRecord, read
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
        repetitions: What came of repeating it.
        claims: What is claimed.
    """

    folder: Path
    manifest: Manifest
    results: tuple[Result, ...]
    repetitions: tuple[RepetitionRecord, ...] = ()
    claims: Claims = field(default_factory=Claims)

    @classmethod
    def of(cls, folder: Path, repetitions: Sequence[str | Path] = (), claims: Claims | None = None) -> Evidence:
        """Read a bundle's folder.

        Args:
            folder: What it was unpacked to.
            repetitions: Files or folders of what `repeat` left.
            claims: What is claimed.

        Raises:
            InvalidRecord: A file is missing or was altered; no repetition, or one of another bundle.
        """
        manifest, bundle_digest = check_folder(folder), digest(folder / MANIFEST)
        records = tuple(read(path) for path in repetitions)
        for path, record in zip(repetitions, records, strict=True):
            if record.bundle != bundle_digest:
                raise InvalidRecord(
                    f"{path} is a repetition of another bundle, whose {MANIFEST} has SHA-256 {record.bundle}",
                    f"one of this bundle, whose {MANIFEST} has {bundle_digest}",
                    "leave it out, or repeat this bundle: a bundle that is made anew with another licence is another one",
                )
        results = tuple(gather(*(folder / path for path in manifest.records)))
        return cls(folder, manifest, results, records, claims or Claims())

    @property
    def clean(self) -> tuple[RepetitionRecord, ...]:
        """The repetitions in environments that were built from the lock."""
        return tuple(repetition for repetition in self.repetitions if repetition.clean)

    @property
    def elsewhere(self) -> Mapping[str, RepetitionRecord]:
        """Repetitions that went well on other machines, by what they are."""
        hostnames = {result.environment.hostname for result in self.results if result.environment is not None}
        return {
            f"{repetition.environment.cpu_model} ({repetition.environment.hostname})": repetition
            for repetition in self.repetitions
            if repetition.repeated and repetition.environment.hostname not in hostnames
        }
