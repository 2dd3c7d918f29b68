"""The main job: operators and frameworks side by side on the cases of a suite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deep_bench.errors import NotKept, UnknownName
from deep_bench.graph import Network
from deep_bench.measure.folder import output_folder
from deep_bench.measure.progress import Bars
from deep_bench.measure.roofline import Roofline
from deep_bench.measure.roofline.kept import kept_roofline
from deep_bench.operators.case import Case
from deep_bench.operators.operator import Operator
from deep_bench.operators.studies.contestants import contestants_of
from deep_bench.operators.studies.experiment import Experiment
from deep_bench.operators.studies.result import Study
from deep_bench.operators.studies.settings import Checking, Settings
from deep_bench.operators.suites.find import suite_of
from deep_bench.operators.suites.suite import Suite
from deep_bench.variant import Variant

if TYPE_CHECKING:
    from deep_bench.measure.metric import Metric

One = str | Variant | Operator[Any] | type[Operator[Any]]


def study(
    contestants: One | Sequence[One] | Mapping[str, One],
    cases: str | Path | Network | Suite | Case | Iterable[Case],
    *,
    seed: int = 0,
    ci_width: float = 0.01,
    budget: float = 3.0,
    check: Checking = "auto",
    launches: int = 1,
    twin: bool = True,
    limit: float = 120.0,
    backward: bool = False,
    numpy: bool = False,
    cold: bool = False,
    dispatch: bool = True,
    metrics: Sequence[str | Callable[[], Metric]] = (),
    roofline: Roofline | None = None,
    base: str | None = None,
    isolate: bool = False,
    in_process: bool = False,
    output: str | Path | None = None,
    progress: bool = True,
) -> Study:
    """Study operators and frameworks: is each right on each case, how precise is it, how long does it take?

    Each contestant lives in a process of its own, for all cases, and is stopped while others are timed. On each case all are
    set up, judged against the reference, warmed up and timed in random order, block by block; then whether their answers
    are still the same is looked at, and whether operators have left alone their inputs, the clock and the checker. Who fails
    on a case is out of that case only: a process that ended is started afresh. Gradients that fail cost the gradients only.

    Not looked for are answers that are kept by the whole contents of the inputs, work that goes on after a call, and reads
    and writes outside of buffers: `deep_bench.operators.check_operator` does that.

    Within one launch of its process nobody sees what differs between launches. With ``launches`` all processes are started
    so many times and time all cases anew: medians are those over the launches' medians then, and so are their intervals
    (from six launches on). What is judged is the first launch.

    Args:
        contestants: Operators or their classes, frameworks with options (``"torch:threads=1"``), operators in files
            (``"my_kernels.py:FastGelu"``); or a mapping from label to each.
        cases: A suite, its name in ``db.suites``, a ``.toml`` or ``.onnx`` file, a network, or cases.
        seed: Of the inputs, of the random order and of the estimates.
        ci_width: Go on to the next case when half the 95 % interval of each median is at most this share of it …
        budget: … or after so many seconds of measuring the case, in all launches together; twice that where blocks are too
            few for intervals.
        check: How hard to look whether results are right: ``"auto"``, ``"quick"``, ``"full"`` or ``"off"``.
        launches: How many times to start every contestant afresh.
        twin: Whether the base is measured twice, as an A/A pair: what the two differ by means nothing.
        limit: The most seconds that anything asked of a contestant may take.
        backward: Time gradients as well.
        numpy: Time calls from and to NumPy arrays as well.
        cold: Time calls on empty caches as well; all others find them warm.
        dispatch: Time a call that computes nothing as well, once for each signature.
        metrics: What else is to be found out of each forward call; see `deep_bench.measure.metric`.
        roofline: The roofs of this machine; by default those that were measured last, if they ever were.
        base: The contestant that others are compared with; by default the first framework, or the first of all.
        isolate: Give each case fresh processes, so that none can leave anything behind for the next.
        in_process: Time everything in this process, for a debugger.
        output: A folder for the record and the contestants' logs.
        progress: Show progress bars, if standard error is a terminal.

    Returns:
        What was found. Ctrl-C ends the study early; the result then holds what was measured.

    Raises:
        UnknownName: A framework, suite or base that does not exist.
        FrameworkMissing: A framework that is not installed.
        InvalidArgument: An option out of range, contestants or cases that are none, or an operator that cannot be pickled.
        NotKept: The record could not be written in the end; ``found`` of the error is the study.

    Example:
        >>> import numpy as np
        >>> import deep_bench as db
        >>> class Doubled(db.Operator):
        ...     computes = "Add"
        ...     def forward(self, a, b):
        ...         return a + b
        >>> found = study([Doubled, "reference"], db.Case.of("Add", (8,), (8,)), budget=0.3, progress=False)
        >>> found["Doubled", "8 8"].verdict
        'right'
    """
    settings = Settings(
        seed=seed,
        ci_width=ci_width,
        budget=budget,
        check=check,
        launches=launches,
        twin=twin,
        limit=limit,
        backward=backward,
        numpy=numpy,
        cold=cold,
        dispatch=dispatch,
        isolate=isolate,
        in_process=in_process,
    )
    chosen, suite = contestants_of(contestants), suite_of(cases)
    if base is not None and base not in [c.label for c in chosen]:
        raise UnknownName("contestant", base, [c.label for c in chosen])
    folder = output_folder(output) if output is not None else None
    experiment = Experiment(chosen, suite, settings, metrics, folder, Bars(progress), base=base)
    roofs = roofline if roofline is not None else kept_roofline()
    experiment.record.roofline = None if roofs is None else roofs.model_dump(mode="json")
    record = experiment.run()
    if (error := experiment.unwritten) is not None:
        raise NotKept(error.came, error.expected, found=Study(record)) from error
    return Study(record, experiment.path)
