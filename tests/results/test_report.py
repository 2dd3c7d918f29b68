"""Reports: what is in them, that strangers' names are only names, and that a page is fit to be read anywhere."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import html5lib
import numpy as np
import pytest
from click.testing import CliRunner

from deep_bench.cli.report import command
from deep_bench.distributed.scaling.record import load_scaling
from deep_bench.distributed.scaling.report import as_text, measured_rows, step_rows
from deep_bench.errors import InvalidArgument, UnknownName, Unsupported
from deep_bench.measure.timing import Block
from deep_bench.results import Results, gather
from deep_bench.results.report import provenance, write, writing
from deep_bench.results.report.contents import draw as drawn
from deep_bench.results.report.contents import report
from deep_bench.results.report.model import Attachment, Sign, Table, clean
from deep_bench.results.report.rules import _plots as plots_rule
from deep_bench.results.report.summary import named_base
from deep_bench.results.result import time_figure
from tests.results.made import blocks, figure, result, runs

HOSTILE = '<script>alert("1")</script><img src=x onerror=alert(2)>$\\frac{ & | `x` [y](javascript:z) \u202e\x07'
HTML = "{http://www.w3.org/1999/xhtml}"
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def parsed(text: str) -> ElementTree.Element:
    """A page, refused if anything in it is not as HTML wants it."""
    root: ElementTree.Element = html5lib.HTMLParser(strict=True, namespaceHTMLElements=True).parse(text)
    return root


def faults(text: str) -> list[str]:
    """What makes a page unfit: names that became elements, references outwards, names given twice, what cannot be read."""
    root = parsed(text)
    found = [f"element {e.tag}" for e in root.iter() if e.tag.rpartition("}")[2] in _FORBIDDEN]
    for e in root.iter():
        found += [f"attribute {key}" for key in e.attrib if key.lower().startswith("on")]
        found += [f"reference {value[:40]}" for key, value in e.attrib.items() if _refers(key) and not _harmless(value)]
        found += [
            f"style {v}"
            for k, v in e.attrib.items()
            if "url(" in v and not re.search(r"url\(#[\w -]+\)", v) and k != "aria-label"
        ]
    ids = Counter(e.attrib["id"] for e in root.iter() if "id" in e.attrib)
    found += [f"id {name} {count} times" for name, count in ids.items() if count > 1]
    found += [f"{e.tag} without a text" for e in root.iter() if e.tag.endswith("}img") and not e.attrib.get("alt")]
    drawings = [e for e in root.iter() if e.tag.endswith("}svg") and e.attrib.get("aria-hidden") != "true"]
    found += [
        "a drawing without a text" for e in drawings if not e.attrib.get("aria-label") or e.attrib.get("role") != "img"
    ]
    found += [
        f"a head without a scope: {e.text}" for e in root.iter(f"{HTML}th") if e.attrib.get("scope") not in ("row", "col")
    ]
    found += [
        f"a link to nowhere: {v}"
        for e in root.iter()
        for v in [e.attrib.get("href", "")]
        if v[:1] == "#" and v[1:] not in ids
    ]
    levels = [int(e.tag[-1]) for e in root.iter() if re.fullmatch(rf"{re.escape(HTML)}h[1-6]", str(e.tag))]
    found += [f"h{b} after h{a}" for a, b in zip([0, *levels], levels, strict=False) if b > a + 1]
    return found + ([] if root.attrib.get("lang") else ["no language"])


_FORBIDDEN = ("script", "img", "iframe", "object", "embed", "link", "base", "form", "foreignObject", "image")


def _refers(key: str) -> bool:
    return key.rpartition("}")[2].rpartition(":")[2] in ("href", "src", "srcset", "data", "action", "poster")


def _harmless(value: str) -> bool:
    return value.startswith(("#", "data:application/json;base64,", "data:application/octet-stream;base64,"))


def text_of(text: str) -> str:
    return " ".join("".join(parsed(text).itertext()).split())


def tables(results: Any, section: str, **options: Any) -> list[Table]:
    found = next(s for s in report(results, **options).sections if s.name == section)
    return [block for block in found.blocks if isinstance(block, Table)]


def rows(table: Table) -> list[list[str]]:
    return [[cell.word if isinstance(cell, Sign) else str(cell) for cell in row] for row in table.rows]


@pytest.fixture(scope="module")
def every(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page of records of all kinds, with one that is damaged."""
    folder = tmp_path_factory.mktemp("report")
    shutil.copytree(records, folder / "records")
    (folder / "records" / "damaged.json").write_text('{"schema_version": 1, "created": "', encoding="utf-8")
    return write(gather(folder / "records"), folder / "report.html")


