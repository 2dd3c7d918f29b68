"""SimGrid replays the generalised pattern, in a process of its own: a small program over its library, compiled once.

Source:
    Casanova, Giersch, Legrand, Quinson and Suter, *Versatile, scalable, and accurate simulation of distributed applications
    and platforms*, JPDC 74 (2014); https://simgrid.org, S4U.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TextIO

from deep_bench.distributed.machine.loggp import LogGP
from deep_bench.distributed.machine.model import Link
from deep_bench.distributed.scaling.networks import Network
from deep_bench.distributed.scaling.program import Computing, Program, whole
from deep_bench.distributed.scaling.schedules import Round
from deep_bench.errors import DeepBenchError
from deep_bench.measure.user_cache import user_cache

_SOURCE = Path(__file__).with_name("replay.cpp")
_HEADER = Path("simgrid") / "s4u.hpp"
_COMPILE_S = 180

MOST_MESSAGES = 3_000_000
"""Of a replay: a simulator looks at each one."""

_SETTINGS = (
    "--cfg=network/model:CM02", "--cfg=network/TCP-gamma:0", "--cfg=network/crosstraffic:0", "--cfg=contexts/stack-size:128",
    "--log=root.thresh:warning",
)  # fmt: skip


class SimulatorFailed(DeepBenchError):
    """The simulator is there, and did not do its work."""


@dataclass(frozen=True)
class Simulator:
    """SimGrid on this machine.

    Args:
        program: What replays.
        version: SimGrid's.
    """

    program: Path
    version: str


def found(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> Simulator | str:
    """SimGrid with a program that replays, compiled if it was not; or why there is none.

    Args:
        run: Runs a command; for tests.
    """
    compiler = next((path for name in ("g++", "clang++", "c++") if (path := shutil.which(name))), None)
    if compiler is None:
        return "no simulator: there is no C++ compiler in PATH to compile the replay with"
    version = _version(run)
    if version is None:
        return "no simulator: SimGrid's library is not installed here (Debian: apt install libsimgrid-dev g++)"
    source = _SOURCE.read_bytes()
    program = user_cache() / "simgrid" / f"replay-{version}-{sha256(source).hexdigest()[:12]}"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=program.parent) as folder:
            binary = Path(folder) / "replay"
            command = [compiler, "-O2", "-std=c++20", str(_SOURCE), "-lsimgrid", "-o", str(binary)]
            done = run(command, capture_output=True, text=True, timeout=_COMPILE_S, check=False)
            if done.returncode:
                return f"no simulator: the replay could not be compiled: {done.stderr.strip().splitlines()[-1:]}"
            binary.replace(program)
    return Simulator(program, version)


def _version(run: Callable[..., subprocess.CompletedProcess[str]]) -> str | None:
    """SimGrid's version; ``None`` where its headers are not found."""
    if shutil.which("pkg-config"):
        done = run(["pkg-config", "--modversion", "simgrid"], capture_output=True, text=True, check=False)
        if done.returncode == 0:
            return done.stdout.strip()
    places = (Path("/usr/include"), Path("/usr/local/include"), Path("/opt/simgrid/include"))
    return "of unknown version" if any((place / _HEADER).is_file() for place in places) else None


@dataclass(frozen=True)
class Replayed:
    """What the simulator found.

    Args:
        seconds: Of a step, on average over those of the program.
        drawn: Of it, the computing of the slowest ranks as their times were drawn.
        messages: How many it replayed.
    """

    seconds: float
    drawn: float
    messages: int

    def expected(self, computing: float) -> float:
        """The step with the mean computing of the slowest in the place of what was drawn in these few steps."""
        return self.seconds - self.drawn + computing


def replay(simulator: Simulator, program: Program, network: Network, link: Link, limit_s: float = 300.0) -> Replayed | str:
    """Replay a program on a network; or why not.

    Args:
        simulator: See `found`.
        program: What ranks do.
        network: On which network, with a rank on each node.
        link: What messages cost.
        limit_s: Seconds that it may take.

    Raises:
        SimulatorFailed: It ended with an error.
    """
    total = messages(program)
    if total > MOST_MESSAGES:
        return f"{total} messages are more than the {MOST_MESSAGES} that are replayed at most"
    with tempfile.TemporaryDirectory() as folder:
        platform, steps = Path(folder) / "platform.xml", Path(folder) / "program.txt"
        platform.write_text(network.platform(typical(program, link)), encoding="utf-8")
        with steps.open("w", encoding="utf-8") as file:
            write(program, link, file)
        command = [str(simulator.program), str(platform), str(steps), str(program.ranks), *_SETTINGS]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return f"it took longer than {limit_s:g} s"
    if done.returncode:
        raise SimulatorFailed(f"SimGrid ended with status {done.returncode}: {done.stderr.strip()[:300]}")
    return Replayed(float(done.stdout.split()[-1]) / program.steps, program.drawn(), total)


def messages(program: Program) -> int:
    """How many messages a program has, from a rank of each role and the roles' numbers."""
    roles = Counter(program.pattern.roles[1](rank) for rank in range(program.ranks))
    count = 0
    for rank in program.pattern.representatives(program.ranks):
        sends = sum(len(part.sends) for part in program.rounds(rank, [0] * program.steps) if isinstance(part, Round))
        count += sends * roles[program.pattern.roles[1](rank)]
    return count


def typical(program: Program, link: Link) -> LogGP:
    """The machine's parameters for messages of the size that has most of the bytes: a platform has no others."""
    bytes_of: Counter[int] = Counter()
    for rank in program.pattern.representatives(program.ranks):
        for part in program.rounds(rank, [0]):
            if isinstance(part, Round):
                for _, n in part.sends:
                    bytes_of[whole(n)] += whole(n)
    return link.at(bytes_of.most_common(1)[0][0] if bytes_of else 1)


def write(program: Program, link: Link, file: TextIO) -> None:
    """Write a program as the replay reads it."""
    rows = program.rows()
    for rank in range(program.ranks):
        file.write("r\n")
        for part in program.rounds(rank, rows[rank].tolist()):
            if isinstance(part, Computing):
                file.write(f"c {part.seconds:.9g}\n")
                continue
            sends = [f"{to} {whole(n)} {link.overhead(n):.6g}" for to, n in part.sends]
            sources = [str(source) for source, _ in part.receives]
            busy = sum(link.overhead(n) for _, n in part.receives) + link.combining(part.added)
            file.write(" ".join(["x", str(len(sends)), *sends, str(len(sources)), *sources, f"{busy:.6g}"]) + "\n")
