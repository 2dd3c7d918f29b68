"""``bundle``: all that somebody else needs to repeat a run, in one archive."""

from __future__ import annotations

import shlex
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import deep_bench
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.experiments.state import ABOUT, RECIPE, About
from deep_bench.measure.storage import read_model, written
from deep_bench.repeating import lock
from deep_bench.repeating.contents import Contents, beside
from deep_bench.repeating.inputs import Inputs, network_in, runs_deep_bench
from deep_bench.repeating.manifest import MANIFEST, Left, Lock, Manifest
from deep_bench.repeating.readme import readme
from deep_bench.repeating.records import AnyRecord, Recorded, load_records
from deep_bench.repeating.words import Word
from deep_bench.results import Results, gather
from deep_bench.training.record import TrainingRecord


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
    target, roots = _target(Path(archive), force), [Path(path) for path in records]
    results = _gathered(records)
    ran = load_records(results.files())
    arguments, home = (list(command), None) if command is not None else _command(ran, roots)
    with TemporaryDirectory() as scratch:
        contents = Contents()
        record_paths = _records(contents, results, roots)
        run_inputs = Inputs(contents, Recorded.of(ran), elsewhere or {})
        again = run_inputs.command(arguments, Path(folder), home)
        for path in inputs:
            present = Path(folder, path).exists()
            run_inputs.take(Word("", str(path), use="reads" if present else "missing"), Path(folder))
        _check_networks(run_inputs, roots, ours=runs_deep_bench(arguments))
        _check_inputs(run_inputs, Path(folder))
        if licence_file is not None:
            contents.add(Path(licence_file), "LICENCE.txt", "licence")
        manifest = Manifest(
            created=max(result.created for result in results),
            deep_bench=deep_bench.__version__,
            title=title or _titled(results),
            command=again,
            variables=_of_all(record.environment.variables for record in ran),
            records=record_paths,
            files=contents.packed,
            left=[*contents.left, *_data(ran)],
            licence=licence,
            lock=_lock(contents, ran, Path(scratch), _extras(contents, results, again)),
            remarks=_remarks(results, arguments),
        )
        manifest = _explained(contents, manifest, Path(scratch))
        written(target, lambda temporary: _write(temporary, manifest, contents))
    return manifest


def _target(archive: Path, force: bool) -> Path:
    if archive.suffix != ".zip":
        raise InvalidArgument(f"the archive {archive}", "a name that ends in .zip")
    if archive.exists() and not force:
        raise InvalidArgument(f"{archive} is there already", "a new file", "name another, or say --force (force=True)")
    return archive


def _gathered(records: Sequence[str | Path]) -> Results:
    results = gather(*records)
    if results.refused:
        raise InvalidRecord(str(results.refused[0]), "records that can be read: a bundle leaves none out in silence")
    if not results:
        raise InvalidArgument(f"no record in {', '.join(map(str, records))}", "files or folders of records")
    return results


def _command(ran: Sequence[AnyRecord], roots: Sequence[Path]) -> tuple[list[str], Path | None]:
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


def _records(contents: Contents, results: Results, roots: Sequence[Path]) -> list[str]:
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


def _check_networks(run_inputs: Inputs, roots: Sequence[Path], *, ours: bool) -> None:
    """Whether the networks that were run are in the bundle, ship with deep_bench, or are made by the recipe."""
    faulty_names = {Path(path).stem for path in run_inputs.faults}
    for name, digests in run_inputs.recorded.networks.items():
        for checksum in sorted(digests - run_inputs.networks):
            if name in faulty_names or _ships(name, checksum) or checksum in _made_by_recipes(roots):
                continue
            source = run_inputs.elsewhere.get(name, "")
            if ours and not source:
                run_inputs.faults[name] = f"is the network with SHA-256 {checksum}, which no file of the command is"
            else:  # a program of one's own may have made it
                reason = "no file of the command has its digest"
                run_inputs.contents.left.append(
                    Left(what=f"the network {name}", why=reason, source=source, sha256={name: checksum})
                )


def _ships(name: str, sha256: str) -> bool:
    """Whether a network comes with deep_bench itself."""
    return (Path(deep_bench.__file__).parent / "data" / f"{name}.onnx").is_file() and deep_bench.load(name).sha256 == sha256


def _made_by_recipes(roots: Sequence[Path]) -> set[str]:
    """Networks with fresh parameters, which a recipe of an experiment makes again."""
    return {network_in(file)[0] for root in roots for file in root.glob("networks/*/*.onnx")}


def _check_inputs(run_inputs: Inputs, folder: Path) -> None:
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


def _data(ran: Sequence[AnyRecord]) -> list[Left]:
    """Data sets of training: where they are from."""
    omissions: dict[str, Left] = {}
    runs = (run for record in ran if isinstance(record, TrainingRecord) for run in record.runs)
    for name, facts in (item for run in runs for item in run.data.items()):
        if facts.get("source") and not facts.get("synthetic"):
            dataset = str(facts["name"])
            checksums = {dataset: str(facts["sha256"])} if facts.get("sha256") else {}
            reason = f"{name}: deep_bench loads it; licence: {facts.get('licence') or 'not told'}"
            omissions[dataset] = Left(what=dataset, why=reason, source=str(facts["source"]), sha256=checksums)
    return list(omissions.values())


def _of_all(mappings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    return {name: value for mapping in mappings for name, value in mapping.items()}


def _extras(contents: Contents, results: Results, again: Sequence[str]) -> list[str] | None:
    """What the run needs beside deep_bench's own requirements; ``None`` for all that is installed, where code is in it."""
    if again[:1] != ["deep-bench"] or any(file.role == "code" for file in contents.packed):
        return None
    return sorted({"data", *(result.labels.get("framework", "") for result in results)} - {""})


def _lock(contents: Contents, ran: Sequence[AnyRecord], scratch: Path, extras: list[str] | None) -> Lock:
    lines = lock.requirements(extras)
    file, wheel = scratch / "requirements.txt", scratch / lock.wheel_name()
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    lock.write_wheel(wheel)
    contents.add(wheel, f"package/{wheel.name}", "package")
    return Lock(
        python=lock.python(),
        platform=lock.system(),
        file=contents.add(file, "lock/requirements.txt", "lock"),
        drifted=lock.drifted(_of_all(record.environment.packages for record in ran), lines),
    )


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


def _titled(results: Results) -> str:
    names = list(dict.fromkeys(result.name for result in results))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _explained(contents: Contents, manifest: Manifest, scratch: Path) -> Manifest:
    """The manifest with a README of itself."""
    text = scratch / "README.md"
    text.write_text(readme(manifest), encoding="utf-8")
    contents.add(text, "README.md", "readme")
    return manifest.model_copy(update={"files": contents.packed})


def _write(target: Path, manifest: Manifest, contents: Contents) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        content = manifest.model_dump_json(indent=1).encode() + b"\n"
        archive.writestr(zipfile.ZipInfo(MANIFEST, lock.SAME_TIME), content, zipfile.ZIP_DEFLATED)
        for path in sorted(contents.files):
            with contents.files[path].open("rb") as source, archive.open(_entry(path), "w", force_zip64=True) as into:
                while block := source.read(2**20):
                    into.write(block)


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, lock.SAME_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
