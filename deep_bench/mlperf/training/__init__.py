"""Training as MLPerf has it: logs of runs, the checks of its own tools, scores, and reference convergence points."""

from deep_bench.mlperf.training.callback import MlperfLog
from deep_bench.mlperf.training.check import faults
from deep_bench.mlperf.training.events import Log, read_log
from deep_bench.mlperf.training.examine import examined
from deep_bench.mlperf.training.official import check_log, check_system, summarize
from deep_bench.mlperf.training.reference import compare, record
from deep_bench.mlperf.training.runs import Timed, planned
from deep_bench.mlperf.training.score import Scored, scored
from deep_bench.mlperf.training.submission import Submission
from deep_bench.mlperf.training.tags import write_tags

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
