"""The binary files of CIFAR-10 and CIFAR-100.

A sample is a byte with its class (CIFAR-100: one with the coarse class before it), then 32 x 32 red, green and blue bytes.

Source:
    Krizhevsky, The CIFAR-10 and CIFAR-100 datasets, "Binary version".
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.tensor import TensorSpec
from deep_bench.training.containers.arrays import ArrayContainer, DenseField, JoinedField
from deep_bench.training.containers.container import LABEL, Container, ContainerManifest, Origin, refuse
from deep_bench.training.containers.kinds import Content, Details

_COARSE = "coarse_label"
_LABELS = {10: (LABEL,), 100: (_COARSE, LABEL)}
_IMAGE = TensorSpec("image", (3, 32, 32), np.dtype(np.uint8))
_RECORDS = {
    classes: np.dtype([*((name, np.uint8) for name in labels), (_IMAGE.name, np.uint8, _IMAGE.shape)])
    for classes, labels in _LABELS.items()
}
_NAMES = (
    (re.compile(r"data_batch_(\d+)\.bin"), "train", 10),
    (re.compile(r"test_batch\.bin"), "test", 10),
    (re.compile(r"train\.bin"), "train", 100),
    (re.compile(r"test\.bin"), "test", 100),
)
_CLASS_NAMES = {10: "batches.meta.txt", 100: "fine_label_names.txt"}


def recognise(path: Path, head: bytes) -> bool:
    """Whether it looks like one: there is nothing in the files to know them by, so their names decide."""
    del head
    files = path.iterdir() if path.is_dir() else [path]
    return any(_original_file(file.name) is not None for file in files)


def open_files(
    path: Path, manifest: ContainerManifest | None, part: str | None = None, classes: int | None = None
) -> Container:
    """Map the files.

    Args:
        path: The folder, or one of the files.
        manifest: What its writer noted.
        part: ``"train"`` or ``"test"``, where the folder has both.
        classes: 10 or 100, where a file's name does not say it.
    """
    if classes not in (None, *_LABELS):
        raise InvalidArgument(f"classes={classes}", "10 or 100")
    files, class_count = _files(path, part, classes)
    record = _RECORDS[class_count]
    arrays = [_mapped(file, record) for file in files]
    specs = (_IMAGE, *(TensorSpec(name, (), np.dtype(np.int64)) for name in _LABELS[class_count]))
    if manifest is not None and set(manifest.specs) != set(specs):
        raise InvalidData(f"{path} holds {'; '.join(map(str, specs))}", "; ".join(map(str, manifest.specs)))
    fields = {spec.name: JoinedField([DenseField(array[spec.name], spec.dtype) for array in arrays]) for spec in specs}
    options = {name: value for name, value in (("part", part), ("classes", classes)) if value is not None}
    named = _class_names(path if path.is_dir() else path.parent, class_count)
    origin = Origin("cifar", path, tuple(files), manifest, options, classes=named)
    return ArrayContainer(origin, specs, fields)


def write(stage: Path, name: str, content: Content) -> Details:
    """Write one file: CIFAR-10's form if there is one label, CIFAR-100's if there is a coarse one too."""
    del name
    content.of_one_size()
    classes = 100 if content.spec(_COARSE) is not None else 10
    allowed = {spec.name: spec for spec in (_IMAGE, *(TensorSpec(n, (), np.dtype(np.int64)) for n in _LABELS[classes]))}
    for spec in content.specs:
        if allowed.get(spec.name) != spec:
            expected = "; ".join(map(str, allowed.values()))
            raise refuse("CIFAR's binary files", spec, expected)
    if missing := allowed.keys() - {spec.name for spec in content.specs}:
        raise InvalidArgument(f"a set without {', '.join(sorted(missing))}", "; ".join(map(str, allowed.values())))
    with open(stage / ("data_batch_1.bin" if classes == 10 else "train.bin"), "wb") as file:
        for batch in content.batches():
            records = np.empty(len(batch[LABEL]), _RECORDS[classes])
            for field, values in batch.items():
                if field != _IMAGE.name and len(values) and not 0 <= values.min() <= values.max() <= 255:
                    raise refuse("CIFAR's binary files", allowed[field], "labels from 0 to 255")
                records[field] = values
            file.write(records.tobytes())
    if content.classes is not None and not any("\n" in text for text in content.classes):
        (stage / _CLASS_NAMES[classes]).write_text("\n".join(content.classes) + "\n", encoding="utf-8")
    return Details()


def _original_file(name: str) -> tuple[str, int, int] | None:
    """The part, the number of classes and the place in the part, of a file with one of the original names."""
    for pattern, part, classes in _NAMES:
        if match := pattern.fullmatch(name):
            return part, classes, int(match[1]) if pattern.groups else 0
    return None


def _files(path: Path, part: str | None, classes: int | None) -> tuple[list[Path], int]:
    if path.is_file():
        entry = _original_file(path.name)
        return [path], classes or (entry[1] if entry else _by_size(path))
    known_files = {file: entry for file in path.iterdir() if (entry := _original_file(file.name)) is not None}
    parts = sorted({entry[0] for entry in known_files.values()})
    if not parts:
        raise InvalidData(f"{path} has no files of CIFAR", "data_batch_1.bin, test_batch.bin, train.bin or test.bin")
    if part is None and len(parts) > 1:
        raise InvalidArgument(f"{path} has the sets {', '.join(parts)}", "one of them", "name it: part=train")
    selected = parts[0] if part is None else part
    chosen = {file: entry for file, entry in known_files.items() if entry[0] == selected}
    class_counts = {entry[1] for entry in chosen.values()}
    if not chosen:
        raise InvalidArgument(f"{path} has no set {selected!r}", f"one of {', '.join(parts)}")
    if len(class_counts) > 1:
        raise InvalidData(f"{path} has files of CIFAR-10 and of CIFAR-100", "files of one of them", "name a file")
    return sorted(chosen, key=lambda file: chosen[file][2]), classes or class_counts.pop()


def _by_size(path: Path) -> int:
    size = os.path.getsize(path)
    fitting = [classes for classes, record in _RECORDS.items() if size % record.itemsize == 0]
    if len(fitting) != 1 or not size:
        sizes = " or ".join(f"{record.itemsize} (CIFAR-{classes})" for classes, record in _RECORDS.items())
        raise InvalidData(
            f"{path} has {size} bytes", f"a multiple of the size of a sample: {sizes}", "say which: classes=10"
        )
    return fitting[0]


def _mapped(file: Path, record: np.dtype) -> np.ndarray:
    size = os.path.getsize(file)
    whole, remainder = divmod(size, record.itemsize)
    if remainder:
        raise InvalidData(
            f"{file} has {size} bytes: sample {whole} at offset {whole * record.itemsize} is cut off",
            f"a multiple of {record.itemsize} bytes",
            "get the data again",
        )
    return np.memmap(file, record, "r") if size else np.empty(0, record)


def _class_names(folder: Path, classes: int) -> tuple[str, ...] | None:
    file = folder / _CLASS_NAMES[classes]
    if not file.is_file():
        return None
    return tuple(line.strip() for line in file.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip())
