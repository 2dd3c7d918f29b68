"""``run``: one run under LoadGen, in a process of its own, and its record."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import JsonValue

from deep_bench.errors import DeepBenchError, InvalidArgument, Unsupported
from deep_bench.graph import Network
from deep_bench.measure.environment import StealMeter, provenance
from deep_bench.measure.units import duration
from deep_bench.mlperf.inference.audit import (
    ACCURACY_TEXT,
    LOG,
    MOST_REFERENCE_SAMPLES,
    AccuracyJudge,
    accuracy_text,
    audited,
    check_target,
    clean_folder,
    references_of,
    seals,
)
from deep_bench.mlperf.inference.child import HELD, loadgen_version, require
from deep_bench.mlperf.inference.logs import TRACE, read_answers, read_detail, read_summary, read_trace
from deep_bench.mlperf.inference.record import InferenceRecord, LatencyRecord, LoadgenRecord, caveats, judged, save
from deep_bench.mlperf.inference.settings import Conf, Mode, ScenarioName, Settings, conf_of
from deep_bench.mlperf.inference.system import DEFAULT_SETS, Library, Work, make_work, noted, sizes_of
from deep_bench.mlperf.inference.system import EXPECTED as SYSTEM_EXPECTED
from deep_bench.mlperf.inference.system import FILE as FAULT
from deep_bench.records.model import ErrorRecord, NetworkFacts, OptionsRecord
from deep_bench.study.judging import forms_record, verdict_record
from deep_bench.training.dataset import facts
from deep_bench.variant import Variant
from deep_bench.workers.process import Worker, failure_text

_FEWEST = MappingProxyType({"SingleStream": 100, "MultiStream": 662})
"""Queries that LoadGen issues at least, where the next comes when the last is answered."""


_MUCH = 1.5


def lasts(scenario: ScenarioName, seconds: float, query_s: float | None) -> str:
    """An estimate in words; empty where the run will last about as long as was asked for, or that cannot be told.

    Args:
        scenario: How queries come.
        seconds: What the run lasts at least.
        query_s: What a query takes; ``None`` where no pilot was asked.

    Example:
        >>> lasts("MultiStream", 2.0, 1.5)
        'about 993 s: at least 662 queries, and one takes 1.500 s'
        >>> lasts("SingleStream", 2.0, 0.001), lasts("Offline", 2.0, 9.0)
        ('', '')
    """
    fewest = _FEWEST.get(scenario)
    if fewest is None or query_s is None or fewest * query_s < _MUCH * seconds:
        return ""
    return f"about {fewest * query_s:.0f} s: at least {fewest} queries, and one takes {duration(query_s)}"


_RUN = "deep_bench.mlperf.inference.child:LoadgenRun"


def run(
    network: str | Path | Network = "digits-cnn",
    framework: str | Variant = "onnxruntime",
    *,
    scenario: ScenarioName | None = None,
    mode: Mode | None = None,
    dataset: str | None = None,
    root: str | Path | None = None,
    settings: Settings | None = None,
    folder: str | Path,
    overwrite: bool = False,
    system: str = "",
    against: Sequence[str | Path] = (),
    cell: Mapping[str, Any] | None = None,
    begun: Callable[[Path], object] | None = None,
    slow: Callable[[str], object] | None = None,
) -> InferenceRecord:
    """Run a network under MLPerf's LoadGen.

    The run has a process of its own. Whatever goes wrong in it ends it within seconds and is in the record: an exception, an
    answer that is missing, comes twice, was not asked for or comes after the end, a thread that dies, a call that hangs.

    Args:
        network: One that ships, a file, or a network.
        framework: With its options, such as ``"torch:threads=1"``.
        scenario: How queries come; that of ``settings`` by default.
        mode: What the run is for; likewise.
        dataset: A set's name (``"digits/test"``), a container's path, or ``"recipe:mnist5k"`` for what a training
            recipe holds out, as it prepares it; networks that ship have one.
        root: The folder of data sets, for those that have files.
        settings: All else.
        folder: For LoadGen's logs and the record; one without files.
        overwrite: Remove what an earlier run left there.
        system: Import path of a `System` that takes the executor's place.
        against: For an audit: the folders of the runs that it is about.
        cell: Of a recipe's matrix, noted in the record.
        begun: Called with the folder once nothing is refused any more, before the run.
        slow: Called with an estimate in words, once the system is ready, where the run will last much longer than asked for.

    Returns:
        The record, which is in the folder as well, in ``mlperf.json``. Its ``judgement`` is VALID, INVALID or FAILED.

    Raises:
        FrameworkMissing: LoadGen or the framework is not installed.
        InvalidArgument: Settings that do not go together, a system that is not there, or a folder with files.
        DeepBenchError: A network or data set that cannot be used.
    """
    require()
    settings = settings or Settings()
    settings = replace(settings, scenario=scenario or settings.scenario, mode=mode or settings.mode)
    work = make_work(network, framework, dataset, settings, None if root is None else str(root))
    _check_what_runs(work, system)
    Library(work.dataset, work.network)
    sizes_of(work)
    conf = conf_of(settings, work.model, len(work.dataset))
    judge = _judge(work)
    references = references_of(against, settings)
    home = clean_folder(folder, overwrite)
    record = _first_record(work, conf, dataset, system, cell)
    save(record, home)
    if begun is not None:
        begun(home)
    meter = StealMeter()
    try:
        with tempfile.TemporaryDirectory(prefix="deep_bench_") as temporary:
            arguments = {
                "network": str(work.network.save(Path(temporary) / f"{work.model}.onnx")),
                "framework": str(work.variant),
                "dataset": dataset or DEFAULT_SETS[work.network.name],
                "root": None if root is None else str(root),
                "settings": settings,
                "conf": conf,
                "folder": str(home.resolve()),
                "system": system,
            }
            with Worker(_RUN, arguments, label=str(work.variant), log=home / LOG) as worker:
                ready: dict[str, Any] = worker.call("ready")
                if slow is not None and (lasting := lasts(settings.scenario, conf.seconds, ready["query_s"])):
                    slow(lasting)
                outcome: dict[str, Any] = worker.call("run")
        record.pilot = ready["pilot"]
        _fill(record, outcome, home)
        _judge_answers(record, judge, outcome, home)
        if settings.audit is not None:
            record.audit = audited(record, home, references, work)
    except KeyboardInterrupt:
        record.interrupted = True
    except DeepBenchError as error:
        record.error = _error(error, home, str(work.variant))
    finally:
        (home / TRACE).unlink(missing_ok=True)
    record.steal = meter.share()
    record.judgement = judged(record)
    record.remarks = list(dict.fromkeys([*record.remarks, *caveats(record)]))
    record.loadgen.logs = seals(home)
    record.complete = record.error is None and not record.interrupted
    save(record, home)
    return record


def _check_what_runs(work: Work, system: str) -> None:
    if work.network.kernels:
        raise Unsupported("a network with kernels of yours", "one without, for LoadGen", "network.without_kernels()")
    if work.variant.environment is not None:
        raise Unsupported(f"{work.variant} under LoadGen", "a framework of this environment", str(work.variant.here))
    module, _, name = system.partition(":")
    try:
        exists = not system or (name.isidentifier() and find_spec(module) is not None)
    except (ImportError, ValueError):
        exists = False
    if not exists:
        raise InvalidArgument(f"system {system!r}, which is not there", SYSTEM_EXPECTED)


def _judge(work: Work) -> AccuracyJudge | None:
    """What compares classes; ``None`` where nothing is classified, or the reference would take too long."""
    settings = work.settings
    if work.labels is None:
        return None
    slow = settings.reference_accuracy is None and len(work.labels) > MOST_REFERENCE_SAMPLES
    if slow and settings.mode not in ("accuracy", "submission"):
        check_target(settings, work.labels)
        return None
    return AccuracyJudge(work)


def _first_record(
    work: Work, conf: Conf, dataset: str | None, system: str, cell: Mapping[str, Any] | None
) -> InferenceRecord:
    settings = work.settings
    fields = {name: str(value) if isinstance(value, Path) else value for name, value in asdict(settings).items()}
    options: dict[str, JsonValue] = {**fields, "dataset": dataset}
    if cell is not None:
        options["cell"] = dict(cell)
    return InferenceRecord(
        **provenance(),
        recipe=OptionsRecord(options=options),
        network=NetworkFacts.of(work.network),
        data=facts(work.dataset, contents=False),
        framework=str(work.variant),
        system=system,
        scenario=settings.scenario,
        mode=settings.mode,
        settings=fields,
        remarks=list(conf.remarks),
        notes=list(conf.notes),
        loadgen=LoadgenRecord(version=loadgen_version()),
    )


def _fill(record: InferenceRecord, outcome: dict[str, Any], home: Path) -> None:
    """Take over what the process gave and what LoadGen wrote."""
    detail = read_detail(home)
    record.facts = outcome["facts"]
    record.forms = forms_record(outcome["forms"]) if outcome["forms"] is not None else None
    record.outputs = verdict_record(outcome["verdict"]) if outcome["verdict"] is not None else None
    record.loadgen = LoadgenRecord(
        version=record.loadgen.version,
        validity=detail.validity,
        errors=list(detail.errors),
        warnings=list(detail.warnings),
        values=dict(detail.values),
        summary=read_summary(home),
    )
    columns = outcome["columns"]
    traced = read_trace(home, detail.samples) if outcome["traced"] and detail.samples else {}
    record.latencies = LatencyRecord(n=len(columns["index"]), **columns, **traced)


def _judge_answers(record: InferenceRecord, judge: AccuracyJudge | None, outcome: dict[str, Any], home: Path) -> None:
    if judge is None:
        record.notes.append("accuracy is not judged: nothing is classified, or the reference's accuracy is not known")
        return
    if record.mode in ("accuracy", "submission"):
        entry = judge.accuracy(read_answers(home))
        record.accuracy.append(entry)
        (home / ACCURACY_TEXT).write_text(accuracy_text(entry, home), encoding="utf-8")
    if record.mode != "accuracy":
        beside = judge.performance(outcome["answers"])
        if beside is not None:
            record.accuracy.append(beside)


def _error(error: DeepBenchError, home: Path, label: str) -> ErrorRecord:
    """What ended the run: what its process left, or else how that ended."""
    note = noted(home)
    (home / FAULT).unlink(missing_ok=True)
    if note is not None:
        kind = "" if note["kind"] == "RunFailed" else f"{note['kind']}: "
        return ErrorRecord(kind=note["kind"], message=f"{kind}{note['message']}", details=note["details"])
    record = ErrorRecord.of(error)
    record.message = failure_text(error, label)
    if HELD in record.details:
        record.message = f"a call held Python's lock for longer than --stall allows: its stack is in {home / LOG}"
    return record
