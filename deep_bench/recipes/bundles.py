"""`bundle`: all that somebody else needs to repeat a run, in one archive.

Records are read as what they are, for their commands and the digests of all that went in. The words of a command tell which
files a run reads, which are taken as they were when it was run, or not at all, and which it writes.
"""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeAlias

import onnx_ir as ir

import deep_bench
from deep_bench.arrays import digest
from deep_bench.distributed.scaling.record import ScalingRecord, load_scaling
from deep_bench.errors import DeepBenchError, InvalidArgument, InvalidInput, InvalidRecord
from deep_bench.mlperf.inference.record import InferenceRecord, load_inference
from deep_bench.network.problem import read_inputs
from deep_bench.recipes.cell_run import ABOUT, RECIPE, About
from deep_bench.recipes.manifest import (
    MANIFEST,
    SAME_TIME,
    Contents,
    Manifest,
    Omission,
    PackedFile,
    beside,
    lock_environment,
    may_set,
    variables_not_set,
)
from deep_bench.records import store
from deep_bench.records.model import Record
from deep_bench.records.store import digest as store_digest
from deep_bench.records.store import read_model, written
from deep_bench.results import Results, gather
from deep_bench.results.gathering import MEASUREMENT, kind_of
from deep_bench.training import record as training
from deep_bench.training.record import TrainingRecord
from deep_bench.yaml_text import parsed, text_in

__all__ = ["Manifest", "bundle"]

FOLDERS = frozenset({"--output", "-o", "--overwrite"})
"""Options whose value is the folder that records are written to."""


_FILES = frozenset({"--plot", "--json", "--checkpoints", "--trace", "--record", "--save"})
"""Options whose value is something else that is written."""


_JSON_IS_A_FLAG = frozenset({"mlperf", "recipe", "run", "scale", "train"})
"""Verbs whose ``--json`` takes no value."""


AGAIN = "repeated"
"""The folder that a repeated run writes to."""


READ = frozenset(
    {".csv", ".data", ".h5", ".hdf5", ".jsonl", ".npy", ".npz", ".onnx", ".parquet", ".py", ".toml", ".yaml", ".yml"}
)
"""How names end that can only be names of files that are read."""


Use: TypeAlias = Literal["word", "reads", "missing", "writes"]


@dataclass(frozen=True)
class CommandPart:
    """One word, or the part of one that names a file.

    Args:
        before: What stands in front of it in the same word: ``"data.root="``.
        text: The word, or the name.
        after: What follows: ``":FastGelu"`` of ``kernels.py:FastGelu``.
        use: Whether it names something, and what for; ``"missing"`` for a file to be read that is not there.
        option: The option whose value it is, if it is written.
    """

    before: str
    text: str
    after: str = ""
    use: Use = "word"
    option: str = ""

    def named(self, path: str) -> str:
        """The word with another path."""
        return f"{self.before}{path}{self.after}"

    def again(self) -> str:
        """What is written, below the folder of a repeated run."""
        return self.named(AGAIN if self.option in FOLDERS else f"{AGAIN}/{PurePosixPath(self.text).name}")

    def __str__(self) -> str:
        return self.named(self.text)


def command_parts(command: Sequence[str], folder: Path) -> list[CommandPart]:
    """The words of a command, the program's own name included.

    A word that names a file or a folder which is there is read; the value of an option such as ``--output`` is written. Also
    parts of words are looked at: ``data.root=DATA``, ``--cases=FILE``, ``kernels.py:FastGelu``.

    Args:
        command: As the record has it.
        folder: Where it was given.

    Example:
        >>> parts = command_parts(["deep-bench", "run", "a.onnx", "--output", "mine"], Path("nowhere"))
        >>> [(word.text, word.use) for word in parts]
        [('deep-bench', 'word'), ('run', 'word'), ('a.onnx', 'missing'), ('--output', 'word'), ('mine', 'writes')]
    """
    parts: list[CommandPart] = []
    options, option = written_options(command), ""
    for text in command:
        name, equals, value = text.partition("=")
        if option:
            parts.append(CommandPart("", text, use="writes", option=option))
            option = ""
        elif equals and name in options:
            parts.append(CommandPart(f"{name}=", value, use="writes", option=name))
        else:
            option = text if text in options else ""
            parts.append(file_word(text, folder))
    return parts


