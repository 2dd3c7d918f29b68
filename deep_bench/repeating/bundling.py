"""``bundle``: all that somebody else needs to repeat a run, in one archive."""

from __future__ import annotations

import json
import shlex
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import deep_bench
from deep_bench.errors import InvalidArgument, InvalidRecord
from deep_bench.measure.storage import written
from deep_bench.repeating import lock
from deep_bench.repeating.contents import Contents, beside
from deep_bench.repeating.manifest import MANIFEST, Left, Lock, Manifest
from deep_bench.repeating.readme import readme
from deep_bench.repeating.words import AGAIN, words
from deep_bench.results import Results, gather


def bundle(
    records: Sequence[str | Path],
    archive: str | Path,
    *,
    command: Sequence[str] | None = None,
    folder: str | Path = ".",
    inputs: Sequence[str | Path] = (),
    licence: str = "",
    licence_file: str | Path | None = None,
    title: str = "",
) -> Manifest:
    """Write an archive with records, what the run read, the exact environment, deep_bench itself, and how to repeat it.

    Files that the command names are taken in, and compared with the digests of the record where it has some. What is too
    large, or cannot be found, is listed with what is known of it. Equal contents make equal archives.

    Args:
        records: Files of one run, or a folder of the records of one recipe.
        archive: The file to write, ``.zip``.
        command: What is run to repeat it; by default what the records say.
        folder: Where it was given, for paths in it.
        inputs: Further files that it reads, which its words do not name.
        licence: Under which it is shared, such as ``"CC-BY-4.0"``.
        licence_file: The licence's text.
        title: What it is.

    Raises:
        InvalidArgument: No record, records of several commands, an archive that is no ``.zip`` or cannot be written.
        InvalidRecord: A record that cannot be read, or a file that is not what the record says.

    Example:
        >>> import tempfile
        >>> import deep_bench as db
        >>> with tempfile.TemporaryDirectory() as place:
        ...     run = db.run("digits-cnn", on=["reference"], budget=0.3, twin=False, progress=False, output=place)
        ...     made = bundle([place], f"{place}/run.zip", command=["deep-bench", "run", "digits-cnn", "--on", "reference"])
        >>> sorted({file.role for file in made.files}), made.command[-2:]
        (['lock', 'package', 'readme', 'record'], ['--output', 'repeated'])
    """
    target = Path(archive)
    if target.suffix != ".zip":
        raise InvalidArgument(f"the archive {target}", "a name that ends in .zip")
    found = _gathered(records)
    told = [json.loads(file.read_bytes()) for file in found.files()]
    given = list(command) if command is not None else _command(told, [Path(path) for path in records])
    with TemporaryDirectory() as scratch:
        contents = Contents()
        kept = _records(contents, found, [Path(path) for path in records])
        again = _inputs(contents, given, Path(folder), inputs)
        _check_networks(contents, told, given)
        if licence_file is not None:
            contents.add(Path(licence_file), "LICENCE.txt", "licence")
        made = Manifest(
            created=max(result.created for result in found),
            deep_bench=deep_bench.__version__,
            title=title or _titled(found),
            command=again,
            variables=_variables(told),
            records=kept,
            files=contents.packed,
            left=[*contents.left, *_data(told)],
            licence=licence,
            lock=_lock(contents, told, Path(scratch), _extras(contents, found, again)),
            remarks=_remarks(found, given),
        )
        made = _explained(contents, made, Path(scratch))
        written(target, lambda temporary: _write(temporary, made, contents))
    return made


def _gathered(records: Sequence[str | Path]) -> Results:
    found = gather(*records)
    if found.refused:
        raise InvalidRecord(str(found.refused[0]), "records that can be read: a bundle leaves none out in silence")
    if not found:
        raise InvalidArgument(f"no record in {', '.join(map(str, records))}", "files or folders of records")
    return found


def _command(told: Sequence[Mapping[str, Any]], roots: Sequence[Path]) -> list[str]:
    """The command that all records came from; of a recipe's folder, what runs the recipe."""
    recipes = [root / "recipe.yaml" for root in roots if (root / "recipe.yaml").is_file()]
    if len(roots) == 1 and recipes:
        return ["deep-bench", "recipe", "run", str(recipes[0].resolve())]
    commands = {tuple(content.get("command") or ()) for content in told}
    if len(commands) > 1:
        shown = "; ".join(shlex.join(one)[:80] for one in sorted(commands)[:3])
        raise InvalidArgument(
            f"records of {len(commands)} commands: {shown}",
            "records of one",
            "say what repeats them all: command, or --command",
        )
    return list(commands.pop())


def _records(contents: Contents, found: Results, roots: Sequence[Path]) -> list[str]:
    """Take in the records, each under its path below the folder that it was found in."""
    kept = []
    for file in found.files():
        root = next(
            (r.resolve() for r in roots if r.is_dir() and file.resolve().is_relative_to(r.resolve())), file.resolve().parent
        )
        inside = file.resolve().relative_to(root).as_posix()
        kept.append(contents.add(file, f"records/{inside}", "record", inside))
        for arrays in beside(file):
            contents.add(arrays, str(Path(f"records/{inside}").with_name(arrays.name)), "samples")
    return kept


