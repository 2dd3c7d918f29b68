"""The documentation as a whole, unbuilt: links lead somewhere, every page can be found, every verb is explained."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from deep_bench.cli import _cli

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if not {"reference", "extensions"} & set(page.relative_to(DOCS).parts))
GENERATED = {"reference/index"}


def name_of(page: Path) -> str:
    return page.relative_to(DOCS).with_suffix("").as_posix()


def prose(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def links(page: Path) -> Iterator[str]:
    for target in re.findall(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)", prose(page)):
        if not re.match(r"[a-z]+:", target):
            yield target


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def in_navigation() -> list[str]:
    trees = re.findall(
        r"^```\{toctree\}\n(.*?)^```$", (DOCS / "index.md").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    return [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]


def unwritten(verbs: set[str], text: str) -> set[str]:
    """The verbs that no line of a text shows in use."""
    return {verb for verb in verbs if not re.search(rf"\bdeep-bench {verb}\b", text)}


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    broken = []
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(link)
    assert not broken


def test_every_page_is_in_the_navigation_once() -> None:
    listed = in_navigation()
    assert sorted(listed) == sorted({name_of(page) for page in PAGES if name_of(page) != "index"} | GENERATED)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_has_one_title(page: Path) -> None:
    assert len(re.findall(r"^# ", prose(page), flags=re.MULTILINE)) == 1


def test_every_verb_is_on_some_page() -> None:
    verbs = set(_cli.list_commands(click.Context(_cli)))
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    assert unwritten(verbs, text) == set()


def test_a_verb_without_a_page_is_found() -> None:
    assert unwritten({"run", "list", "ls"}, "Try `deep-bench run model.onnx`, and `deep-bench lsof`.") == {"list", "ls"}


def test_pages_name_no_file_that_is_not_there() -> None:
    named = {
        (name_of(page), path)
        for page in PAGES
        for path in re.findall(r"\b(?:benchmarks|examples|reference)/[\w/]+\.\w+", page.read_text(encoding="utf-8"))
    }
    assert {(page, path) for page, path in named if not (ROOT / path).exists()} == set()


@pytest.mark.parametrize(
    ("formula", "found"),
    [
        (r"\tfrac12 (r - l)", '<mn>1</mn>\n    <mn>2</mn>\n  </mfrac>\n  <mo stretchy="false">(</mo>'),
        (r"\Big(\textstyle x\Big)", "<mi>x</mi>"),
        (r"\sqrt{\sum_{i \le t} a_i^2}", "<msqrt>"),
    ],
)
def test_formulas_are_set_without_scripts(formula: str, found: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the documentation's tools are not installed")
    monkeypatch.syspath_prepend(str(DOCS / "extensions"))
    monkeypatch.delitem(sys.modules, "mathml", raising=False)
    from mathml import mathml

    assert found in mathml(formula)