def written_options(command: Sequence[str]) -> frozenset[str]:
    """The options of a command whose values are written."""
    return FOLDERS | (_FILES - {"--json"} if _JSON_IS_A_FLAG.intersection(command[1:2]) else _FILES)


def file_word(text: str, folder: Path) -> CommandPart:
    """A word by itself: whether it, or a part of it, names what is in a folder, or a file that is missing there."""
    before, equals, value = text.rpartition("=")
    missing = None
    for head, name in (("", text), (f"{before}{equals}", value)):
        file, colon, remainder = name.partition(":")
        for path, tail in ((name, ""), (file, f"{colon}{remainder}")):
            if _is_there(path, folder):
                return CommandPart(head, path, tail, use="reads")
            if _is_file(path):
                missing = CommandPart(head, path, tail, use="missing")
    return missing or CommandPart("", text)


def _is_there(text: str, folder: Path) -> bool:
    """Whether something is there under a name that is written as one of a file: ``train`` and ``.`` are none."""
    if not text or text.startswith("-") or not ("/" in text or "." in text.strip(".")):
        return False
    try:
        return (folder / text).exists()
    except (OSError, ValueError):  # too long a name, or one with a null character
        return False


def _is_file(text: str) -> bool:
    """Whether a name can only be that of a file: ``net.onnx``, and not ``torch:threads=1`` or a sentence."""
    return PurePosixPath(text).suffix in READ and text.isprintable() and not text.startswith("-") and " " not in text


AnyRecord: TypeAlias = Record | TrainingRecord | ScalingRecord | InferenceRecord

