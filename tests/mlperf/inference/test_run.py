"""Real runs of the network that ships, short, under the real LoadGen."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

from deep_bench.errors import InvalidArgument, InvalidRecord, UnknownName
from deep_bench.measure.units import duration
from deep_bench.mlperf.inference import InferenceRecord, Settings, load_inference, run
from deep_bench.mlperf.inference.logs import Detail, early_stopping, percentiles
from deep_bench.mlperf.inference.record import LatencyRecord, caveats, disagreements, judged, save
from deep_bench.mlperf.inference.report import as_text
from deep_bench.mlperf.inference.submission import lay_out
from deep_bench.records.store import digest
from deep_bench.results import gather
from deep_bench.results.gathering import choose_record
from deep_bench.results.results import short_names

BRIEF = {"min_duration": 0.3, "check": "off"}
"""Not as long as a short run, and long enough for the queries that Server needs."""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[InferenceRecord, Path]]:
    """Makes a run once, for all tests that ask for it."""
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    made: dict[object, tuple[InferenceRecord, Path]] = {}

    def make(framework: str, settings: Settings, against: tuple[Path, ...] = ()) -> tuple[InferenceRecord, Path]:
        if framework != "reference" and find_spec(framework.partition(":")[0]) is None:
            pytest.skip(f"{framework} is not installed")
        key = (framework, settings, against)
        if key not in made:
            folder = tmp_path_factory.mktemp("run")
            made[key] = run("digits-cnn", framework, settings=settings, folder=folder, against=against), folder
        return made[key]

    return make


SINGLE = Settings("SingleStream", mode="submission", check="quick", min_duration=0.1, target_latency=2e-5)
FEW = Path(__file__).with_name("few.conf")
MULTI = Settings("MultiStream", user_conf=FEW, min_duration=0.1, target_latency=2e-5, check="off")
OFFLINE = Settings("Offline", user_conf=FEW, batch=8, min_duration=0.05, target_qps=2e4, check="off")
SERVER = Settings("Server", target_qps=2000, target_latency=20.0, batch=4, max_delay=0.002, workers=2, **BRIEF)


@pytest.mark.parametrize(
    ("framework", "settings"),
    [
        ("onnxruntime", SINGLE),
        ("onnxruntime", SERVER),
        ("onnxruntime", MULTI),
        ("reference", OFFLINE),
        pytest.param("torch:threads=1", OFFLINE, marks=pytest.mark.full),
    ],
    ids=["SingleStream", "Server", "MultiStream", "Offline", "Offline on torch"],
)
def test_a_scenario_is_valid(framework: str, settings: Settings, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    record, folder = runs(framework, settings)
    assert record.judgement is not None
    assert (record.judgement.word, record.judgement.reasons) == ("VALID", [])
    assert record.result is not None
    assert record.result > 0
    assert record.complete
    assert any("not a valid submission" in remark for remark in record.remarks)
    assert all(one.met and one.differing == 0 for one in record.accuracy)
    if settings.scenario == "Offline":
        assert record.loadgen.values["requested_min_query_count"] == 512
        assert "*.Offline.min_query_count = 512" in (folder / "user.conf").read_text(encoding="utf-8")
    names = {file.name for file in folder.iterdir()}
    assert names >= {
        "mlperf_log_summary.txt",
        "mlperf_log_detail.txt",
        "mlperf_log_accuracy.json",
        "user.conf",
        "mlperf.json",
    }
    assert "mlperf_log_trace.json" not in names


def test_latencies_are_those_that_loadgen_counts(runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    record, _ = runs("onnxruntime", MULTI)
    latencies, values = record.query_latencies(), record.loadgen.values
    assert len(latencies) == values["result_query_count"]
    assert latencies.max() == values["result_max_query_latency_ns"]
    found = {one.share: one for one in percentiles(latencies)}
    assert found[0.99].loadgen == values["result_99.00_percentile_per_query_latency_ns"]
    assert found[0.5].loadgen == values["result_50.00_percentile_per_query_latency_ns"]
    assert early_stopping(latencies, 0.51) == values["early_stopping_latency_ms"]
    assert len(record.own_latencies()) == len(latencies)


def test_the_percentile_that_counts_is_the_one_that_loadgen_used(runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    record, folder = runs("onnxruntime", MULTI)
    name = "51st percentile latency of a query of 4 samples (early-stopping estimate)"
    assert record.metric == name
    assert "51.0th percentile latency" in record.loadgen.summary
    text = " ".join(as_text(record).split())
    assert f"{name}: {duration(record.loadgen.values['early_stopping_latency_ms'] * 1e-9)} (unverified)" in text
    assert "│ p51 " in text
    assert "99th" not in text
    assert gather(folder)[0].figures[name].median == record.result


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        ({"early_stopping_latency_ms": 7}, "the early-stopping estimate in ns: LoadGen reports 7, its trace gives"),
        ({"result_97.00_percentile_per_query_latency_ns": 8}, "p97 in ns: LoadGen reports 8, its trace gives"),
        ({"result_max_query_latency_ns": 9}, "the largest latency in ns: LoadGen reports 9, its trace gives"),
        ({"effective_target_latency_percentile": 1.5}, "p150 of the summary, in ns: LoadGen reports"),
    ],
)
def test_figures_that_the_trace_does_not_bear_out_make_a_run_invalid(
    planted: dict[str, float], said: str, runs: Callable[..., tuple[InferenceRecord, Path]]
) -> None:
    record, _ = runs("onnxruntime", MULTI)
    assert disagreements(record) == []
    loadgen = record.loadgen.model_copy(update={"values": {**record.loadgen.values, **planted}})
    changed = judged(record.model_copy(update={"loadgen": loadgen}))
    assert changed.word == "INVALID"
    assert changed.reasons[0].startswith(said)


def test_a_bound_is_named_with_its_percentile(runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    record, folder = runs("onnxruntime", SERVER)
    assert "  valid if the 99th percentile latency is at most 20.00 s" in as_text(record)
    labels = gather(folder)[0].labels
    assert (labels["option.target_latency"], labels["option.percentile"]) == ("20.0", "99")
    late = record.model_copy(update={"loadgen": record.loadgen.model_copy(update={"values": {**record.loadgen.values}})})
    late.loadgen.values["result_overlatency_query_count"] = 3
    assert disagreements(late) == ["queries above the bound: LoadGen reports 3, its trace gives 0"]


def test_a_submission_run_has_both_phases(runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    record, folder = runs("onnxruntime", SINGLE)
    assert [one.of for one in record.accuracy] == ["accuracy mode", "performance mode"]
    assert (record.accuracy[0].correct, record.accuracy[0].total) == (354, 355)
    hashed = digest(folder / "mlperf_log_accuracy.json")
    expected = f"accuracy=99.718%, good=354, total=355\nhash={hashed}\n"
    assert (folder / "accuracy.txt").read_text(encoding="utf-8") == expected
    latencies, values = record.query_latencies(), record.loadgen.values
    assert len(latencies) == values["result_query_count"] == record.latencies.n - 355
    assert (latencies.min(), latencies.max()) == (values["result_min_latency_ns"], values["result_max_latency_ns"])
    assert early_stopping(latencies, 0.9) == values["early_stopping_latency_ss"]
    assert record.outputs is not None
    assert record.outputs.verdict == "right"


def test_a_record_is_read_again(runs: Callable[..., tuple[InferenceRecord, Path]], tmp_path: Path) -> None:
    record, folder = runs("onnxruntime", SERVER)
    again = load_inference(folder)
    assert np.array_equal(again.latencies.latency_ns, record.latencies.latency_ns)
    assert again.model_dump_json() == record.model_dump_json()
    found = gather(folder)
    assert len(found) == 1
    assert (found[0].kind, found[0].labels["scenario"], found[0].labels["system"]) == ("mlperf", "Server", "onnxruntime")
    assert found[0].figures["completed samples a second"].median == record.result
    assert "Result not verified by MLCommons Association." in found[0].notes
    assert found[0].verdict is not None
    assert found[0].verdict.verdict == "right"


def test_audits_compare_with_earlier_runs(runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    own = replace(SINGLE, mode="performance", audit="TEST01", check="off")
    record, home = runs("onnxruntime", own, (folder,))
    assert record.audit is not None
    assert record.audit.checks["same work"][0]
    good, text = record.audit.checks["accuracy"]
    assert good, text
    assert " logged answers, 0 differ" in text
    assert (home / "verify_accuracy.txt").read_text(encoding="utf-8").endswith("TEST PASS\n")
    assert record.loadgen.values["effective_accuracy_log_sampling_target"] == 128


def test_audit_with_one_sample(runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    own = replace(SINGLE, mode="performance", audit="TEST04", check="off")
    record, _ = runs("onnxruntime", own, (folder,))
    assert record.audit is not None
    assert set(record.audit.checks) == {"same work", "performance"}
    assert len(set(record.latencies.index.tolist())) == 1


def test_an_audit_without_its_runs_is_refused(tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    _, server = runs("onnxruntime", SERVER)
    own = Settings("SingleStream", audit="TEST04", **BRIEF)
    with pytest.raises(InvalidArgument, match="without a run in mode performance"):
        run("digits-cnn", "reference", settings=own, folder=tmp_path / "none")
    with pytest.raises(InvalidArgument, match="is of Server"):
        run("digits-cnn", "reference", settings=own, folder=tmp_path / "none", against=[server])
    assert not (tmp_path / "none").exists()


def test_a_submission_is_laid_out(tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    facts = {"system_type": "edge", "status": "rdi"}
    made = lay_out([folder], tmp_path / "all", submitter="A_Lab", system="box", facts=facts)
    place = tmp_path / "all" / "open" / "A_Lab" / "results" / "box" / "digits-cnn" / "SingleStream"
    assert made.scenarios == (place,)
    assert (place / "performance" / "run_1" / "mlperf_log_detail.txt").is_file()
    assert (place / "accuracy" / "accuracy.txt").read_bytes() == (folder / "accuracy.txt").read_bytes()
    assert (place / "accuracy" / "mlperf_log_accuracy.json").stat().st_size <= 10 * 1024
    system = json.loads((tmp_path / "all/open/A_Lab/systems/box.json").read_text(encoding="utf-8"))
    assert (system["division"], system["submitter"], system["system_type"]) == ("open", "A_Lab", "edge")
    texts = [str(finding) for finding in made.findings]
    assert any("the rules ask for 600000" in text for text in texts)
    assert not any("missing or empty" in text for text in texts)
    with pytest.raises(InvalidArgument, match="is there already"):
        lay_out([folder], tmp_path / "all", submitter="A_Lab", system="box")
    with pytest.raises(InvalidArgument, match="submitter"):
        lay_out([folder], tmp_path / "other", submitter="../up", system="box")
    with pytest.raises(InvalidArgument, match="one of each"):
        lay_out([folder, folder], tmp_path / "other", submitter="A_Lab", system="box")


def test_a_hostile_run_is_not_laid_out(tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    linked = shutil.copytree(folder, tmp_path / "linked")
    (linked / "user.conf").unlink()
    (linked / "user.conf").symlink_to("/etc/hostname")
    with pytest.raises(InvalidRecord, match=r"user\.conf is a link"):
        lay_out([linked], tmp_path / "all", submitter="Lab", system="box")
    climbing = shutil.copytree(folder, tmp_path / "climbing")
    content = json.loads((climbing / "mlperf.json").read_text(encoding="utf-8"))
    content["audit"] = {"name": "../../up", "passed": True}
    (climbing / "mlperf.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidRecord, match=r"audit\.name"):
        lay_out([climbing], tmp_path / "out", submitter="Lab", system="box")
    assert not (tmp_path / "out").exists()


def test_an_audit_is_laid_out_below_its_scenario(tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    own = replace(SINGLE, mode="performance", audit="TEST01", check="off")
    record, home = runs("onnxruntime", own, (folder,))
    copy = shutil.copytree(home, tmp_path / "audit")
    assert record.audit is not None
    passed = {name: (True, text) for name, (_, text) in record.audit.checks.items()}  # this machine may be too unsteady
    good = record.model_copy(update={"audit": record.audit.model_copy(update={"checks": passed, "passed": True})})
    save(good.model_copy(update={"judgement": judged(good)}), copy)
    made = lay_out([folder, copy], tmp_path / "all", submitter="Lab", system="box")
    audit = made.scenarios[0] / "TEST01"
    assert (audit / "performance" / "run_1" / "mlperf_log_detail.txt").is_file()
    assert (audit / "accuracy" / "mlperf_log_accuracy.json").is_file()
    assert (audit / "verify_accuracy.txt").read_text(encoding="utf-8").endswith("TEST PASS\n")
    assert load_inference(tmp_path / "all/open/Lab/code/digits-cnn/SingleStream-TEST01").audit == good.audit


def test_a_folder_with_files_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InvalidArgument, match=r"has files: notes\.txt"):
        run("digits-cnn", "reference", folder=tmp_path)
    with pytest.raises(InvalidArgument, match=r"no run under LoadGen left: notes\.txt"):
        run("digits-cnn", "reference", folder=tmp_path, overwrite=True)
    assert (tmp_path / "notes.txt").read_text(encoding="utf-8") == "mine"


def test_what_cannot_run_is_refused_before_it_begins(tmp_path: Path) -> None:
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is not installed")
    with pytest.raises(InvalidArgument, match="the data set has no array 'image'"):
        run("digits-cnn", "reference", dataset="co2", folder=tmp_path / "a")
    with pytest.raises(UnknownName, match="SingleStream"):
        run("digits-cnn", "reference", scenario="SingelStream", folder=tmp_path / "a")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="one of the two"):
        Settings(short=True, min_duration=3.0)
    with pytest.raises(InvalidArgument, match="language models"):
        Settings(audit="TEST06")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="find-peak"):
        Settings("Offline", mode="find-peak")
    assert not (tmp_path / "a").exists()


def test_errors_of_loadgen_make_a_run_invalid(runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    record, _ = runs("onnxruntime", SERVER)
    changed = record.model_copy(update={"loadgen": record.loadgen.model_copy(update={"errors": ["error_runtime: planted"]})})
    assert changed.loadgen.validity == "VALID"
    assert judged(changed).word == "INVALID"
    assert "1 errors, the first: error_runtime: planted" in judged(changed).reasons[0]


def test_hostile_records_are_refused(tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    import h5py

    record, _ = runs("onnxruntime", SERVER)
    long = np.zeros(6000, np.int64)  # few samples stay in the JSON file
    many = LatencyRecord(n=len(long), index=long, query=long, issued_ns=long, done_ns=long)
    save(record.model_copy(update={"latencies": many}), tmp_path)
    with h5py.File(tmp_path / "mlperf.h5", "a") as file:
        del file["index"]
        file["index"] = h5py.ExternalLink("/etc/hostname", "/x")
    with pytest.raises(InvalidRecord, match="was altered"):
        load_inference(tmp_path)
    content = json.loads((tmp_path / "mlperf.json").read_text(encoding="utf-8"))
    content["arrays"]["sha256"] = digest(tmp_path / "mlperf.h5")
    (tmp_path / "mlperf.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidRecord, match="is not in this file"):
        load_inference(tmp_path)
    content["arrays"]["name"] = "../up.h5"
    (tmp_path / "mlperf.json").write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InvalidRecord, match="name"):
        load_inference(tmp_path)


TAMPERED = {
    "more right than there are": (["accuracy", 0, "correct"], 400, "400 right"),
    "another count than the data set has": (["data", "samples"], 356, "of 355 samples, where the data set has 356"),
    "more right than the reference and the differing allow": (["accuracy", 0, "correct"], 355, "the reference has 354"),
    "a share of 0": (["accuracy", 1, "share"], 0.0, "greater than 0"),
    "a validity that the log does not have": (["loadgen", "validity"], "INVALID", "INVALID and VALID at once"),
    "a summary of another run": (["loadgen", "summary"], "Result is : INVALID\n", "INVALID and VALID at once"),
    "errors that are not there": (["loadgen", "values", "num_errors"], 2, "counts 2 errors"),
    "a latency of another run": (["loadgen", "values", "result_max_latency_ns"], 1, "says VALID"),
    "outputs that are wrong": (["outputs", "verdict"], "wrong", "INVALID because the network's outputs are wrong"),
    "no judgement": (["judgement"], None, "says not judged"),
    "no end": (["complete"], False, "complete=False"),
    "a figure that is none": (["loadgen", "values", "effective_target_latency_percentile"], 1e308, "cannot be judged"),
}


@pytest.mark.parametrize(("place", "value", "message"), TAMPERED.values(), ids=TAMPERED)
def test_a_record_that_contradicts_itself_is_refused(
    place: list[str | int], value: object, message: str, runs: Callable[..., tuple[InferenceRecord, Path]], tmp_path: Path
) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    copy = shutil.copytree(folder, tmp_path / "copy")
    change(copy, place, value)
    with pytest.raises(InvalidRecord, match=message):
        load_inference(copy)


def change(folder: Path, place: list[str | int], value: object) -> None:
    """Write something else into a record."""
    content = json.loads((folder / "mlperf.json").read_text(encoding="utf-8"))
    inside = content
    for part in place[:-1]:
        inside = inside[part]
    inside[place[-1]] = value
    (folder / "mlperf.json").write_text(json.dumps(content), encoding="utf-8")


def test_a_failed_audit_stays_failed(runs: Callable[..., tuple[InferenceRecord, Path]], tmp_path: Path) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    record, home = runs("onnxruntime", replace(SINGLE, mode="performance", audit="TEST01", check="off"), (folder,))
    assert record.audit is not None
    copy = shutil.copytree(home, tmp_path / "copy")
    change(copy, ["audit"], {"name": "TEST01", "checks": {"accuracy": [False, "planted"]}, "passed": False})
    change(copy, ["judgement"], {"word": "VALID", "reasons": []})
    with pytest.raises(InvalidRecord, match="INVALID because audit TEST01 failed: accuracy: planted"):
        load_inference(copy)
    change(copy, ["audit", "passed"], True)
    with pytest.raises(InvalidRecord, match="which its checks do not bear out"):
        load_inference(copy)


def test_logs_of_another_run_are_not_laid_out(tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    _, folder = runs("onnxruntime", SINGLE)
    _, other = runs("onnxruntime", SERVER)
    summary, accuracy = "mlperf_log_summary.txt", "mlperf_log_accuracy.json"
    copy = shutil.copytree(folder, tmp_path / "copy")
    laid = {"folder": tmp_path / "all", "submitter": "Lab", "system": "box"}
    text = (copy / summary).read_text(encoding="utf-8")
    for name, content in (
        (summary, text.replace("VALID", "INVALID").encode()),
        (accuracy, (other / accuracy).read_bytes()),
        ("accuracy.txt", b"accuracy=100.000%\n"),
        ("user.conf", b"# mine\n"),
        ("verify_accuracy.txt", b"TEST PASS\n"),
    ):
        before = (copy / name).read_bytes() if (copy / name).exists() else None
        (copy / name).write_bytes(content)
        with pytest.raises(InvalidRecord, match=f"{name} is not what the run left"):
            lay_out([copy], **laid)
        (copy / name).unlink()
        if before is not None:
            with pytest.raises(InvalidRecord, match=f"{name} is missing"):
                lay_out([copy], **laid)
            (copy / name).write_bytes(before)
    (copy / accuracy).write_bytes((other / accuracy).read_bytes())
    with pytest.raises(InvalidRecord, match="is not what the run left"):
        run("digits-cnn", "reference", settings=Settings(audit="TEST04"), folder=tmp_path / "audit", against=[copy])
    (copy / accuracy).write_bytes((folder / accuracy).read_bytes())
    (copy / summary).write_text(text.replace("Min latency", "min latency"), encoding="utf-8")
    change(copy, ["loadgen", "logs", summary], digest(copy / summary))
    with pytest.raises(InvalidRecord, match="says something else than the record"):
        lay_out([copy], **laid)
    assert not (tmp_path / "all").exists()


def test_what_keeps_a_valid_run_from_a_submission_is_beside_it(
    tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]
) -> None:
    record, folder = runs("onnxruntime", SERVER)
    assert as_text(record).splitlines()[1:4] == [
        "  as LoadGen judges it, but",
        "    not a valid submission duration: at least 0.3 s instead of 600 s",
        "    not a valid submission: the network's outputs were not checked",
    ]
    assert gather(folder)[0].verdict is not None
    made = lay_out([folder], tmp_path / "all", submitter="Lab", system="box")
    assert any("Server: not a valid submission: the network's outputs were not checked" in str(one) for one in made.findings)
    few = record.model_copy(update={"loadgen": record.loadgen.model_copy(deep=True)})
    few.loadgen.values["effective_performance_sample_count"] = 1
    first = record.accuracy[0]
    few.accuracy = [first.model_copy(update={"correct": 1, "total": 1, "share": 0.5, "reference_from": "stated"})]
    few.accuracy[0].constant = 0.9
    said = "\n".join(caveats(few))
    for part in (
        "queries are of 1 of 355 samples",
        "50 % of the reference's",
        "was stated",
        "one class for all",
        "not checked",
    ):
        assert part in said
    assert "(1 of 1, the data set has 355)" in as_text(few)
    few.accuracy, few.system = [], "mine:System"
    assert caveats(few)[-1] == "not a valid submission: nothing tells whether the answers are right"


def test_loadgens_leftovers_are_no_records(tmp_path: Path, runs: Callable[..., tuple[InferenceRecord, Path]]) -> None:
    record, folder = runs("onnxruntime", SERVER)
    for name in ("one", "other"):
        shutil.copytree(folder, tmp_path / name)
        for log in ("accuracy", "trace"):
            (tmp_path / name / f"mlperf_log_{log}.json").write_text('[\n{ "seq_id" : ', encoding="utf-8")
    killed = record.model_copy(update={"judgement": None, "complete": False})
    save(killed, tmp_path / "other")
    assert choose_record(tmp_path / "other") == tmp_path / "other" / "mlperf.json"
    assert as_text(load_inference(tmp_path / "other")).splitlines()[1] == "  because the run was killed, or still goes on"
    found = gather(tmp_path)
    assert (len(found), found.refused) == (2, ())
    assert {"one/mlperf", "other/mlperf"} == set(short_names(found.files()).values())
    assert "digits-cnn on digits/test, Server performance" in found.table(width=400)
    assert choose_record(tmp_path / "oth") == tmp_path / "other" / "mlperf.json"
    assert choose_record(tmp_path / "one" / "mlperf") == tmp_path / "one" / "mlperf.json"
    with pytest.raises(InvalidArgument, match="2 records"):
        choose_record(tmp_path / "mlperf")


def test_samples_of_a_permutation_that_repeats_are_all_counted() -> None:
    values = {"result_query_count": 1, "effective_samples_per_query": 207_824, "generated_samples_per_query": 208_030}
    assert Detail(values).samples == 208_030
