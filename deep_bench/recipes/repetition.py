"""`repeat`: run a bundle again, and say whether the results are those of before: bits, verdicts, figures.

A stranger's bundle may run only so much without leave, and some things never. What came of it is kept in a file beside the
bundle, as evidence for badges.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from pydantic import Field
from rich.console import Console

import deep_bench
from deep_bench.arrays import digest
from deep_bench.errors import DeepBenchError, Incomparable, InvalidArgument, InvalidRecord, Unsupported, printable, shortened
from deep_bench.measure.environment import Environment, capture
from deep_bench.recipes.bundles import AGAIN, AnyRecord, bundle, cell_factors, load_records, network_in, written_options
from deep_bench.recipes.manifest import (
    MANIFEST,
    Manifest,
    bundle_variables,
    check_empty,
    check_folder,
    clean_interpreter,
    dropped_variables,
    is_ours,
    omission_line,
    unpack,
    variables_not_set,
)
from deep_bench.records.fields import RecordModel
from deep_bench.records.model import Record, Sha256, VerdictRecord
from deep_bench.records.store import digest as store_digest
from deep_bench.records.store import read_model, written
from deep_bench.records.table import columns, print_note
from deep_bench.results import Result, Results, gather
from deep_bench.results.change import Comparison, severity
from deep_bench.results.comparing import compare
from deep_bench.results.comparisons import Comparisons
from deep_bench.results.pairing import differing, facts_of
from deep_bench.training.record import TrainingRecord
from deep_bench.yaml_text import parsed

_DATA = frozenset(
    {".csv", ".data", ".h5", ".json", ".jsonl", ".md", ".npy", ".npz", ".onnx", ".parquet", ".pb", ".png", ".toml", ".txt"}
)
"""Files that are read and not run. All others may be code, whatever the manifest calls them: an environment's Python too."""


_RECIPES = frozenset({".yaml", ".yml"})

_COMMANDS = frozenset({"container", "environments", "modules", "requirements", "setup", "slurm"})
"""Fields of a recipe, or of declared environments, that start programs or install packages."""


_VERBS = frozenset({"communicate", "conformance", "mlperf", "operators", "recipe", "run", "train"})
"""What measures something. Others write where they are told to, and have nothing to repeat."""


def allowed_command(manifest: Manifest, folder: Path, *, here: bool, allow_code: bool) -> list[str]:
    """The command of a bundle, if it may be run.

    Args:
        manifest: The manifest.
        folder: Where it was unpacked.
        here: Whether it runs in this environment, and not with the deep_bench of the bundle.
        allow_code: Whether the user lets it run code of its own.

    Raises:
        InvalidArgument: No command, another program, or a place outside the bundle's folder.
        Unsupported: Code of a stranger, without leave.
    """
    if not manifest.command:
        raise InvalidArgument("a bundle without a command", "one that says what repeats it: deep-bench bundle --command '…'")
    first, *arguments = manifest.command
    if first == "deep-bench":
        verb = arguments[0] if arguments else ""
        if verb not in _VERBS:
            raise InvalidArgument(f"the command deep-bench {verb}", f"one that measures: {', '.join(sorted(_VERBS))}")
    elif not (first in {file.path for file in manifest.files} and first.endswith(".py")):
        raise InvalidArgument(f"the command {first!r}", "deep-bench, or a Python file of the bundle", "run it by hand")
    for word in manifest.command:
        for part in re.split(r"[=,:@\s]", word):
            path = PurePosixPath(part)
            if path.is_absolute() or ".." in path.parts or part.startswith("~") or "\\" in part:
                raise InvalidArgument(f"the word {word!r}, which leads out of the bundle's folder", "paths below it")
    options = written_options(manifest.command)
    for number, word in enumerate(manifest.command):
        option, equals, value = word.partition("=")
        if option in options:
            value = value if equals else "".join(manifest.command[number + 1 : number + 2])
            if value != AGAIN and not value.startswith(f"{AGAIN}/"):
                raise InvalidArgument(f"{option} {value}", f"what a repeated run writes goes to {AGAIN}")
    if not allow_code and (code := _code(manifest, folder, local=here)):
        shown = ", ".join(code[:3]) + (f" and {len(code) - 3} more" if len(code) > 3 else "")
        raise Unsupported(f"the bundle runs code that came with it: {shown}", advice="read it, and say --allow-code")
    return list(manifest.command)


