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
        made, own = check_folder(folder), digest(folder / MANIFEST)
        there = tuple(read(path) for path in repetitions)
        for path, one in zip(repetitions, there, strict=True):
            if one.bundle != own:
                raise InvalidRecord(
                    f"{path} is a repetition of another bundle, whose {MANIFEST} has SHA-256 {one.bundle}",
                    f"one of this bundle, whose {MANIFEST} has {own}",
                    "leave it out, or repeat this bundle: a bundle that is made anew with another licence is another one",
                )
        results = tuple(gather(*(folder / path for path in made.records)))
        return cls(folder, made, results, there, claims or Claims())

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