def test_a_page_of_all_kinds_is_whole_and_refers_to_nothing_outside(every: Path) -> None:
    assert faults(every.read_text(encoding="utf-8")) == []


def test_a_page_says_all_that_a_reader_must_know(every: Path) -> None:
    text = text_of(every.read_text(encoding="utf-8"))
    for words in (
        "Nothing was found wrong", "digits-cnn", "95 % interval", "Communication: time", "predicted, not measured",
        "of 2 runs reached accuracy=0.2", "damaged.json", "The twelve rules", "deep-bench bundle", "SHA-256", "CPU",
        "significant bits", "How the numbers were taken",
    ):  # fmt: skip
        assert words.lower() in text.lower(), words


def test_the_same_results_give_the_same_bytes(every: Path) -> None:
    again = write(gather(every.parent / "records"), every.parent / "again.html")
    assert again.read_bytes() == every.read_bytes()


def test_records_are_attached_as_they_are(every: Path) -> None:
    found = gather(every.parent / "records")
    attached = {one.name: one.data for one in writing.attachments(report(found))}
    assert {file.name: file.read_bytes() for file in found.files()}.items() <= attached.items()


def test_the_twelve_rules_are_judged_for_each_kind(every: Path) -> None:
    found = tables(gather(every.parent / "records"), "rules")
    assert len(found) == 5
    for table in found:
        states = [row[1] for row in rows(table)]
        assert len(states) == 12
        assert set(states) <= {"holds", "fails", "does not apply"}
        assert all(row[3] for row in rows(table))
    training = next(table for table in found if rows(table)[4][1] == "fails" and "runs" in rows(table)[4][3])
    assert "six runs are the fewest" in rows(training)[4][3]
    scaling = next(table for table in found if "alone" in rows(table)[0][3])
    assert rows(scaling)[10][1] == "holds"


def test_a_note_says_why_not_all_cpus_were_used(records: Path) -> None:
    bound: dict[str, Any] = {"cpus_allowed": [0], "logical_cpus": 64, "variables": {}}
    made = [
        replace(one, environment=one.environment.model_copy(update=bound))
        for one in gather(records / "training")
        if one.environment is not None
    ]

    def second(**options: Any) -> list[str]:
        return rows(tables(Results(made), "rules", **options)[0])[1]

    assert second()[1] == "fails"
    assert "1 of 64 CPUs" in second()[3]
    assert second(notes=["a rare error"])[1] == "fails"
    why = "taskset: the other cores serve other users"
    assert second(notes=[why])[1] == "holds"
    assert why in text_of(writing.as_html(report(Results(made), notes=[why])))


def test_predictions_are_the_rows_that_show_prints(records: Path) -> None:
    (file,) = (records / "scaling").glob("*.json")
    record = load_scaling(file)
    predicted, measured = tables(gather(file), "results")
    assert rows(predicted) == [[cell for cell in row if cell != "–"] for row in step_rows(record).cells]
    assert rows(measured) == [[cell for cell in row if cell != "–"] for row in measured_rows(record).cells]
    assert "SimGrid, predicted" not in [column.name for column in predicted.columns]
    shown = as_text(record, 300)
    assert all(cell in shown for row in step_rows(record).cells for cell in row)


def hostile(content: Any, key: str = "") -> Any:
    """A record whose names and sentences are all code for a page, Markdown, mathematics or a terminal."""
    if isinstance(content, dict):
        return {name: hostile(value, name) for name, value in content.items()}
    if isinstance(content, list):
        return [hostile(value, key) for value in content]
    return content + HOSTILE if isinstance(content, str) and key in _NAMES else content


_NAMES = (
    "label", "framework", "reason", "title", "scheme", "hostname", "cpu_model", "system", "source", "notes", "command",
    "optimizer", "assumptions", "machine", "case", "recipe", "version", "device", "simulator", "python", "kernel",
    "governor", "pattern", "findings", "effort",
)  # fmt: skip