def _code(manifest: Manifest, folder: Path, *, local: bool) -> list[str]:
    """What would be run that did not come with this deep_bench."""
    sources = [word for word in manifest.command if word.startswith("--allow-code")]
    inside = [file.path for file in manifest.files if file.role != "package"]
    for path in (*inside, *(path for omission in manifest.left for path in omission.files)):
        suffix = PurePosixPath(path).suffix
        if suffix not in _DATA and (suffix not in _RECIPES or _starts_programs(folder / path)):
            sources.append(path)
    if not local and not is_ours(manifest):
        sources += [file.path for file in manifest.of("package")]
    return sources


def _starts_programs(file: Path) -> bool:
    """Whether a recipe declares environments or jobs, or cannot be read to tell."""

    def has_commands(content: Any) -> bool:
        if isinstance(content, Mapping):
            return any(str(key) in _COMMANDS or has_commands(value) for key, value in content.items())
        return isinstance(content, list) and any(map(has_commands, content))

    try:
        return has_commands(parsed(file.read_text(encoding="utf-8"), file.name))
    except (DeepBenchError, UnicodeDecodeError):
        return True


NamedDigests: TypeAlias = Iterator[tuple[str, str]]
"""Names of things and their digests."""


def output_digests(records: Iterable[AnyRecord]) -> dict[str, str]:
    """What came of some runs, by digest: outputs of systems, losses and scores of training.

    Records of other kinds compute nothing that could be compared.

    Args:
        records: Of one run, or of several alike.

    Returns:
        A name for each result to its SHA-256. Those of one name in several records are numbered, in the records' order.
    """
    return _number_names(
        (name + _record_name(record), value) for record in records for name, value in _outcome_pairs(record)
    )


def input_digests(records: Iterable[AnyRecord]) -> dict[str, str]:
    """What some runs were given, by digest: networks, and the arrays that they were fed."""
    return _number_names((name + _record_name(record), value) for record in records for name, value in _input_pairs(record))