def _inputs(contents: Contents, given: Sequence[str], folder: Path, further: Sequence[str | Path]) -> list[str]:
    """The command with paths in the archive; what it reads is taken in."""
    again: list[str] = []
    writes = False
    for number, word in enumerate(words(given, folder)):
        if word.use == "writes":
            again.append(word.named(AGAIN))
            writes = True
        elif not number and _is_ours(str(word)):
            again.append("deep-bench")
        elif word.use == "reads":
            again.append(word.named(contents.take(folder / word.text, word.text)))
        else:
            again.append(str(word))
    for path in further:
        contents.take(folder / path, str(path))
    return again if writes or not again or not _is_ours(again[0]) else [*again, "--output", AGAIN]


def _is_ours(program: str) -> bool:
    return Path(program).name in ("deep-bench", "__main__.py")


def _check_networks(contents: Contents, told: Sequence[Mapping[str, Any]], given: Sequence[str]) -> None:
    """Whether the networks that were run are here, or ship with deep_bench; say where that is not known."""
    here = {file.sha256 for file in contents.packed if file.path.endswith(".onnx")}
    asked = {network["sha256"]: network["name"] for content in told if (network := content.get("network"))}
    for found, name in asked.items():
        if found not in here and name not in given and not _ships(name, found):
            why = "no file of the command has its digest"
            contents.left.append(Left(what=f"the network {name}", why=why, sha256={name: found}))


def _ships(name: str, sha256: str) -> bool:
    """Whether a network comes with deep_bench itself."""
    return (Path(deep_bench.__file__).parent / "data" / f"{name}.onnx").is_file() and deep_bench.load(name).sha256 == sha256


def _data(told: Sequence[Mapping[str, Any]]) -> list[Left]:
    """Data sets of training: where they are from."""
    found: dict[str, Left] = {}
    for content in told:
        for run in content.get("runs", ()):
            for name, facts in (run.get("data") or {}).items():
                if isinstance(facts, Mapping) and facts.get("source") and not facts.get("synthetic"):
                    known = {facts["name"]: facts["sha256"]} if facts.get("sha256") else {}
                    why = f"{name}: deep_bench loads it; licence: {facts.get('licence') or 'not told'}"
                    found[facts["name"]] = Left(what=facts["name"], why=why, source=facts["source"], sha256=known)
    return list(found.values())


def _variables(told: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    return {k: v for content in told for k, v in (content.get("environment") or {}).get("variables", {}).items()}


def _extras(contents: Contents, found: Results, again: Sequence[str]) -> list[str] | None:
    """What the run needs beside deep_bench's own requirements; ``None`` for all that is installed, where code is in it."""
    if again[:1] != ["deep-bench"] or any(file.role == "code" for file in contents.packed):
        return None
    return sorted({"data", *(result.labels.get("framework", "") for result in found)} - {""})


def _lock(contents: Contents, told: Sequence[Mapping[str, Any]], scratch: Path, extras: list[str] | None) -> Lock:
    lines = lock.requirements(extras)
    file, wheel = scratch / "requirements.txt", scratch / lock.wheel_name()
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    lock.write_wheel(wheel)
    packages = {k: v for content in told for k, v in (content.get("environment") or {}).get("packages", {}).items()}
    contents.add(wheel, f"package/{wheel.name}", "package")
    return Lock(
        python=lock.python(),
        platform=lock.system(),
        file=contents.add(file, "lock/requirements.txt", "lock"),
        drifted=lock.drifted(packages, lines),
    )


def _remarks(found: Results, given: Sequence[str]) -> list[str]:
    said = []
    if not given:
        said.append("the records tell no command: what repeats them has to be said by hand")
    elif not _is_ours(given[0]):
        said.append(f"the run was started by {Path(given[0]).name}, a program of its own, of which the named files are here")
    if any(not result.complete for result in found):
        said.append("not every run came to its end")
    return said


def _titled(found: Results) -> str:
    names = list(dict.fromkeys(result.name for result in found))
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _explained(contents: Contents, made: Manifest, scratch: Path) -> Manifest:
    """The manifest with a README of itself."""
    text = scratch / "README.md"
    text.write_text(readme(made), encoding="utf-8")
    contents.add(text, "README.md", "readme")
    return made.model_copy(update={"files": contents.packed})


def _write(target: Path, made: Manifest, contents: Contents) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        content = made.model_dump_json(indent=1).encode() + b"\n"
        archive.writestr(zipfile.ZipInfo(MANIFEST, lock.SAME_TIME), content, zipfile.ZIP_DEFLATED)
        for path in sorted(contents.files):
            with contents.files[path].open("rb") as source, archive.open(_entry(path), "w", force_zip64=True) as into:
                while block := source.read(2**20):
                    into.write(block)


def _entry(path: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(path, lock.SAME_TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
