"""``repeat``: run a bundle again, and say whether the results are those of before."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from deep_bench.errors import Incomparable, InvalidArgument, InvalidRecord
from deep_bench.measure.storage import digest
from deep_bench.repeating.bits import Bits, computed, given
from deep_bench.repeating.bundling import bundle
from deep_bench.repeating.environment import clean, dropped, not_set, variables
from deep_bench.repeating.inputs import network_in
from deep_bench.repeating.manifest import MANIFEST, Manifest
from deep_bench.repeating.records import load_records
from deep_bench.repeating.repetition import LOG, Repetition
from deep_bench.repeating.trust import checked
from deep_bench.repeating.unpacking import check_folder, unpack
from deep_bench.repeating.words import AGAIN
from deep_bench.results import Results, gather
from deep_bench.results.comparing import compare
from deep_bench.results.comparing.facts import differing, facts_of

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
    place, manifest = _opened(Path(source), Path(folder), tell)
    _check_put(manifest, place)
    command = checked(manifest, place, here=here, allow_code=allow_code)
    if here:
        bin_folder = Path(sys.executable).parent
    else:
        bin_folder = clean(manifest, place, tell).parent
    if any(f"{AGAIN}/" in word for word in command):  # beside records, which a verb makes the folder for
        (place / AGAIN).mkdir()
    tell(f"running {' '.join(command)}")
    status = _run(_with(bin_folder, command), place, variables(manifest, here=here), limit_s)
    return _compared(manifest, place, tuple(command), status, here, margin)


def _opened(source: Path, folder: Path, tell: Tell) -> tuple[Path, Manifest]:
    """The folder with the bundle's files, as they were packed."""
    if source.is_dir() and (source / MANIFEST).is_file():
        manifest = check_folder(source)
        if source.resolve() == folder.resolve():
            if (source / AGAIN).exists():
                raise InvalidArgument(
                    f"{source / AGAIN} is there already", "a folder where nothing was repeated", "remove it"
                )
            return source, manifest
        _check_empty(folder)
        put = [path for omission in manifest.left for path in omission.files if (source / path).is_file()]
        for path in (MANIFEST, *(file.path for file in manifest.files), *put):
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source / path, folder / path)
        return folder, manifest
    if source.suffix == ".zip":
        return folder, unpack(source, folder)
    if not source.exists():
        raise InvalidRecord(f"there is no {source}", "a bundle, or a record")
    _check_empty(folder)
    archive = folder / "bundle.zip"
    folder.mkdir(parents=True, exist_ok=True)
    tell(f"bundling {source}")
    bundle([source], archive)
    return folder / "unpacked", unpack(archive, folder / "unpacked")


def _check_empty(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()):
        raise InvalidArgument(f"the folder {folder} has files", "an empty one, or a new one")


def _check_put(manifest: Manifest, folder: Path) -> None:
    """Whether all is there that the bundle does not hold, and that somebody has to put there."""
    for omission in manifest.left:
        for path, sha256 in omission.files.items():
            file = folder / path
            if not _is(file, sha256):
                hint = f"get it from {omission.source}, " if omission.source else ""
                raise InvalidRecord(
                    f"the bundle does not hold {omission.what}, and {file} is "
                    f"{'another file' if file.exists() else 'not there'}",
                    f"the file with SHA-256 {sha256}",
                    f"{hint}put it there, and repeat it in that folder: deep-bench repeat {folder} --into {folder}",
                )


def _is(file: Path, sha256: str) -> bool:
    """Whether a file has a digest, or is the network that has it."""
    if not file.is_file():
        return False
    return sha256 in (digest(file), *([network_in(file)[0]] if file.suffix == ".onnx" else []))


def _with(bin_folder: Path, command: Sequence[str]) -> list[str]:
    first, *arguments = command
    return (
        [str(bin_folder / first), *arguments] if first == "deep-bench" else [str(bin_folder / "python"), first, *arguments]
    )


def _run(command: Sequence[str], folder: Path, environment: dict[str, str], limit_s: float | None) -> int | None:
    """Run it in the folder; its exit status, or ``None`` after the limit. Ctrl-C ends it with all that it started."""
    with (folder / LOG).open("wb") as log:
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


def _compared(
    manifest: Manifest, folder: Path, command: tuple[str, ...], status: int | None, local: bool, margin: float
) -> Repetition:
    before = gather(*(folder / path for path in manifest.records))
    after = gather(folder / AGAIN) if (folder / AGAIN).is_dir() else Results()
    then, current = load_records(before.files()), load_records(after.files())
    comparisons, reason = None, ""
    if before and after:
        try:
            comparisons = compare(before, after, factor="record", margin=margin, allow=_allowed(before, after))
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
        given=Bits.of(given(then), given(current)),
        bits=Bits.of(computed(then), computed(current)),
        comparisons=comparisons,
        differences=_differences(before, after),
        not_set=tuple(not_set(manifest)),
        dropped=() if local else tuple(dropped()),
        why=reason,
        unread=tuple(map(str, after.refused)),
    )


def _differences(before: Results, after: Results) -> dict[str, tuple[str, str]]:
    """What differs in any pair of environments of the same framework."""
    differences: dict[str, tuple[str, str]] = {}
    for current in after:
        then = next(
            (candidate for candidate in before if candidate.labels.get("framework") == current.labels.get("framework")), None
        )
        if then is not None:
            differences |= differing(facts_of(then), facts_of(current))
    return differences


def _allowed(before: Results, after: Results) -> list[str]:
    """Everything about environments may differ: it is told, and what follows of it is what is asked."""
    names = {name for result in (*before, *after) for name in (*facts_of(result), *result.labels)}
    return sorted(names & {"version", "device", *(name for result in (*before, *after) for name in facts_of(result))})