_LOADERS: Mapping[str, Callable[[Path], AnyRecord]] = {
    MEASUREMENT: store.load,
    "mlperf": load_inference,
    "scaling": load_scaling,
    "training": training.load_training,
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
class RecordedInputs:
    """What some records say of the files that were run.

    Args:
        networks: Name to the digests of all that were run under it.
        arrays: A file of inputs, as the command named it, to name and digest of each array in it.
    """

    networks: Mapping[str, frozenset[str]] = field(default_factory=dict)
    arrays: Mapping[Path, Mapping[str, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, records: Iterable[AnyRecord]) -> RecordedInputs:
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


_RECIPES = (".yaml", ".yml")


@dataclass
class CommandInputs:
    """Takes in what the words of a command name, and what recipes among it name.

    Args:
        contents: Where it goes.
        recorded: What the records say of networks and arrays.
        elsewhere: What is not packed, as the command or a recipe names it, to where it can be had.

    Attributes:
        faults: Names of what cannot be taken in, to why.
        networks: Digests of the networks that were taken in, or that can be had elsewhere.
    """

    contents: Contents
    recorded: RecordedInputs
    elsewhere: Mapping[str, str] = field(default_factory=dict)
    faults: dict[str, str] = field(default_factory=dict)
    networks: set[str] = field(default_factory=set)

    def command(self, words: Sequence[str], folder: Path, home: Path | None = None) -> list[str]:
        """Take in what a command reads.

        Args:
            words: The command.
            folder: Where it was given.
            home: What names in the recipe of an experiment are relative to; by default the recipe's own folder.

        Returns:
            The command with paths in the archive.
        """
        parts = command_parts(words, folder)
        again = [self._again(word, folder) for word in parts]
        if not runs_deep_bench(words):
            return again
        again[0] = "deep-bench"
        for word in parts:
            if word.use == "reads" and Path(word.text).suffix in _RECIPES:
                file = folder / word.text
                if words[1:2] == ["recipe"]:
                    self._recipe(file, home or file.parent, PurePosixPath("inputs"))
                else:  # names in a recipe of training are relative to where the command is given
                    self._recipe(file, folder, PurePosixPath())
        return again if any(word.option in FOLDERS for word in parts) else [*again, "--output", AGAIN]

    def _again(self, word: CommandPart, folder: Path) -> str:
        if word.use == "writes":
            return word.again()
        return str(word) if word.use == "word" else word.named(self.take(word, folder))

    def take(self, word: CommandPart, folder: Path, place: str = "") -> str:
        """Take in one file or folder.

        Args:
            word: Its name.
            folder: Where that leads from.
            place: Where it goes in the archive; by default below ``inputs``.

        Returns:
            Its path in the archive.
        """
        path = folder / word.text
        if path.suffix == ".onnx":
            return self._network(path, word.text, place)
        if word.use == "missing":
            self.faults[word.text] = "is not there"
        elif changed := self.recorded.other_arrays(word.text, path):
            self.faults[word.text] = f"is another now than when it was run: {changed}"
        else:
            return self.contents.take(path, word.text, place, source=self.elsewhere.get(word.text, ""))
        return place

    def _recipe(self, file: Path, home: Path, into: PurePosixPath) -> None:
        """Take in what a recipe names, and what recipes among that name: where these names lead in the archive."""
        for word in _recipe_names(parsed(text_in(file, f"the recipe {file}"), file.name), home):
            named = PurePosixPath(word.text)
            place = str(into / named)
            if named.is_absolute() or ".." in named.parts:
                reason = f"{file.name} names it outside its own folder: who repeats it has to change that"
                self.contents.left.append(Omission(what=word.text, why=reason, source=self.elsewhere.get(word.text, "")))
            elif place not in self.contents.files:
                if self.take(word, home, place) != place:
                    self.faults[word.text] = f"has the name of another file in the bundle, {place}: rename it"
                elif named.suffix in _RECIPES and word.use == "reads":
                    self._recipe(home / named, home, into)

    def _network(self, path: Path, word: str, place: str) -> str:
        """A network with the files that hold its tensors, if it is the one that was run."""
        source = self.elsewhere.get(word) or self.elsewhere.get(path.stem, "")
        ran = self.recorded.networks.get(path.stem, frozenset())
        current, beside = network_in(path) if path.is_file() else ("", [])
        if current and (not ran or current in ran):
            self.networks.add(current)
            if not beside:
                return self.contents.take(path, word, place, source=source)
            place = place or f"inputs/{current[:12]}/{path.name}"
            into = PurePosixPath(place).parent
            tensors = {str(into / inside): path.parent / inside for inside in beside}
            self.contents.take_together({place: path} | tensors, word, source=source)
            return place
        place = place or f"inputs/{path.name}"
        reason = f"is another now than when it was run: its SHA-256 is {current}" if current else "is not there"
        if source and len(ran) == 1:
            (then,) = ran
            self.networks.add(then)
            self.contents.left.append(Omission(what=word, why=f"the file here {reason}", source=source, files={place: then}))
        else:
            self.faults[word] = reason
        return place


def runs_deep_bench(command: Sequence[str]) -> bool:
    """Whether a command runs deep_bench's own program."""
    return bool(command) and Path(command[0]).name in ("deep-bench", "__main__.py")


def network_in(path: Path) -> tuple[str, list[str]]:
    """The digest of a network, as records have it, and the files below its folder that hold its tensors."""
    try:
        network = deep_bench.load(path)
    except DeepBenchError:
        return store_digest(path), []
    stored = (value.const_value for graph in network.model.graphs() for value in graph.initializers.values())
    return network.sha256, sorted({str(tensor.location) for tensor in stored if isinstance(tensor, ir.ExternalTensor)})


def _recipe_names(content: Any, home: Path) -> Iterator[CommandPart]:
    """What a recipe names of files, anywhere in it."""
    if isinstance(content, Mapping):
        content = list(content.values())
    if isinstance(content, list):
        for entry in content:
            yield from _recipe_names(entry, home)
    elif isinstance(content, str) and (word := file_word(content, home)).use in ("reads", "missing"):
        yield word


def readme(manifest: Manifest) -> str:
    """Markdown: what it is, how to repeat it, what is in it and what is not.

    Names come from files that others wrote: they are shown as code, on one line.
    """
    wheel = next((file.path for file in manifest.files if file.role == "package"), "")
    paragraphs = [
        "With this deep_bench installed, one command makes a clean environment, runs it again and compares:",
        f"    python -m pip install {shlex.quote(wheel)}\n    deep-bench repeat .",
    ]
    if manifest.command:
        assignments = [f"{name}={value}" for name, value in sorted(may_set(manifest).items())]
        words = [*(["env", *assignments] if assignments else []), *manifest.command]
        paragraphs += ["What it runs, in this folder:", f"    {_one_line(shlex.join(words))}"]
    if hidden := variables_not_set(manifest):
        paragraphs.append(f"The run had variables that a repetition is not given: {', '.join(map(_code_block, hidden))}.")
    text = f"Python {manifest.lock.python} on {manifest.lock.platform}; exact versions in `{manifest.lock.file}`."
    for name, (then, current) in manifest.lock.drifted.items():
        text += (
            f"\n\nThe run itself had {_code_block(name)} {_plain_text(then)}; the lock has {_plain_text(current) or 'none'}."
        )
    parts = [
        f"# {_plain_text(manifest.title)}",
        "A bundle of deep_bench: records of a run, and what it takes to repeat it.",
        "## Repeat it",
        "\n\n".join(paragraphs),
        "## What is in it",
        "\n".join(_file_line(file) for file in manifest.files),
        *_omission_lines(manifest.left),
        "## The environment",
        text,
        "## Licence",
        _plain_text(manifest.licence)
        if manifest.licence
        else "None was given by who made this bundle. Data and networks have their own.",
        *(["## Remarks", "\n".join(f"- {_plain_text(remark)}" for remark in manifest.remarks)] if manifest.remarks else []),
    ]
    return "\n\n".join(parts) + "\n"


def _file_line(file: PackedFile) -> str:
    source = f", from {_code_block(file.source)}" if file.source and file.source != file.path else ""
    return f"- {_code_block(file.path)}: {file.role}, {file.bytes} bytes, SHA-256 `{file.sha256}`{source}"


def _omission_lines(omissions: list[Omission]) -> list[str]:
    if not omissions:
        return []
    rows = []
    for omission in omissions:
        rows.append(
            f"- {_code_block(omission.what)}: {_plain_text(omission.why)}; "
            f"{_plain_text(omission.source) or 'where it can be had was not told'}"
        )
        rows += [f"    - {_code_block(name)}: SHA-256 `{checksum}`" for name, checksum in omission.sha256.items()]
        rows += [f"    - put it at {_code_block(path)}: SHA-256 `{checksum}`" for path, checksum in omission.files.items()]
    return ["## What is not in it", "\n".join(rows)]


def _code_block(text: str) -> str:
    return f"`{_one_line(text).replace('`', chr(39))}`"


def _plain_text(text: str) -> str:
    """Text of strangers: no markup, no second line."""
    return "".join(f"\\{c}" if c in r"\`*_{}[]<>#|!" else c for c in _one_line(text))


def _one_line(text: str) -> str:
    return " ".join(text.split())


def bundle(
    records: Sequence[str | Path],
    archive: str | Path,
    *,
    command: Sequence[str] | None = None,
    folder: str | Path = ".",
    inputs: Sequence[str | Path] = (),
    elsewhere: Mapping[str, str] | None = None,
    licence: str = "",
    licence_file: str | Path | None = None,
    title: str = "",
    force: bool = False,
) -> Manifest:
    """Write an archive with records, what the run read, the exact environment, deep_bench itself, and how to repeat it.

    Files that the command and its recipe name are taken in. One that is not there any more, or is another now than the
    record says, is refused: a bundle without it, or with the wrong one, repeats another run. What is too large is listed
    with its digest. Equal contents make equal archives.

    Args:
        records: Files of one run, or a folder of the records of one recipe.
        archive: The file to write, ``.zip``.
        command: What is run to repeat it; by default what the records say.
        folder: Where it was given, for paths in it.
        inputs: Further files that it reads, which its words do not name.
        elsewhere: Where others can have what is not packed: a network that is not here any more, or a file that is too
            large, as the command or its recipe names it, to an address. Its digest is in the bundle.
        licence: Under which it is shared, such as ``"CC-BY-4.0"``.
        licence_file: The licence's text.
        title: What it is.
        force: Replace a file that is there already.

    Raises:
        InvalidArgument: No record, records of several commands, an archive that is no ``.zip``, is there already or cannot
            be written; ``elsewhere`` names what is packed, or nothing.
        InvalidRecord: A record that cannot be read, or a file that is gone, or is not what the record says.

    Example:
        >>> import tempfile
        >>> import deep_bench as db
        >>> with tempfile.TemporaryDirectory() as place:
        ...     run = db.run("digits-cnn", on=["reference"], budget=0.3, twin=False, progress=False, output=place)
        ...     made = bundle([place], f"{place}/run.zip", command=["deep-bench", "run", "digits-cnn", "--on", "reference"])
        >>> sorted({file.role for file in made.files}), made.command[-2:]
        (['lock', 'package', 'readme', 'record'], ['--output', 'repeated'])
    """
    target, roots = Path(archive), [Path(path) for path in records]
    if target.suffix != ".zip":
        raise InvalidArgument(f"the archive {target}", "a name that ends in .zip")
    if target.exists() and not force:
        raise InvalidArgument(f"{target} is there already", "a new file", "name another, or say --force (force=True)")
    results = gather(*records)
    if results.refused:
        raise InvalidRecord(str(results.refused[0]), "records that can be read: a bundle leaves none out in silence")
    if not results:
        raise InvalidArgument(f"no record in {', '.join(map(str, records))}", "files or folders of records")
    ran = load_records(results.files())
    arguments, home = (list(command), None) if command is not None else _command_of(ran, roots)
    with TemporaryDirectory() as scratch:
        contents = Contents()
        record_paths = _add_records(contents, results, roots)
        run_inputs = CommandInputs(contents, RecordedInputs.of(ran), elsewhere or {})
        again = run_inputs.command(arguments, Path(folder), home)
        for path in inputs:
            present = Path(folder, path).exists()
            run_inputs.take(CommandPart("", str(path), use="reads" if present else "missing"), Path(folder))
        _check_networks(run_inputs, roots, ours=runs_deep_bench(arguments))
        _check_inputs(run_inputs, Path(folder))
        if licence_file is not None:
            contents.add(Path(licence_file), "LICENCE.txt", "licence")
        names = list(dict.fromkeys(result.name for result in results))
        named = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
        packages = _merge_all(record.environment.packages for record in ran)
        manifest = Manifest(
            created=max(result.created for result in results),
            deep_bench=deep_bench.__version__,
            title=title or named,
            command=again,
            variables=_merge_all(record.environment.variables for record in ran),
            records=record_paths,
            files=contents.packed,
            left=[*contents.left, *_add_data(ran)],
            licence=licence,
            lock=lock_environment(contents, packages, Path(scratch), _add_extras(contents, results, again)),
            remarks=_remarks(results, arguments),
        )
        text = Path(scratch, "README.md")
        text.write_text(readme(manifest), encoding="utf-8")
        contents.add(text, "README.md", "readme")
        manifest = manifest.model_copy(update={"files": contents.packed})
        written(target, lambda temporary: _write_archive(temporary, manifest, contents))
    return manifest


def _command_of(ran: Sequence[AnyRecord], roots: Sequence[Path]) -> tuple[list[str], Path | None]:
    """The command that all records came from; of an experiment's folder, what runs its recipe, and where that was before."""
    if len(roots) == 1 and (roots[0] / RECIPE).is_file():
        about = read_model(roots[0] / ABOUT, About, "what `deep-bench recipe run` wrote")
        return ["deep-bench", "recipe", "run", str((roots[0] / RECIPE).resolve())], Path(about.home)
    commands = {tuple(record.command) for record in ran} or {()}
    if len(commands) > 1:
        shown = "; ".join(shlex.join(words)[:80] for words in sorted(commands)[:3])
        raise InvalidArgument(
            f"records of {len(commands)} commands: {shown}",
            "records of one",
            "say what repeats them all: command, or --command",
        )
    return list(commands.pop()), None


def _add_records(contents: Contents, results: Results, roots: Sequence[Path]) -> list[str]:
    """Take in the records, each under its path below the folder that it was found in."""
    paths = []
    for file in results.files():
        root = next(
            (r.resolve() for r in roots if r.is_dir() and file.resolve().is_relative_to(r.resolve())), file.resolve().parent
        )
        inside = file.resolve().relative_to(root).as_posix()
        paths.append(contents.add(file, f"records/{inside}", "record", inside))
        for arrays in beside(file):
            contents.add(arrays, str(Path(f"records/{inside}").with_name(arrays.name)), "samples")
    return paths


def _check_networks(run_inputs: CommandInputs, roots: Sequence[Path], *, ours: bool) -> None:
    """Whether the networks that were run are in the bundle, ship with deep_bench, or are made by the recipe."""
    faulty_names = {Path(path).stem for path in run_inputs.faults}
    made_by_recipes = {network_in(file)[0] for root in roots for file in root.glob("networks/*/*.onnx")}
    shipped = Path(deep_bench.__file__).parent / "data"
    for name, digests in run_inputs.recorded.networks.items():
        for checksum in sorted(digests - run_inputs.networks):
            if name in faulty_names or checksum in made_by_recipes:
                continue
            if (shipped / f"{name}.onnx").is_file() and deep_bench.load(name).sha256 == checksum:
                continue
            source = run_inputs.elsewhere.get(name, "")
            if ours and not source:
                run_inputs.faults[name] = f"is the network with SHA-256 {checksum}, which no file of the command is"
            else:  # a program of one's own may have made it
                reason = "no file of the command has its digest"
                run_inputs.contents.left.append(
                    Omission(what=f"the network {name}", why=reason, source=source, sha256={name: checksum})
                )


def _check_inputs(run_inputs: CommandInputs, folder: Path) -> None:
    if run_inputs.faults:
        raise InvalidRecord(
            f"not what was run: {'; '.join(f'{name} {reason}' for name, reason in run_inputs.faults.items())}",
            f"the files as they were, below {folder.resolve()}, where the command is looked up",
            "put them back, or bundle where the run was called; for a network, say where others can have the one that was "
            "run: --elsewhere NAME=WHERE",
        )
    sources = {omission.source for omission in run_inputs.contents.left}
    if unused := [name for name, source in run_inputs.elsewhere.items() if source not in sources]:
        raise InvalidArgument(f"{unused[0]} is not left out of the bundle", "what has to be had elsewhere, by its name")


def _add_data(ran: Sequence[AnyRecord]) -> list[Omission]:
    """Data sets of training: where they are from."""
    omissions: dict[str, Omission] = {}
    runs = (run for record in ran if isinstance(record, TrainingRecord) for run in record.runs)
    for name, facts in (item for run in runs for item in run.data.items()):
        if facts.get("source") and not facts.get("synthetic"):
            dataset = str(facts["name"])
            checksums = {dataset: str(facts["sha256"])} if facts.get("sha256") else {}
            reason = f"{name}: deep_bench loads it; licence: {facts.get('licence') or 'not told'}"
            omissions[dataset] = Omission(what=dataset, why=reason, source=str(facts["source"]), sha256=checksums)
    return list(omissions.values())


def _merge_all(mappings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _add_extras(contents: Contents, results: Results, again: Sequence[str]) -> list[str] | None:
    """What the run needs beside deep_bench's own requirements; ``None`` for all that is installed, where code is in it."""
    if again[:1] != ["deep-bench"] or any(file.role == "code" for file in contents.packed):
        return None
    return sorted({"data", *(result.labels.get("framework", "") for result in results)} - {""})


def _remarks(results: Results, arguments: Sequence[str]) -> list[str]:
    remarks = []
    if not arguments:
        remarks.append("the records tell no command: what repeats them has to be said by hand")
    elif not runs_deep_bench(arguments):
        remarks.append(
            f"the run was started by {Path(arguments[0]).name}, a program of its own, of which the named files are here"
        )
    if any(not result.complete for result in results):
        remarks.append("not every run came to its end")
    return remarks


def _write_archive(target: Path, manifest: Manifest, contents: Contents) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        content = manifest.model_dump_json(indent=1).encode() + b"\n"
        archive.writestr(zipfile.ZipInfo(MANIFEST, SAME_TIME), content, zipfile.ZIP_DEFLATED)
        for path in sorted(contents.files):
            entry = zipfile.ZipInfo(path, SAME_TIME)
            entry.compress_type = zipfile.ZIP_DEFLATED
            with contents.files[path].open("rb") as source, archive.open(entry, "w", force_zip64=True) as into:
                while block := source.read(2**20):
                    into.write(block)
