"""Settings files, logs, percentiles and audits, without LoadGen."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deep_bench
from deep_bench.errors import FrameworkMissing, InvalidArgument, InvalidRecord
from deep_bench.mlperf.inference import InferenceRecord, Library, Settings, System, run
from deep_bench.mlperf.inference.audit import AccuracyJudge, check_target, compared, decoded, sameness
from deep_bench.mlperf.inference.child import NOT_ASKED, Ledger, Pilot
from deep_bench.mlperf.inference.logs import (
    EARLY_CONFIDENCE,
    Detail,
    LoggedAnswers,
    early_stopping,
    percentiles,
    read_answers,
    read_detail,
    read_trace,
)
from deep_bench.mlperf.inference.record import LoadgenRecord
from deep_bench.mlperf.inference.settings import SCENARIOS, Mode, conf_of, parse_conf, read_conf, value_of
from deep_bench.mlperf.inference.system import BatchRunner, Respond, RunFailed, make_work, sizes_of


def test_only_one_file_imports_loadgen() -> None:
    package = Path(deep_bench.__file__).parent
    files = [file for file in package.rglob("*.py") if "import mlperf_loadgen" in file.read_text(encoding="utf-8")]
    assert [file.name for file in files] == ["child.py"]


def test_a_missing_loadgen_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("deep_bench.mlperf.inference.child.find_spec", lambda name: None)
    with pytest.raises(FrameworkMissing, match=r"deep-bench\[mlperf\]"):
        run(folder=tmp_path / "run")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("*.Server.target_qqs = 1", "did you mean 'target_qps'"),
        ("*.Sever.target_qps = 1", "did you mean 'Server'"),
        ("*.Server.target_qps = many", "a decimal number"),
        ("*.Server.target_qps = 010", "a decimal number"),
        ("*.Server.target_qps = nan", "a decimal number"),
        ("*.Server.target_latency = 2.5", "a whole number"),
        ("*.Server.min_query_count = 1e3", "a whole number"),
        ("*.Server.target_qps 5", "model.scenario.key = number"),
        ("target_qps = 5", "model.scenario.key = number"),
        ("a model.Server.target_qps = 5", "model.scenario.key = number"),
        *((f"*.SingleStream.target_latency_percentile = {p}", "above 0 and below 100") for p in ("150", "100", "0", "0.0")),
        ("*.Server.target_latency_percentile = 99.99999", "at most 4 digits"),
        ("*.MultiStream.samples_per_query = 0", "a number above 0"),
        ("*.Server.target_latency = 0", "a number above 0"),
        ("*.*.mode = 1", "say it by --mode"),
        ("*.Server.use_token_latencies = 1", "generated text"),
    ],
)
def test_what_loadgen_would_ignore_is_an_error(line: str, message: str) -> None:
    with pytest.raises(InvalidArgument, match="line 2") as caught:
        parse_conf(f"# a comment\n{line}")
    assert message in str(caught.value)


def test_a_settings_file_of_any_size_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "user.conf"
    path.write_bytes(b"#" * 100_000)
    with pytest.raises(InvalidArgument, match="100000 bytes"):
        read_conf(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="cannot read"):
        read_conf(path)


def test_percentages_are_taken_as_they_are_written() -> None:
    lines = parse_conf("*.Server.target_latency_percentile = 99.9\n*.*.accuracy_log_probability = 0")
    assert [line.value for line in lines] == ["99.9", "0"]
    for percent in (29, 57, 99, 99.9):  # 0.57 * 100 is less than 57, and LoadGen looks at 57 * 0.01
        values = {"effective_target_latency_percentile": float(f"{percent * 0.01:.6g}")}
        record = InferenceRecord.model_construct(scenario="Server", loadgen=LoadgenRecord(values=values))
        assert record.percentile == percent * 0.01


def test_no_estimate_is_no_latency_of_0() -> None:
    values = {"effective_scenario": "SingleStream", "early_stopping_latency_ss": 0}
    assert Detail(values).result is None


class Instant(System):
    """Answers at once."""

    def start(self, library: Library, respond: Respond) -> None:
        self.respond = respond

    def issue(self, ids: Sequence[int], indices: Sequence[int]) -> None:
        self.respond(ids, np.zeros(len(ids)))


def test_a_pilot_tells_what_loadgen_expects(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("deep_bench.mlperf.inference.child._BUDGET_S", 0.0)
    ticks = iter(range(10**6))
    monkeypatch.setattr("deep_bench.mlperf.inference.child.perf_counter", lambda: float(next(ticks)))
    for scenario, size, expected in (
        ("SingleStream", 1, 700),
        ("MultiStream", 8, 700),
        ("Server", 1, 0.5),
        ("Offline", 64, 83.2),
    ):
        pilot, system = Pilot(range(5)), Instant()
        system.start(None, lambda ids, rows, pilot=pilot: pilot.ledger.complete(ids, rows))  # type: ignore[arg-type]
        assert pilot.expected(system, SCENARIOS[scenario], 16) == pytest.approx(expected)  # type: ignore[index]
        assert len(pilot.ledger.columns()["index"]) % size == 0


def test_answers_that_differ_are_judged_by_accuracy() -> None:
    labels = np.arange(400) % 10
    exact = LoggedAnswers(np.arange(400), tuple(int(one).to_bytes(8, "little") for one in labels))

    def differing(count: int) -> LoggedAnswers:
        wrong = [int((one + 1) % 10).to_bytes(8, "little") for one in labels[:count]]
        return LoggedAnswers(np.arange(200), (*wrong, *exact.data[count:200]))

    same = sameness(differing(0), exact, labels, 0.99)
    assert (same.exact, same.passed, same.accuracies()) == (True, True, {})
    near = sameness(differing(2), exact, labels, 0.99)
    assert (near.exact, near.passed) == (False, True)
    assert near.text().endswith("198 are right, 200 of accuracy mode's to the same samples: 1 % apart, at most 1 % allowed")
    assert near.accuracies()["compliance_accuracy.txt"] == "accuracy=99.000%, good=198, total=200\n"
    assert not sameness(differing(3), exact, labels, 0.99).passed
    unclassified = sameness(differing(2), exact, None, 0.99)
    assert not unclassified.passed
    assert "no accuracies to compare" in unclassified.text()
    missing = sameness(exact, LoggedAnswers(np.arange(399), exact.data[:399]), labels, 0.99)
    assert (missing.passed, missing.missing) == (False, 1)
    assert not sameness(LoggedAnswers(np.zeros(0, np.int64), ()), exact, labels, 0.99).passed
    elsewhere = LoggedAnswers(np.array([400]), exact.data[:1])
    with pytest.raises(InvalidRecord, match="sample 400"):
        sameness(elsewhere, LoggedAnswers(np.array([400]), exact.data[1:2]), labels, 0.99)


def test_the_most_exact_line_counts_as_in_loadgen() -> None:
    lines = parse_conf(
        "*.*.min_duration = 1\nlenet.*.min_duration = 2\n*.Server.min_duration = 3\nlenet.Server.min_duration = 4"
    )
    assert value_of(lines, "lenet", "Server", "min_duration") == "4"
    assert value_of(lines, "other", "Server", "min_duration") == "3"
    assert value_of(lines, "lenet", "Offline", "min_duration") == "2"
    assert value_of(lines, "other", "Offline", "min_duration") == "1"
    assert value_of(lines, "other", "Offline", "target_qps") is None


def test_settings_come_to_lines_and_to_what_the_pilot_must_find(tmp_path: Path) -> None:
    full = conf_of(Settings("Offline"), "net", 355)
    assert (full.open, full.seconds, full.remarks) == ("target_qps", 600.0, ())
    assert [str(line) for line in full.lines] == ["net.Offline.min_query_count = 24576"]
    user = tmp_path / "user.conf"
    user.write_text("*.Server.target_qps = 10\n*.Server.qsl_rng_seed = 1\n", encoding="utf-8")
    own = conf_of(Settings("Server", user_conf=user, target_latency=0.25, min_duration=5), "net", 355)
    assert own.open is None
    assert own.value("target_latency") == "250"
    assert [remark.partition(":")[0] for remark in own.remarks] == [
        "not a valid submission duration",
        "not a valid submission",
    ]
    assert "qsl_rng_seed" in own.remarks[1]
    assert own.samples == 50
    with pytest.raises(InvalidArgument, match="a whole number"):
        conf_of(Settings("Server", target_latency=0.0025), "net", 355)
    assert conf_of(Settings("SingleStream", target_latency=0.0025), "net", 355).open is None
    by_scenario = [conf_of(Settings(scenario), "net", 355) for scenario in ("Server", "MultiStream", "Offline")]
    assert [conf.of_query for conf in by_scenario] == [1, 8, 0]
    user.write_text("*.MultiStream.samples_per_query = 4\n*.Server.samples_per_query = 5\n", encoding="utf-8")
    four = conf_of(Settings("MultiStream", user_conf=user, min_duration=1, target_latency=0.002), "net", 355)
    assert (four.of_query, four.samples) == (4, 2000)
    assert conf_of(Settings("Server", user_conf=user), "net", 355).of_query == 1


def test_what_of_a_file_does_not_count_is_said(tmp_path: Path) -> None:
    user = tmp_path / "user.conf"
    user.write_text("resnet50.*.min_duration = 5\nresnet50.*.qsl_rng_seed = 5\n*.*.min_duration = 7000\n", encoding="utf-8")
    short = conf_of(Settings(user_conf=user, short=True), "net", 355)
    assert short.notes == (
        "user.conf: lines for resnet50 do not count, the model is net",
        "user.conf: min_duration = 7000 does not count, an option of the run has 2000",
    )
    assert (short.seconds, len(short.remarks)) == (2.0, 1)
    plain = conf_of(Settings(user_conf=user), "net", 355)
    assert (plain.seconds, plain.notes) == (7.0, short.notes[:1])
    assert conf_of(Settings(user_conf=user, min_duration=7), "net", 355).notes == short.notes[:1]


@pytest.mark.parametrize("mode", ["accuracy", "submission"])
def test_accuracy_is_of_the_whole_data_set(mode: Mode, tmp_path: Path) -> None:
    user = tmp_path / "user.conf"
    user.write_text("*.*.accuracy_sample_count_override = 5\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="the whole data set, 355 samples"):
        conf_of(Settings("Offline", mode, user_conf=user), "net", 355)
    assert conf_of(Settings("Offline", mode, user_conf=user), "net", 5).open == "target_qps"
    assert conf_of(Settings("Offline", user_conf=user), "net", 355).open == "target_qps"


def test_a_run_without_end_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="at most 24576"):
        Settings("Offline", batch=100_000)
    user = tmp_path / "user.conf"
    user.write_text("*.MultiStream.samples_per_query = 100000\n", encoding="utf-8")
    with pytest.raises(InvalidArgument, match="at most 1024"):
        conf_of(Settings("MultiStream", user_conf=user), "net", 355)
    work = make_work("digits-cnn", "reference", None, Settings("Offline", batch=8192))
    runner = BatchRunner(work, None, None, None, sizes_of(work))  # type: ignore[arg-type]
    runner._foresee(32, 1e9)
    runner._foresee(8192, 1e9)
    runner._foresee(4096, 49.0)
    with pytest.raises(RunFailed, match=r"about 612 s until all sizes have run, as 4096 takes 51 s"):
        runner._foresee(4096, 51.0)


def test_a_target_that_any_answer_reaches_is_refused() -> None:
    for settings in (Settings(target_share=1e-9), Settings(reference_accuracy=0.1)):
        with pytest.raises(InvalidArgument, match=r"more than 0\.1014, which one class for all samples gives"):
            AccuracyJudge(make_work("digits-cnn", "reference", None, settings))
    check_target(Settings(), np.array([0] * 199 + [1]))  # of a data set that is nearly of one class, nothing was stated
    with pytest.raises(InvalidArgument, match="above 0, at most 1"):
        Settings(reference_accuracy=0)


def test_answers_that_are_no_class_count_as_wrong() -> None:
    judge = AccuracyJudge(make_work("digits-cnn", "reference", None, Settings()))
    for rows in (np.full(1, np.nan, np.float32), np.full(1, -np.nan), np.full(1, -5), np.full((1, 2), 7)):
        ledger = Ledger(lambda ids, rows: None, samples=355)
        ledger.issued([1, 2], [3, 4])
        ledger.complete([1], rows)
        ledger.complete([2], judge.reference[4:5])
        found = judge.performance(ledger.answers())
        assert found is not None
        assert (found.correct, found.total, found.unclassed, found.differing, found.reference) == (1, 2, 1, 1, 1.0)
    of_bytes = Ledger(lambda ids, rows: None, samples=355)
    of_bytes.issued([1], [3])
    of_bytes.complete([1], judge.reference[3:4].astype("<i8").view(np.uint8).reshape(1, 8))
    assert of_bytes.answers()[3] == judge.reference[3]
    assert judge.performance(np.full(355, NOT_ASKED)) is None
    large = judge.accuracy(LoggedAnswers(np.arange(355), (np.float64("nan").tobytes(),) * 354 + (b"\xff" * 8,)))
    assert (large.correct, large.total, large.unclassed) == (0, 355, 355)


def test_the_audit_that_performs_nothing_is_no_escape() -> None:
    assert compared("TEST01", "Server", 100.0, 109.0)[0]
    assert not compared("TEST01", "Server", 100.0, 89.0)[0]
    assert compared("TEST04", "SingleStream", 1e-2, 2e-2)[0]
    assert not compared("TEST04", "SingleStream", 1e-2, 0.9e-2)[0]
    assert compared("TEST04", "SingleStream", 100e-6, 85e-6)[0]
    assert not compared("TEST04", "Offline", 0.0, 1.0)[0]


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=3000), st.sampled_from([0.5, 0.9, 0.99]))
def test_percentiles_are_as_they_are_defined(values: list[int], share: float) -> None:
    latencies = np.array(values)
    found = next(one for one in percentiles(latencies) if one.share == share)
    assert np.mean(latencies <= found.ours) >= share
    assert all(np.mean(latencies <= smaller) < share for smaller in latencies[latencies < found.ours][:5])
    assert found.loadgen == sorted(values)[min(int(len(values) * share), len(values) - 1)]
    assert (found.bound is not None) == (len(values) >= found.needed)


@pytest.mark.parametrize(("share", "fewest"), [(0.9, 64), (0.99, 662)])
def test_early_stopping_needs_as_many_queries_as_the_rules_say(share: float, fewest: int) -> None:
    assert early_stopping(np.arange(fewest - 1), share) is None
    assert early_stopping(np.arange(fewest), share) == fewest - 1
    assert EARLY_CONFIDENCE == 0.99


def test_early_stopping_discards_as_loadgen_did() -> None:
    assert early_stopping(np.arange(6668), 0.9) == 6667 - 608
    assert early_stopping(np.arange(2001), 0.99) == 2000 - 8


def test_logs_that_were_tampered_with_are_refused(tmp_path: Path) -> None:
    detail, accuracy = tmp_path / "mlperf_log_detail.txt", tmp_path / "mlperf_log_accuracy.json"
    with pytest.raises(InvalidRecord, match="cannot read"):
        read_detail(tmp_path)
    detail.write_text(':::MLLOG {"key": "x"\n', encoding="utf-8")
    with pytest.raises(InvalidRecord, match="line 1"):
        read_detail(tmp_path)
    detail.write_text(f":::MLLOG {'[' * 100_000}\n", encoding="utf-8")
    with pytest.raises(InvalidRecord, match="line 1"):
        read_detail(tmp_path)
    accuracy.write_text('[\n{ "seq_id" : 0, "qsl_idx" : 1, "data" : "0" }\n]\n', encoding="utf-8")
    with pytest.raises(InvalidRecord, match="in pairs"):
        read_answers(tmp_path)
    accuracy.write_text("[\n<script>\n]\n", encoding="utf-8")
    with pytest.raises(InvalidRecord, match="line 2"):
        read_answers(tmp_path)
    with open(accuracy, "wb") as file:
        file.truncate(2**31)
    with pytest.raises(InvalidRecord, match="2147483648 bytes"):
        read_answers(tmp_path)


def test_errors_and_results_are_read_from_the_log(tmp_path: Path) -> None:
    lines = [
        '{"key": "effective_scenario", "value": "Offline", "metadata": {"is_error": false, "is_warning": false}}',
        '{"key": "result_samples_per_second", "value": 12.5, "metadata": {"is_error": false, "is_warning": false}}',
        '{"key": "error_runtime", "value": "late", "metadata": {"is_error": true, "is_warning": false}}',
        '{"key": "warning_x", "value": "odd", "metadata": {"is_error": false, "is_warning": true}}',
    ]
    text = "".join(f":::MLLOG {line}\n" for line in lines)
    (tmp_path / "mlperf_log_detail.txt").write_text(text, encoding="utf-8")
    found = read_detail(tmp_path)
    assert (found.result, found.errors, found.warnings) == (12.5, ("error_runtime: late",), ("warning_x: odd",))
    line = (
        '{"name":"Sample","cat":"default","ph":"b","id":0,"ts":1,"args":'
        '{"sample_seq":%d,"query_seq":%d,"sample_idx":7,"issue_start_ns":2,"complete_ns":%d}},\n'
    )
    trace = "".join(line % entry for entry in [(0, 0, 9), (1, 1, 8), (1, 1, 6), (0, 0, 5)])
    (tmp_path / "mlperf_log_trace.json").write_text(trace, encoding="utf-8")
    assert read_trace(tmp_path, 2)["latency_ns"].tolist() == [5, 6]


def test_accuracy_is_beside_the_reference() -> None:
    work = make_work("digits-cnn", "reference", None, Settings(target_share=1.0))
    judge = AccuracyJudge(work)
    labels = judge.reference.astype("<i8")
    right = judge.accuracy(LoggedAnswers(np.arange(355), tuple(label.tobytes() for label in labels)))
    assert (right.met, right.differing, right.accuracy) == (True, 0, 354 / 355)
    worse = (labels + (np.arange(355) == 3)) % 10
    wrong = judge.accuracy(LoggedAnswers(np.arange(355), tuple(label.tobytes() for label in worse)))
    assert (wrong.met, wrong.differing) == (False, 1)
    with pytest.raises(InvalidRecord, match="354 samples without an answer"):
        judge.accuracy(LoggedAnswers(np.array([3]), (labels[3].tobytes(),)))
    with pytest.raises(InvalidRecord, match="sample 355"):
        judge.accuracy(LoggedAnswers(np.array([355]), (labels[3].tobytes(),)))
    with pytest.raises(InvalidRecord, match="3 bytes"):
        decoded([b"abc"])