def _number_names(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    by_name: dict[str, str] = {}
    for name, value in pairs:
        key, number = name, 1
        while key in by_name:
            number += 1
            key = f"{name} ({number})"
        by_name[key] = value
    return by_name


def _record_name(record: AnyRecord) -> str:
    """What tells a record from others of the same systems: sizes, and the factors of the cell that it is of."""
    network = record.network if isinstance(record, Record) else None
    parts = {**(network.sizes if network is not None else {}), **cell_factors(record)}
    return f" [{', '.join(f'{name}={value}' for name, value in sorted(parts.items()))}]" if parts else ""


def _input_pairs(record: AnyRecord) -> NamedDigests:
    if isinstance(record, Record):
        if record.network is not None:
            yield f"the network {record.network.name}", record.network.sha256
        if record.data is not None:
            yield from ((f"the input {name}", value) for name, value in record.data.sha256.items())
    elif isinstance(record, TrainingRecord):
        # Runs of several seeds begin with networks of their own, in the order of the runs.
        networks = (run.network for run in record.runs if run.network is not None)
        yield from ((f"the network {network.name}", network.sha256) for network in networks)


def _outcome_pairs(record: AnyRecord) -> NamedDigests:
    if isinstance(record, Record):
        where = record.network.name if record.network is not None else "its network"
        for system in record.systems:
            if system.twin_of is None:
                yield from _output_pairs(f"{system.label} on {where}", system.verdict)
                for trial in system.trials:
                    yield from _output_pairs(f"{system.label} on {trial.case}", trial.verdict)
    elif isinstance(record, TrainingRecord):
        for run in record.runs:
            subject = f"{run.label}, seed {run.seed}"
            yield f"{subject}: losses", digest(run.losses)
            for evaluation in run.evaluations:
                for name, value in evaluation.figures.items():
                    yield f"{subject}: {name} after step {evaluation.step}", float(value).hex()


def _output_pairs(subject: str, verdict: VerdictRecord | None) -> NamedDigests:
    for name, facts in (verdict.outputs if verdict is not None else {}).items():
        if isinstance(checksum := facts.get("sha256"), str):
            yield f"{subject}: {name}", checksum


@dataclass(frozen=True)
class Bits:
    """Results by name, compared.

    Args:
        same: Equal to the last bit.
        differ: Not so.
        missing: Not there any more.
    """

    same: tuple[str, ...]
    differ: tuple[str, ...]
    missing: tuple[str, ...]

    @classmethod
    def of(cls, before: Mapping[str, str], after: Mapping[str, str]) -> Bits:
        """Compare what `computed` or `given` found.

        Example:
            >>> Bits.of({"a": "1", "b": "2"}, {"a": "1", "b": "3", "c": "4"})
            Bits(same=('a',), differ=('b',), missing=())
        """
        both = [name for name in before if name in after]
        identical = tuple(name for name in both if before[name] == after[name])
        return cls(identical, tuple(n for n in both if n not in identical), tuple(n for n in before if n not in after))


LOG_FILE = "repeated.log"
"""What the run printed, in the bundle's folder."""


_TAIL_BYTES = 16 * 2**10

RepetitionWord: TypeAlias = Literal["repeated to the last bit", "repeated", "not repeated", "cannot tell"]


@dataclass(frozen=True)
class Repetition:
    """A run and its repetition. Printing it shows the report.

    Args:
        manifest: The bundle's.
        folder: Where it was unpacked and run.
        command: What was run.
        status: Its exit status; ``None`` if it took too long and was ended.
        clean: Whether the environment was built from the lock.
        before, after: The results of both.
        given: What it was given, compared.
        bits: What was computed, compared to the last bit.
        comparisons: All figures of both, compared; ``None`` where there is nothing to compare, which ``why`` tells.
        differences: What is another in the environment now: name to both values.
        why: Why figures were not compared.
        unread: Records of the repetition that cannot be read, with the reason.
        not_set: Environment variables of the run that a stranger's bundle may not set.
        dropped: Environment variables of this machine that a clean environment was not given.
    """

    manifest: Manifest
    folder: Path
    command: tuple[str, ...]
    status: int | None
    clean: bool
    before: tuple[Result, ...]
    after: tuple[Result, ...]
    given: Bits
    bits: Bits
    comparisons: Comparisons | None
    differences: Mapping[str, tuple[str, str]]
    why: str = ""
    unread: tuple[str, ...] = ()
    not_set: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def log(self) -> Path:
        """What the run printed."""
        return self.folder / LOG_FILE

    def last_lines(self, most: int = 12) -> list[str]:
        """The end of what the run printed, without empty lines."""
        with self.log.open("rb") as file:
            file.seek(max(0, self.log.stat().st_size - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
        return [line for line in text.splitlines() if line.strip()][-most:]

    @cached_property
    def verdict(self) -> RepetitionWord:
        """Whether it was repeated, as `reasons` explains."""
        if self.failures:
            return "not repeated"
        if not self.checked:
            return "cannot tell"
        return "repeated to the last bit" if self.bits.same and not self.bits.differ else "repeated"

    @property
    def failures(self) -> list[str]:
        """What did not come out as before."""
        failures = []
        if self.status is None:
            failures.append("it took too long, and was ended")
        if not self.after:
            failures.append(f"it left no record; exit status {self.status}")
        elif self.comparisons is not None:
            failures += [
                f"{c.name}: {c.before} before, {c.after} now: {c.reason}" for c in self.comparisons.changes if c.worse
            ]
            failures += [f"{result.name}: there is no result now" for result in self.comparisons.left[0]]
        failures += [f"a record cannot be read: {refusal}" for refusal in self.unread]
        failures += [f"{name} is another one now" for name in self.given.differ] if self.after else []
        failures += [f"{name}: nothing now" for name in self.bits.missing] if self.after else []
        return failures

    @property
    def checked(self) -> bool:
        """Whether something in it says that the results are right, or are those of before."""
        judged = any(result.verdict is not None and not severity(result.outcome) for result in self.after)
        return judged or bool(self.bits.same)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why the verdict is what it is."""
        if self.failures:
            return tuple(self.failures)
        reasons = []
        if self.bits.same or self.bits.differ:
            reasons.append(
                f"{len(self.bits.same)} of {len(self.bits.same) + len(self.bits.differ)} results are equal to the last bit"
            )
        if self.bits.differ:
            reasons.append(
                "the others were judged again, and are as right as before" if self.comparisons is not None else ""
            )
        if not self.checked:
            reasons.append("nothing in the records tells whether results are right")
        return tuple(filter(None, reasons))

    def report(self, width: int | None = None) -> str:
        """All of it as text.

        Args:
            width: Characters in a line; by default those of the terminal.
        """
        out = io.StringIO()
        console = Console(file=out, width=width or columns(), highlight=False, color_system=None)
        for line in self._lines():
            print_note(console, line)
        if self.comparisons is not None:
            print_note(console, "figures then and now; two machines, or two days, may differ in them:")
            out.write(self.comparisons.table(width) + "\n")
        return printable(out.getvalue().rstrip("\n"))

    def _lines(self) -> Iterator[str]:
        yield f"verdict: {self.verdict}"
        yield from (f"- {_short(reason)}" for reason in self.reasons)
        yield from _list_line("not the same to the last bit", self.bits.differ)
        where = "a clean environment from its lock" if self.clean else "the environment that is here"
        yield f"run in {where}: {_short(shlex.join(self.command))}; exit status {self.status}"
        yield f"what it said: {self.log}"
        if self.status != 0 and not self.verdict.startswith("repeated"):
            yield from (f"| {shortened(line.rstrip(), 200)}" for line in self.last_lines())
        if self.differences:
            yield "other than then:"
            yield from (f"- {name}: {_short(a)} → {_short(b)}" for name, (a, b) in self.differences.items())
        else:
            yield "the environment is the same in all that is compared"
        yield from _list_line("variables of the run that were not set", self.not_set)
        yield from _list_line("variables of this machine that the clean environment was not given", self.dropped)
        yield from (f"not in the bundle: {_short(omission_line(omission))}" for omission in self.manifest.left)
        if self.why:
            yield f"figures were not compared: {_short(self.why)}"

    def __str__(self) -> str:
        return self.report()


_LISTED = 10


def _list_line(heading: str, names: tuple[str, ...]) -> Iterator[str]:
    if names:
        suffix = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
        yield f"{heading}: {'; '.join(_short(name) for name in names[:_LISTED])}{suffix}"


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), 200)


Tell = Callable[[str], object]


def repeat(
    source: str | Path,
    folder: str | Path,
    *,
    here: bool = False,
    allow_code: bool = False,
    margin: float = 0.05,
    limit_s: float | None = None,
    tell: Tell = lambda _: None,
) -> Repetition:
    """Run a bundle again in a clean environment from its lock, and compare.

    Results are compared to the last bit where records have digests of them; verdicts, which the new run gives anew; and
    figures by their intervals. Other times on another machine are told, and are no failure: a run is *repeated* if all of
    its results are there again and are as right as before.

    Args:
        source: A bundle, a folder that one was unpacked to, or a record, which is bundled first as its run is here.
        folder: Where to unpack it and run; a new or empty one.
        here: Run in this very environment in place of a clean one.
        allow_code: Run code that came with the bundle.
        margin: The relative difference of figures that counts as none.
        limit_s: End it after so many seconds.
        tell: Told each step.

    Returns:
        What came of it; its files stay in the folder.

    Raises:
        InvalidRecord: No bundle, or one that was altered; or what it does not hold was not put there.
        InvalidArgument: The folder has files; the bundle names no command.
        Unsupported: It holds code and ``allow_code`` is not set; or its lock is for another kind of system.
        WorkerError: The environment cannot be built.
    """
    place, manifest = _open_bundle(Path(source), Path(folder), tell)
    _check_put(manifest, place)
    command = allowed_command(manifest, place, here=here, allow_code=allow_code)
    if here:
        bin_folder = Path(sys.executable).parent
    else:
        bin_folder = clean_interpreter(manifest, place, tell).parent
    if any(f"{AGAIN}/" in word for word in command):  # beside records, which a verb makes the folder for
        (place / AGAIN).mkdir()
    tell(f"running {' '.join(command)}")
    program = [bin_folder / "deep-bench"] if command[0] == "deep-bench" else [bin_folder / "python", command[0]]
    words = [*map(str, program), *command[1:]]
    status = _run(words, place, bundle_variables(manifest, here=here), limit_s)
    return _compare_records(manifest, place, tuple(command), status, here, margin)


def _open_bundle(source: Path, folder: Path, tell: Tell) -> tuple[Path, Manifest]:
    """The folder with the bundle's files, as they were packed."""
    if source.is_dir() and (source / MANIFEST).is_file():
        manifest = check_folder(source)
        if source.resolve() == folder.resolve():
            if (source / AGAIN).exists():
                raise InvalidArgument(
                    f"{source / AGAIN} is there already", "a folder where nothing was repeated", "remove it"
                )
            return source, manifest
        check_empty(folder)
        put = [path for omission in manifest.left for path in omission.files if (source / path).is_file()]
        for path in (MANIFEST, *(file.path for file in manifest.files), *put):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, folder / path)
        return folder, manifest
    if source.suffix == ".zip":
        return folder, unpack(source, folder)
    if not source.exists():
        raise InvalidRecord(f"there is no {source}", "a bundle, or a record")
    check_empty(folder)
    archive = folder / "bundle.zip"
    folder.mkdir(parents=True, exist_ok=True)
    tell(f"bundling {source}")
    bundle([source], archive)
    return folder / "unpacked", unpack(archive, folder / "unpacked")


def _check_put(manifest: Manifest, folder: Path) -> None:
    """Whether all is there that the bundle does not hold, and that somebody has to put there."""
    for omission in manifest.left:
        for path, sha256 in omission.files.items():
            file = folder / path
            digests = [store_digest(file)] if file.is_file() else []
            if file.is_file() and file.suffix == ".onnx":
                digests.append(network_in(file)[0])
            if sha256 not in digests:
                hint = f"get it from {omission.source}, " if omission.source else ""
                raise InvalidRecord(
                    f"the bundle does not hold {omission.what}, and {file} is "
                    f"{'another file' if file.exists() else 'not there'}",
                    f"the file with SHA-256 {sha256}",
                    f"{hint}put it there, and repeat it in that folder: deep-bench repeat {folder} --into {folder}",
                )


def _run(command: Sequence[str], folder: Path, environment: dict[str, str], limit_s: float | None) -> int | None:
    """Run it in the folder; its exit status, or ``None`` after the limit. Ctrl-C ends it with all that it started."""
    with (folder / LOG_FILE).open("wb") as log:
        process = subprocess.Popen(
            list(command),
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            process_group=0,
        )
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _compare_records(
    manifest: Manifest, folder: Path, command: tuple[str, ...], status: int | None, local: bool, margin: float
) -> Repetition:
    before = gather(*(folder / path for path in manifest.records))
    after = gather(folder / AGAIN) if (folder / AGAIN).is_dir() else Results()
    then, current = load_records(before.files()), load_records(after.files())
    comparisons, reason = None, ""
    # what differs in any pair of environments of the same framework
    differences: dict[str, tuple[str, str]] = {}
    for result in after:
        framework = result.labels.get("framework")
        first = next((candidate for candidate in before if candidate.labels.get("framework") == framework), None)
        if first is not None:
            differences |= differing(facts_of(first), facts_of(result))
    if before and after:
        try:
            # everything about environments may differ: it is told, and what follows of it is what is asked
            facts = {name for result in (*before, *after) for name in facts_of(result)}
            labels = {name for result in (*before, *after) for name in result.labels}
            allow = sorted(facts | labels & {"version", "device"})
            comparisons = compare(before, after, factor="record", margin=margin, allow=allow)
        except Incomparable as error:
            reason = str(error)
    return Repetition(
        manifest=manifest,
        folder=folder,
        command=command,
        status=status,
        clean=not local,
        before=tuple(before),
        after=tuple(after),
        given=Bits.of(input_digests(then), input_digests(current)),
        bits=Bits.of(output_digests(then), output_digests(current)),
        comparisons=comparisons,
        differences=differences,
        not_set=tuple(variables_not_set(manifest)),
        dropped=() if local else tuple(dropped_variables()),
        why=reason,
        unread=tuple(map(str, after.refused)),
    )


REPETITION_FILE = "repetition.json"


class FigureRecord(RecordModel):
    """One figure of both runs: medians, the ratio or difference with its interval, and what is said of it."""

    name: str
    metric: str
    unit: str
    before: float
    after: float
    scale: Literal["ratio", "difference"]
    value: float
    interval: tuple[float, float] | None = None
    word: str

    @classmethod
    def of(cls, comparison: Comparison) -> FigureRecord:
        """A comparison as it is recorded."""
        facts = {**vars(comparison.estimate), **vars(comparison)}
        return cls(**{name: facts[name] for name in cls.model_fields})


class RepetitionRecord(RecordModel):
    """A repetition.

    Attributes:
        bundle: The SHA-256 of the manifest of what was repeated.
        command: What was run.
        status: Its exit status; ``None`` if it was ended.
        clean: Whether the environment was built from the lock.
        verdict, reasons: What came of it.
        same, differ, missing: Names of results, by whether they are equal to the last bit.
        differences: What is another in the environment: name to both values.
        dropped: Environment variables that a clean environment was not given.
        figures: Figures that both runs have.
        environment: Where it was repeated.
    """

    schema_version: Literal[1] = 1
    kind: Literal["repetition"] = "repetition"
    created: datetime = Field(default_factory=lambda: datetime.now(UTC))
    deep_bench: str
    bundle: Sha256
    command: list[str]
    status: int | None
    clean: bool
    verdict: RepetitionWord
    reasons: list[str]
    same: list[str] = Field(default_factory=list)
    differ: list[str] = Field(default_factory=list)
    missing: list[str] = Field(default_factory=list)
    differences: dict[str, tuple[str, str]] = Field(default_factory=dict)
    dropped: list[str] = Field(default_factory=list)
    figures: list[FigureRecord] = Field(default_factory=list)
    environment: Environment

    @property
    def repeated(self) -> bool:
        """Whether results are there again, as right as before."""
        return self.verdict.startswith("repeated")


def keep_repetition(repetition: Repetition) -> Path:
    """Write what came of a repetition into its folder, and return the file.

    Raises:
        InvalidArgument: It cannot be written.
    """
    record = RepetitionRecord(
        deep_bench=deep_bench.__version__,
        bundle=store_digest(repetition.folder / MANIFEST),
        command=list(repetition.command),
        status=repetition.status,
        clean=repetition.clean,
        verdict=repetition.verdict,
        reasons=list(repetition.reasons),
        same=list(repetition.bits.same),
        differ=list(repetition.bits.differ),
        missing=list(repetition.bits.missing),
        differences=dict(repetition.differences),
        dropped=list(repetition.dropped),
        figures=[FigureRecord.of(comparison) for comparison in repetition.comparisons or ()],
        environment=capture(),
    )
    return written(
        repetition.folder / REPETITION_FILE, lambda file: file.write_text(record.model_dump_json(indent=1) + "\n", "utf-8")
    )


def read_repetition(path: str | Path) -> RepetitionRecord:
    """What was kept of a repetition.

    Args:
        path: The file, or its folder.

    Raises:
        InvalidRecord: It is none.
    """
    file = Path(path)
    return read_model(file / REPETITION_FILE if file.is_dir() else file, RepetitionRecord, "what `deep-bench repeat` wrote")
