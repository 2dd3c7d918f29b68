"""Sets in the files that their authors publish: MNIST, Fashion-MNIST, CIFAR-10 and CIFAR-100."""

from __future__ import annotations

import shutil
import tarfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.dataset import Dataset
from deep_bench.training.sets.arrays import ArrayDataset
from deep_bench.training.sets.description import Description
from deep_bench.training.sets.download import fetch, mirrors_of
from deep_bench.training.sets.folders import alone_in, data_folder
from deep_bench.training.sets.views import Described

Part = Literal["train", "test"]


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
    part: Part = "train",
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
    part: Part = "train",
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
    part: Part = "train",
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
    part: Part = "train",
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
