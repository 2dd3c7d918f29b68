"""What verbs that read print of stored records: text, JSON, files that they write, and exit statuses, to the letter."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.stored.stored import Texts, among_records, stored, transcript, without_trailing_blanks

COMMANDS: dict[str, tuple[str, ...]] = {
    "show/network": ("show network", "show network --json", "show network --rules"),
    "show/launches": ("show launches", "show launches --json", "show launches --rules"),
    "show/sweep": ("show sweep", "show sweep/50521a6b", "show sweep/c64ed985 --json"),
    "show/operators": (
        "show operators/checked",
        "show operators/checked --json",
        "show operators/checked --rules",
        "show operators/unchecked",
        "show operators/unchecked --json",
        "show operators/unchecked --rules",
    ),
    "show/communication": ("show communication", "show communication --json", "show communication --rules"),
    "show/training": ("show training/frameworks", "show training/one", "show training/ranks", "show training/one --rules"),
    "show/training_json": ("show training/frameworks --json", "show training/ranks --json"),
    "show/scaling": ("show scaling", "show scaling --json"),
    "show/mlperf": ("show inference/performance", "show inference/accuracy", "show mlperf/records"),
    "show/experiment": ("show experiment", "show experiment/aa078845dde6"),
    "show/no_results": (
        "show communication/machine.json",
        "show files/timeline.json",
        "show files/profile.json",
        "show files/roofline.json",
        "show files/bundle.zip",
        "show repetition",
        "show nothing",
    ),
    "ls/all": ("ls .",),
    "ls/all_json": ("ls . --json",),
    "ls/chosen": (
        "ls network operators --label device --where system=onnxruntime",
        "ls . --where framework=nothing",
        "ls . --where sytem=torch",
        "ls network --label nothing",
        "ls nothing",
    ),
    "compare/records": (
        "compare before after",
        "compare before after --json",
        "compare before after --correction none",
        "compare before after --metric forward --margin 0.01%",
        "compare before network",
        "compare before network --factor framework",
    ),
    "compare/systems": (
        "compare network/2026-12-01T03-48-22_small_ec803ac0.json --base onnxruntime",
        "compare operators/checked --base reference",
        "compare operators/checked --base reference --json",
        "compare sweep --base onnxruntime",
        "compare training/frameworks --base torch",
        "compare operators/checked --base nothing",
    ),
    "compare/gate": (
        "compare before after --fail-on slower:5%",
        "compare before before --fail-on slower:5%",
        "compare operators/checked --base onnxruntime --fail-on slower:10%",
        "compare operators/checked --base onnxruntime --fail-on slower:5%",
        "compare operators/checked --base reference --fail-on wrong",
    ),
    "export/table": ("export . -o all.csv | all.csv",),
    "export/json": ("export network operators/checked -o all.json | all.json",),
    "export/reframe": (
        "export network operators/checked --format reframe -o report.json | report.json",
        "export network --format reframe -o performance.log | performance.log",
    ),
    "export/jube": (
        "export network training --format jube -o table.csv | table.csv",
        "export network training --format jube -o table.dat | table.dat",
    ),
    "export/benchpark": ("export network scaling --format benchpark -o merits.json | merits.json",),
    "export/refused": ("export network -o table.txt", "export network --format jube --samples -o table.csv"),
    "report/all": ("report . -o all.md | all.md",),
    "report/two": (
        "report before after --base onnxruntime --title Two --note quiet -o two.md | two.md",
        "report before -o two.txt",
        "report before --base nothing -o other.md",
    ),
    "badges/bundle": (
        "badges files/bundle.zip",
        "badges files/bundle.zip --repeated repetition",
        "badges files/bundle.zip --repeated repetition --doi 10.5281/zenodo.1 --archive Zenodo --paper Paper --json",
        "badges experiment",
    ),
    "recipe/list": ("recipe list", "recipe list --json"),
    "recipe/check": (
        "recipe check files/recipe.yaml",
        "recipe check small-network",
        "recipe check files/suite.toml",
        "recipe check files/recipe.yaml --set fixed.budgt=3s",
        "recipe check nothing",
    ),
    "recipe/expand": (
        "recipe expand files/recipe.yaml",
        "recipe expand files/recipe.yaml --json",
        "recipe expand small-training",
        "recipe expand small-operators --json",
        "recipe expand small-scaling",
        "recipe expand deepbench-allreduce --json",
        "recipe run files/recipe.yaml --dry-run --only batch=2",
    ),
    "recipe/status": ("recipe status experiment", "recipe status experiment --json", "recipe status network"),
    "mlperf/training": (
        "mlperf check mlperf",
        "mlperf score mlperf",
        "mlperf rcp mlperf --reference digits",
        "mlperf rcp mlperf --reference files/reference.json",
        "mlperf tags mlperf/results/node1/digits/result_0.txt -o tags.txt | tags.txt",
    ),
    "mlperf/submission": (
        "mlperf submission inference/performance inference/accuracy --submitter Nobody --system node1"
        " --facts files/facts.yaml -o submission",
    ),
    "scale/machine": (
        "scale digits --ranks 4,8 --machine communication/machine.json --over gloo",
        "scale digits --ranks 4,8 --machine files/roofline.json",
        "scale digits --ranks 4,8 --machine communication/machine.json --measured training/one",
    ),
    "environments/list": (
        "environments list --file files/environments.yaml",
        "environments list --file files/environments.yaml --json",
        "environments check ort120 --file files/environments.yaml",
        "environments remove ort120",
    ),
    "transform/small": (
        "transform files/small.onnx --fold --check",
        "transform files/small.onnx --batch 4 --output batch.onnx --check",
        "transform files/small.onnx --sizes batch=2 --cut 2 --output stage.onnx --json",
        "transform digits-cnn --fuse-batchnorm --check --json",
        "transform files/small.onnx --fold",
    ),
    "data/containers": (
        "data containers/cifar containers/folder containers/hdf5.h5 containers/idx containers/npy --verify",
        "data containers/recordio.rec containers/tar.tar containers/tfrecord.tfrecord containers/webdataset --verify",
        "data containers/hdf5.h5 --json",
        "data containers/hdf5.h5 --convert npy --output converted",
        "data digits",
        "data digits/test --json",
        "data nothing",
    ),
}

NEEDS = {
    "mlperf/training": "mlperf_logging",
    "report/all": "matplotlib",
    "report/two": "matplotlib",
}


def _transcripts(commands: tuple[str, ...]) -> str:
    parts = []
    for command in commands:
        line, *files = command.split(" | ")
        parts.append(transcript(line, *files))
    return "\n".join(parts)


class VisibleText(HTMLParser):
    """The words of a page, a line for each piece of text; pictures, styles and what is packed into it are left out."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style", "svg")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("script", "style", "svg")

    def handle_data(self, data: str) -> None:
        if data.strip() and not self._hidden:
            self.lines.append(" ".join(data.split()))


