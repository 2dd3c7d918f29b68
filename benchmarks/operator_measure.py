"""How quickly, how cheaply and how reliably operators are timed: deep_bench beside torch.utils.benchmark, in one run.

    python benchmarks/operator_measure.py                        # about five minutes, on a machine with nothing else to do
    python benchmarks/operator_measure.py --only quick --only calls --repeats 5

quick      wall time until half the 95 % interval of the median is 1 %, over that of blocked_autorange
calls      what a call through deep_bench costs, without a callback and with one
coverage   how many of the reported intervals hold the median of all runs together
load       how many medians beside two busy processes are within 2 % of the quiet one, and how many intervals exclude it
suite      the whole deepbench/gemm/device suite on two adapters, verdicts included
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, sleep

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(variable, "1")

import numpy as np  # noqa: E402 (the threads are chosen when it is imported)
from _operator_measure_systems import Product  # noqa: E402

import deep_bench as db  # noqa: E402
from deep_bench.events import (  # noqa: E402
    Moment,
    in_turn,
)
from deep_bench.measure.session import (  # noqa: E402
    Measurement,
    Plan,
    measure_launch,
    time_call,
)
from deep_bench.measure.statistics import HEAVY_PREEMPTION, summarize  # noqa: E402
from deep_bench.operators.operator import KernelAdapter  # noqa: E402
from deep_bench.operators.studies.contestants import contestants_of  # noqa: E402
from deep_bench.operators.studies.settings import FORWARD  # noqa: E402
from deep_bench.workers.fleet import Contender, Fleet  # noqa: E402
from deep_bench.workers.pickling import dumped  # noqa: E402

SIZES = {"7 us": 64, "0.2 ms": 220, "2.6 ms": 512}
_HERE = Path(__file__).parent


def product(size: int) -> Callable[[], object]:
    a = np.random.default_rng(0).random((size, size), np.float32)
    out = np.empty_like(a)
    return lambda: np.matmul(a, a, out=out)


def quick(arguments: argparse.Namespace) -> bool:
    from torch.utils.benchmark import Timer

    print(f"\n{'call':>10}  {'ours s':>8} {'torch s':>8} {'ratio':>6}   1 % reached    n   (goal: ratio at most 0.25)")
    fine = True
    for size in (32, 64, 140, 220, 300):
        call = product(size)
        time_call(call)
        ours, theirs, reached, count, median = [], [], 0, [], 0.0
        for _ in range(arguments.repeats):
            begin = perf_counter()
            found = time_call(call)
            middle = perf_counter()
            Timer("f()", globals={"f": call}).blocked_autorange()
            ours.append(middle - begin)
            theirs.append(perf_counter() - middle)
            reached += found.reached and found.summary.n >= 30
            count.append(found.summary.n)
            median = found.summary.median
        ratio = float(np.median(ours) / np.median(theirs))
        fine &= ratio <= 0.25
        print(f"{median / 1e3:8.1f}us  {np.median(ours):8.4f} {np.median(theirs):8.4f} {ratio:6.3f}   ", end="")
        print(f"{reached:3d} of {arguments.repeats:3d}  {int(np.median(count)):5d}", flush=True)
    return fine


def calls(arguments: argparse.Namespace) -> bool:
    class Nothing(db.Operator[np.ndarray]):
        computes = "MatMul"

        def forward(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:  # noqa: ARG002 (an operator of two inputs)
            return a

    case = db.Case.of("MatMul", (8, 8), (8, 8))
    executor = KernelAdapter(Nothing()).prepare(case.network())
    arrays = case.arrays()
    kernel, given = Nothing().forward, tuple(arrays.values())

    def tell(moment: Moment, index: int, time_ns: int, data: object) -> None:
        pass

    watched = executor.watch(tell).bind(arrays)
    bound = executor.bind(arrays)
    plain = lambda: kernel(*given)  # noqa: E731
    many = {
        name: (lambda f=f: [f() for _ in range(1000)])
        for name, f in (("plain", plain), ("bound", bound), ("watched", watched))
    }
    found = in_turn(many, lambda: None, 20 * arguments.repeats)
    medians = {name: float(np.median(ns)) / 1000 for name, ns in found.items()}
    without, with_one = (medians[name] - medians["plain"] for name in ("bound", "watched"))
    print(
        f"\na kernel by itself {medians['plain']:.0f} ns; through deep_bench {without:+.0f} ns (goal: at most 300), ", end=""
    )
    print(f"with a callback told before and after {with_one:+.0f} ns (goal: at most 500)")
    return without <= 300 and with_one <= 500


def coverage(arguments: argparse.Namespace) -> bool:
    print(f"\n{'call':>8}  {'how':24} intervals that hold the pooled median   median half-width (goal: at least 90 %)")
    fine = True
    with loaded(SIZES, ["7 us", "0.2 ms"]) as fleets:
        for name, fleet in fleets.items():
            runs = {
                "alone": lambda name=name: _alone(product(SIZES[name])),
                "in a worker, 1 s": lambda fleet=fleet: _taken(fleet, 1.0, arguments),
            }
            for how, take in runs.items():
                taken = [take() for _ in range(arguments.repeats)]
                pooled = float(np.median(np.concatenate([samples for samples, _ in taken])))
                ends = [interval for _, interval in taken if interval is not None]
                held = sum(low <= pooled <= high for low, high in ends)
                width = float(np.median([(high - low) / 2 / pooled for low, high in ends])) if ends else float("nan")
                fine &= held >= 0.9 * len(taken)
                print(f"{name:>8}  {how:24} {held:3d} of {len(taken):3d}{'':33} {width:7.2%}", flush=True)
    return fine


def load(arguments: argparse.Namespace) -> bool:
    print(f"\nbeside {arguments.busy} busy processes: within 2 % of the quiet median; intervals that exclude it unwarned")
    fine = True
    with loaded(SIZES, list(SIZES)) as fleets:
        quiet = {name: [_medians(fleet, arguments) for _ in range(5)] for name, fleet in fleets.items()}
        with busy(arguments.busy):
            beside = {name: [_medians(fleet, arguments) for _ in range(arguments.repeats)] for name, fleet in fleets.items()}
    for name in fleets:
        near = {}
        for how in quiet[name][0]:
            base = float(np.median([one[how][0] for one in quiet[name]]))
            near[how] = sum(abs(one[how][0] / base - 1) <= 0.02 for one in beside[name])
            unwarned = sum(
                one[how][1] is not None and _excludes(one[how][1], base) and not one[how][2] for one in beside[name]
            )
            text = f"  {unwarned} exclude it unwarned" if how == "deep_bench" else ""
            print(f"{name:>8}  {how:20} {base / 1e3:10.2f} us   {near[how]:3d} of {arguments.repeats:3d}{text}", flush=True)
            fine &= how != "deep_bench" or unwarned == 0
        best = max(count for how, count in near.items() if how != "deep_bench")
        fine &= near["deep_bench"] >= (2 * best if name == "2.6 ms" else 0.95 * arguments.repeats)
    return fine


def suite(arguments: argparse.Namespace) -> bool:
    del arguments
    begin = perf_counter()
    found = db.operators.study(["torch", "onnxruntime"], "deepbench/gemm/device", progress=False)
    seconds = perf_counter() - begin
    print(f"\ndeepbench/gemm/device on torch and onnxruntime: {seconds:.0f} s (goal: under 120), all right: {found.ok}")
    return seconds < 120 and found.ok


@contextmanager
def loaded(sizes: dict[str, int], names: list[str]) -> Iterator[dict[str, Fleet]]:
    """An operator for each size, each in a worker of its own, ready to be timed."""
    (contestant,) = contestants_of(Product)
    found: dict[str, Fleet] = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in names:
                factory = "_operator_measure_systems:WithPeers"
                contender = Contender(f"product {name}", factory, contestant.arguments, path=(str(_HERE),))
                fleet = found[name] = Fleet([contender], Path(folder))
                case = db.Case.of("MatMul", (sizes[name],) * 2, (sizes[name],) * 2)
                content = dumped(case, case.name)
                fleet.prepared[contender.label] = fleet.awake(contender.label, lambda r: r.load(content, 0, (FORWARD,)))  # noqa: B023
                fleet.call(contender.label, "blocked", 0.01)  # imports torch
            yield found
        finally:
            for fleet in found.values():
                fleet.close()


@contextmanager
def busy(count: int) -> Iterator[None]:
    """So many processes that do nothing but compute."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        sleep(0.5)
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _measured(fleet: Fleet, seconds: float) -> Measurement:
    return measure_launch(fleet, Plan(budget_s=seconds, warm_up_block_ns=2_000_000, min_ns=int(seconds * 1e9 / 16)))