@pytest.fixture(scope="module")
def attacked(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Every record with hostile names, one in a file of such a name, and one that failed with such an error."""
    folder = tmp_path_factory.mktemp("hostile")
    shutil.copytree(records, folder / "records")
    for file in (folder / "records").rglob("*.json"):
        content = hostile(json.loads(file.read_text(encoding="utf-8")))
        if isinstance(content.get("network"), dict):
            content["network"]["name"] += HOSTILE
            content["systems"][0]["error"] = {"kind": HOSTILE, "message": HOSTILE, "details": HOSTILE}
        file.write_text(json.dumps(content), encoding="utf-8")
    first = next((folder / "records" / "network").glob("*.json"))
    shutil.copy(first, folder / "records" / "<img src=x onerror=alert(3)>.json")
    (folder / "records" / "<script>.json").write_text('{"schema_version": 1', encoding="utf-8")
    found = gather(folder / "records")
    assert {one.kind for one in found} == {"network", "operators", "training", "communication", "scaling"}
    return found


def test_hostile_names_are_only_names_on_a_page(attacked: Results, tmp_path: Path) -> None:
    text = write(attacked, tmp_path / "report.html", title=HOSTILE).read_text(encoding="utf-8")
    assert faults(text) == []
    assert text_of(text).count('<script>alert("1")</script>') > 50
    assert "\x07" not in text
    assert "\u202e" not in text


def test_hostile_names_are_only_names_in_markdown(attacked: Results, tmp_path: Path) -> None:
    text = write(attacked, tmp_path / "report.md", title=HOSTILE).read_text(encoding="utf-8")
    outside = re.sub(r"^(`{3,})\n.*?\n\1$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert "<" not in outside
    assert not re.search(r"(?<!\\)\]\((?!report_plots/[\w-]+\.svg\))", outside)
    for name in re.findall(r"\]\((report_plots/[\w-]+\.svg)\)", outside):
        ElementTree.parse(tmp_path / name)
    assert len(list((tmp_path / "report_plots").iterdir())) == len(re.findall(r"\]\(report_plots/", outside)) > 5


def test_a_command_of_a_stranger_is_only_words(attacked: Results) -> None:
    from deep_bench.results.report.provenance import shell_line as typed

    assert typed(["deep-bench", "run", "$(rm -rf ~)"]) == "deep-bench run '$(rm -rf ~)'"
    assert typed(["x", "a\nrm -rf ~"]) == "x 'a rm -rf ~'"


@pytest.mark.parametrize(
    ("text", "shown"), [("a\x00b", "a\ufffdb"), ("a\n\t b", "a b"), ("\ud800", "\ufffd"), ("\uffff", "\ufffd")]
)
def test_what_is_no_text_is_replaced(text: str, shown: str) -> None:
    assert clean(text) == shown


def test_a_long_text_is_cut_and_says_so() -> None:
    assert clean("x" * 5_000).count("left out") == 1
    assert len(clean("x" * 5_000)) < 700


def several() -> Iterator[Any]:
    random = np.random.default_rng(1)
    for file in ("a.json", "b.json"):
        yield result(figure(blocks(random)), file=file, framework="torch", system="torch", day=int(file == "b.json"))
        yield result(
            figure(blocks(random, 0.5)), file=file, framework="jax", system="jax", verdict="wrong", day=int(file == "b.json")
        )
        yield result(
            figure(blocks(random, 2.0)), file=file, framework="ort", system="ort", failed="", day=int(file == "b.json")
        )
    yield result(file="c.json", framework="tf", system="tf", verdict=None, failed="no memory", day=2)


def test_the_verdict_counts_what_is_right_wrong_and_failed() -> None:
    made = report(Results(several()))
    assert made.sections[0].name == "verdict"
    text = writing.as_html(made)
    assert faults(text) == []
    shown = text_of(text)
    for words in ("3 of 7 results are wrong or failed", "right: 4", "wrong: 2", "failed: 1", "Oops: no memory"):
        assert words in shown, words


def test_ratios_name_their_base_with_its_time_and_refuse_what_is_wrong() -> None:
    (table,) = tables(Results(several()), "ratios", base="torch")
    assert table.caption.startswith("Networks over torch")
    found = rows(table)
    assert [row[1] for row in found] == ["jax", "ort"] * 2
    assert [row[-1] for row in found] == ["not comparable: a result is wrong", "slower"] * 2
    assert all(row[5].endswith(" s") for row in found)
    assert 1.9 < float(found[1][7]) < 2.1


def test_the_base_may_be_any_label() -> None:
    random = np.random.default_rng(2)
    made = [result(figure(blocks(random, level)), optimizer=name) for name, level in (("Adam", 1.0), ("SGD", 3.0))]
    (table,) = tables(Results(made), "ratios", base="optimizer=Adam")
    assert rows(table)[0][1] == "SGD"
    with pytest.raises(UnknownName, match="optimizer=Adam"):
        named_base(made, "optimizer=Adan")


def test_runs_that_missed_the_target_are_not_taken_for_times() -> None:
    made = [
        result(runs(*range(1, 8)), kind="training", system="torch", verdict=None, target="accuracy=0.9"),
        result(
            runs(*range(8, 15), censored=[True] * 4 + [False] * 3),
            kind="training",
            system="jax",
            verdict=None,
            framework="jax",
        ),
    ]
    shown = text_of(writing.as_html(report(Results(made))))
    assert "3 of 7 runs reached" in shown
    assert "not reached" in shown


def test_what_differs_between_results_has_a_column() -> None:
    random = np.random.default_rng(3)
    made = [result(figure(blocks(random)), file=f"{n}.json", threads=str(n % 2)) for n in range(4)]
    (table,) = tables(Results(made), "results")
    assert [column.name for column in table.columns][2:4] == ["threads", "record"]


def test_samples_that_count_in_no_median_are_drawn_and_told(records: Path) -> None:
    (file,) = (records / "network").glob("*.json")
    found = gather(file)[0]
    ns = np.full(50, 2_000)
    ns[:5] = 6_000_000
    one = time_figure("forward", [[Block(0, 1, ns, ns > 3_000)]])
    assert one is not None
    assert (one.count, [group.tolist() for group in one.aside]) == (45, [[0.006] * 5])
    made = report([replace(found, figures={"forward": one})])
    sections = {section.title: str(section.blocks) for section in made.sections}
    assert "50 raw samples" in sections["The twelve rules of Hoefler and Belli"]
    assert "45 from 2.000 µs to 2.000 µs that count, and 5 from 6.000 ms to 6.000 ms aside" in sections["Plots"]
    assert "samples not preempted: 45 of 50; 5 samples were preempted" in sections["Results"]


def test_verdict_and_time_come_first_where_there_is_little_room() -> None:
    text = writing.as_html(report([result(figure((np.array([1.0, 2.0, 3.0]),)))]))
    row = next(e for e in parsed(text).iter(f"{HTML}tr") if e.find(f"{HTML}td[@data-label='verdict']") is not None)
    cells = {e.attrib["data-label"]: e.attrib.get("class", "") for e in row.iter(f"{HTML}td")}
    assert [name for name, of in cells.items() if "first" in of.split()] == ["verdict", "median"]
    assert list(cells)[2:] == ["95 % interval", "interval over", "n", "significant bits"]


def test_rule_12_fails_where_samples_are_not_drawn() -> None:
    one = drawn([result(figure((np.array([1.0, 2.0, 0.0]),)))], [])["network"]
    assert one.unseen == 1
    assert "1 samples are not above 0" in one.notes[0]
    state, why = plots_rule("network", one)
    assert (state, why) == ("fails", "1 of 3 raw samples have no place on the axis")


@pytest.mark.long
def test_two_thousand_results_give_a_page_that_says_what_is_left_out(tmp_path: Path) -> None:
    made = [
        result(runs(*np.linspace(case + 1, case + 2, 7)), file=f"{case}.json", kind="operators", case=f"{case}x8")
        for case in range(2_000)
    ]
    file = write(Results(made), tmp_path / "large.html")
    text = file.read_text(encoding="utf-8")
    assert file.stat().st_size < 10 * 2**20
    assert "1988 of 2000 results are not drawn but are in the tables" in text
    assert "Judged on the first 60 records" in text
    assert text.count('<th scope="row">1999x8</th>') >= 1


@pytest.mark.parametrize(
    "values", [[0.0] * 8, [-1.0, 1.0] * 4, [1e-300, 1e300] * 4, [float("nan")] * 8, [float("inf"), 1.0] * 4]
)
def test_numbers_that_nobody_measured_stop_no_report(values: list[float]) -> None:
    made = [
        result(figure([np.array(values)] * 8), system=name, kind="operators", case=name, framework=name)
        for name in ("a", "b")
    ]
    made += [result(runs(*values), kind="training", system=name, framework=name, verdict=None) for name in ("a", "b")]
    made.append(result(figure(), kind="network", verdict=None))
    with np.errstate(all="ignore"):
        assert faults(writing.as_html(report(Results(made)))) == []


def test_a_kind_of_record_that_comes_from_elsewhere_is_shown(tmp_path: Path) -> None:
    file = tmp_path / "queries.json"
    file.write_text('{"kind": "queries", "command": ["ask", "it"], "recipe": {"n": 3}}', encoding="utf-8")
    made = Results(
        [result(runs(1.0, 2.0), file=str(file), kind="queries"), result(runs(1.0), file="gone.json", kind="queries")]
    )
    text = writing.as_html(report(made))
    assert faults(text) == []
    for words in ("ask it", "&#34;n&#34;: 3", "of the twelve rules hold", "could not be read again"):
        assert words in text, words


def test_the_latencies_behind_a_percentile_are_drawn_and_nothing_else_in_place_of_a_single_sample() -> None:
    def shown(kind: str) -> list[str]:
        single, many = runs(2.0, name="p90"), figure([np.linspace(1, 2, 50)], name="latency")
        return [one.alt for one in writing.drawings(report(Results([result(single, many, kind=kind)])))]

    assert "50 from 1.000 s to 2.000 s" in shown("mlperf")[1]
    assert len(shown("operators")) == 1


def test_a_record_of_impossible_times_leaves_the_others(records: Path, tmp_path: Path) -> None:
    shutil.copytree(records / "training", tmp_path / "records")
    (first,) = (tmp_path / "records").glob("*.json")
    content = json.loads(first.read_text(encoding="utf-8"))
    content["runs"][0]["stamps"] = [-stamp for stamp in content["runs"][0]["stamps"]]
    (tmp_path / "records" / "backwards.json").write_text(json.dumps(content), encoding="utf-8")
    shown = text_of(writing.as_html(report(gather(tmp_path / "records"))))
    assert "1 result of 1 record" in shown
    assert "runs.0.stamps" in shown


def test_a_record_that_cannot_be_drawn_leaves_the_others(
    records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> Any:
        raise ValueError("nothing to draw")

    monkeypatch.setattr("deep_bench.results.report.plots.training_pictures", broken)
    shown = text_of(writing.as_html(report(gather(records / "training", records / "network"))))
    assert "cannot be drawn: nothing to draw" in shown
    assert "2 results of 2 records" in shown


def test_other_formats_and_nothing_to_report_are_refused(tmp_path: Path) -> None:
    made = Results(several())
    with pytest.raises(InvalidArgument, match=r"\.html, \.md, \.pdf"):
        write(made, tmp_path / "report.docx")
    with pytest.raises(InvalidArgument, match="no results"):
        write(Results(), tmp_path / "report.html")
    with pytest.raises(UnknownName, match="jaxx"):
        write(made, tmp_path / "report.html", base="jaxx")
    assert list(tmp_path.iterdir()) == []


def test_a_record_that_is_gone_is_said_to_be(records: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(records / "network", tmp_path / "gone")
    found = gather(copied)
    shutil.rmtree(copied)
    shown = text_of(write(found, tmp_path / "report.html").read_text(encoding="utf-8"))
    assert "could not be read again" in shown
    assert "cannot be read any more" in shown


def test_a_file_of_arrays_is_attached_once(records: Path, tmp_path: Path) -> None:
    (first,) = (records / "network").glob("*.json")
    content = json.loads(first.read_text(encoding="utf-8"))
    arrays = tmp_path / "arrays.h5"
    arrays.write_bytes(b"of both")
    content["arrays"] = {"name": arrays.name, "sha256": hashlib.sha256(b"of both").hexdigest()}
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    (table,) = provenance.data_blocks([tmp_path / "a.json", tmp_path / "b.json"])[1:]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["a.json", "arrays.h5", "b.json"]


@pytest.mark.parametrize("name", ["..", "/etc/hostname", "../secret.json", "link"])
def test_no_file_out_of_the_folder_is_attached(records: Path, tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.json").write_text("secret", encoding="utf-8")
    folder = tmp_path / "records"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path / "secret.json")
    (first,) = (records / "network").glob("*.json")
    content = json.loads(first.read_text(encoding="utf-8"))
    content["arrays"] = {"name": name, "sha256": hashlib.sha256(b"secret").hexdigest()}
    (folder / "a.json").write_text(json.dumps(content), encoding="utf-8")
    (table,) = provenance.data_blocks([folder / "a.json"])[1:]
    assert isinstance(table, Table)
    assert [row[0] for row in table.rows] == ["a.json"]


def test_a_large_record_is_named_and_not_attached(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.results.report.provenance.LARGEST_FILE", 10)
    made = report(gather(records / "network"))
    assert writing.attachments(made) == []
    (table,) = [t for s in made.sections if s.name == "data" for t in s.blocks if isinstance(t, Table)]
    assert all(re.fullmatch("[0-9a-f]{64}", str(row[2])) and not isinstance(row[3], Attachment) for row in table.rows)


def test_the_verb_writes_what_is_chosen(records: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    arguments = [str(records), "-o", str(file), "--where", "kind=network", "--base", "reference", "--title", "Mine"]
    done = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "The result is right. 1 result" in done.output
    assert "<h1>Mine</h1>" in file.read_text(encoding="utf-8")
    refused = CliRunner().invoke(command, [str(records), "-o", str(tmp_path / "report.txt")])
    assert refused.exit_code == 2
    assert ".html, .md, .pdf" in refused.output


def test_a_pdf_without_pango_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import builtins

    real = builtins.__import__

    def broken(name: str, *rest: Any) -> Any:
        if name == "weasyprint":
            raise OSError("cannot load library 'libpango-1.0-0'\nmore")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", broken)
    with pytest.raises(Unsupported, match="apt-get install libpango"):
        write(Results(several()), tmp_path / "report.pdf")


def test_a_pdf_has_pages_and_its_records(records: Path, tmp_path: Path) -> None:
    try:
        writing.weasyprint()
    except Unsupported as error:
        pytest.skip(str(error))
    file = write(gather(records / "network"), tmp_path / "report.pdf")
    content = file.read_bytes()
    assert content.startswith(b"%PDF-")
    assert b"/EmbeddedFile" in content


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium here")
def test_a_telephone_shows_a_page_without_scrolling_sideways(every: Path, attacked: Results, tmp_path: Path) -> None:
    write(attacked, tmp_path / "b.html")
    shutil.copy(every, tmp_path / "a.html")
    frames = "".join(f'<iframe src="{name}.html" style="width:390px;height:800px;border:0"></iframe>' for name in "ab")
    script = (
        "onload=()=>{document.body.dataset.widths=[...document.querySelectorAll('iframe')].map(f=>{"
        "const d=f.contentDocument;d.querySelectorAll('details').forEach(e=>e.open=true);"
        "return d.documentElement.scrollWidth+' '+d.body.scrollWidth}).join(' ')}"
    )
    outer = tmp_path / "outer.html"
    outer.write_text(f"<!DOCTYPE html><body>{frames}<script>{script}</script>", encoding="utf-8")
    options = [
        "--headless=new",
        "--hide-scrollbars",
        "--no-sandbox",
        "--disable-gpu",
        "--allow-file-access-from-files",
        f"--user-data-dir={tmp_path}/p",
    ]
    done = subprocess.run(
        [str(CHROMIUM), *options, "--window-size=800,900", "--virtual-time-budget=5000", "--dump-dom", outer.as_uri()],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    found = re.search(r'data-widths="([\d ]+)"', done.stdout)
    assert found, done.stderr[-2000:]
    assert [int(width) for width in found[1].split()] == [390] * 4