def _page() -> str:
    said = transcript("report before operators/checked training/one scaling -o page.html")
    page = VisibleText()
    page.feed(Path("page.html").read_text(encoding="utf-8"))
    return without_trailing_blanks("\n".join([said, *page.lines]))


def texts() -> Texts:
    """What each verb prints now."""
    found = {f"output/{name}.txt": lambda commands=commands: _transcripts(commands) for name, commands in COMMANDS.items()}
    return {**found, "output/report/page.txt": _page}


@pytest.fixture(autouse=True)
def _records(tmp_path: Path) -> Iterator[None]:
    with among_records(tmp_path / "records"):
        yield


@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_stored(name: str) -> None:
    needed = NEEDS.get(name)
    if needed is not None and find_spec(needed) is None:
        pytest.skip(f"{needed} is not installed")
    assert _transcripts(COMMANDS[name]) == stored(f"output/{name}.txt")


@pytest.mark.skipif(find_spec("matplotlib") is None, reason="matplotlib is not installed")
def test_words_of_a_page_are_as_stored() -> None:
    assert _page() == stored("output/report/page.txt")


@pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
@pytest.mark.parametrize("chosen", ["network operators/checked", "network --samples"])
def test_parquet_holds_what_csv_holds(chosen: str) -> None:
    import pyarrow.parquet

    for file in ("table.parquet", "table.csv"):
        assert "[exit status 0]" in transcript(f"export {chosen} -o {file}")
    rows = pyarrow.parquet.read_table("table.parquet").to_pylist()
    with open("table.csv", encoding="utf-8", newline="") as file:
        written = list(csv.DictReader(file))
    assert len(rows) == len(written) > 0
    for row, other in zip(rows, written, strict=True):
        assert list(row) == list(other)
        assert (row["figure"] or "") == other["figure"]
        assert (row["unit"] or "") == other["unit"]