def _taken(fleet: Fleet, seconds: float, arguments: argparse.Namespace) -> tuple[np.ndarray, tuple[float, float] | None]:
    del arguments
    (label,) = fleet.contenders
    blocks = _measured(fleet, seconds).blocks(label, FORWARD)[0]
    interval = summarize(blocks).interval
    return np.concatenate([b.calls_ns for b in blocks]), None if interval is None else (interval.low, interval.high)


def _alone(call: Callable[[], object]) -> tuple[np.ndarray, tuple[float, float] | None]:
    found = time_call(call)
    interval = found.summary.interval
    return np.concatenate([b.calls_ns for b in found.blocks]), None if interval is None else (interval.low, interval.high)


def _medians(fleet: Fleet, arguments: argparse.Namespace) -> dict[str, tuple[float, tuple[float, float] | None, bool]]:
    """Median, interval, and whether a warning goes with it, by each method."""
    (label,) = fleet.contenders
    found = summarize(_measured(fleet, arguments.seconds).blocks(label, FORWARD)[0])
    ends = None if found.interval is None else (found.interval.low, found.interval.high)
    warned = found.preempted >= HEAVY_PREEMPTION or os.getloadavg()[0] >= 0.5
    return {
        "deep_bench": (found.median, ends, warned),
        "blocked_autorange": (fleet.call(label, "blocked", 0.2), None, False),
        "adaptive_autorange": (fleet.call(label, "adaptive", 0.2), None, False),
    }


def _excludes(ends: tuple[float, float] | None, value: float) -> bool:
    return ends is not None and not ends[0] <= value <= ends[1]


PARTS = {"quick": quick, "calls": calls, "coverage": coverage, "load": load, "suite": suite}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, help="parts to run")
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.8, help="of each measurement under load")
    parser.add_argument("--busy", type=int, default=2, help="how many busy processes")
    arguments = parser.parse_args()
    print(f"load before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")
    held = {name: PARTS[name](arguments) for name in arguments.only or PARTS}
    print("\n" + ", ".join(f"{name}: {'holds' if fine else 'does not hold'}" for name, fine in held.items()))
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
