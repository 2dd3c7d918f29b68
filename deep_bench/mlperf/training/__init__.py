"""Training as MLPerf has it: logs of runs, the checks of its own tools, scores, and reference convergence points."""

from deep_bench.mlperf.training.callback import MlperfLog
from deep_bench.mlperf.training.check import Scored, check_log, check_system, examined, faults, scored, summarize
from deep_bench.mlperf.training.logs import Log, Submission, read_log, write_tags
from deep_bench.mlperf.training.reference import compare, record
from deep_bench.mlperf.training.runs import Timed, planned

__all__ = [
    "Log",
    "MlperfLog",
    "Scored",
    "Submission",
    "Timed",
    "check_log",
    "check_system",
    "compare",
    "examined",
    "faults",
    "planned",
    "read_log",
    "record",
    "scored",
    "summarize",
    "write_tags",
]
