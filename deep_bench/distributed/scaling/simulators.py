"""Simulators that replay the generalised pattern: SimGrid in a process of its own, LogGOPSim and ASTRA-sim by their files.

A file has messages of protocol buffers, each behind its length: ``GlobalMetadata``, then a ``Node`` for each thing that the
rank does. The types are made here of the fields that are used, with the schema's names and numbers.

Source:
    Casanova, Giersch, Legrand, Quinson and Suter, *Versatile, scalable, and accurate simulation of distributed
    applications and platforms*, JPDC 74 (2014); https://simgrid.org, S4U; Hoefler, Siebert and Lumsdaine, *Group
    operation assembly language: a flexible way to express collective communication*, ICPP 2009; Hoefler, Schneider and
    Lumsdaine, *LogGOPSim: simulating large-scale applications in the LogGOPS model*, LSAP at HPDC 2010; the text that
    its ``txt2bin`` reads; Sridharan et al., *Chakra: advancing performance benchmarking and co-design using standardized
    execution traces*, arXiv:2305.14516; MLCommons Chakra, ``schema/protobuf/et_def.proto``.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from math import ceil
from pathlib import Path
from typing import Any, TextIO

from deep_bench.distributed.loggp import LogGP
from deep_bench.distributed.machine import Link
from deep_bench.distributed.scaling.program import Computing, Program, Round, whole
from deep_bench.distributed.scaling.trace import MESSAGES, TracedCall
from deep_bench.errors import DeepBenchError, InvalidArgument
from deep_bench.records.folders import user_cache
from deep_bench.records.store import replace

_PORTS = 16
_CHASSIS, _NODES = 4, 4


@dataclass(frozen=True)
class Interconnect:
    """A network for so many ranks, each on a node of its own.

    Args:
        topology: SimGrid's name.
        parameters: SimGrid's parameters.
        nodes: How many there are; the first ones are used, in order.
        links: Between two nodes that are next to each other.
        words: In words.
    """

    topology: str
    parameters: str
    nodes: int
    links: int
    words: str

    def platform(self, machine: LogGP) -> str:
        """The platform file: each link has the machine's bandwidth; two nodes next to each other have its latency.

        Args:
            machine: Its L and G are taken.
        """
        bandwidth = 1 / machine.G if machine.G else 1e15
        return (
            "<?xml version='1.0'?>\n"
            '<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">\n'
            '<platform version="4.1">\n'
            f' <cluster id="ranks" prefix="n" suffix="" radical="0-{self.nodes - 1}" speed="1Gf" bw="{bandwidth:.6g}Bps" '
            f'lat="{machine.L / self.links:.6g}s" topology="{self.topology}" topo_parameters="{self.parameters}"/>\n'
            "</platform>\n"
        )


def fat_tree(ranks: int) -> Interconnect:
    """Two levels of switches with 16 nodes at each lower one, and as many links up as down; one level where that is enough.

    Example:
        >>> fat_tree(64).parameters
        '2;16,4;1,16;1,1'
    """
    if ranks <= _PORTS:
        return Interconnect("FAT_TREE", f"1;{ranks};1;1", ranks, 2, f"a switch with {ranks} nodes")
    below = ceil(ranks / _PORTS)
    words = f"a fat tree: {below} switches with {_PORTS} nodes each, and {_PORTS} above them"
    return Interconnect("FAT_TREE", f"2;{_PORTS},{below};1,{_PORTS};1,1", _PORTS * below, 2, words)


def torus(ranks: int) -> Interconnect:
    """Three dimensions, as equal as can be; two of them have two nodes or more, which SimGrid asks for.

    Example:
        >>> torus(2).parameters, torus(64).parameters, torus(1024).parameters
        ('1,2,2', '4,4,4', '10,10,11')
    """
    a = max(round(ranks ** (1 / 3)), 1)
    b = max(round((ranks / a) ** 0.5), 2)
    sizes = sorted((a, b, max(ceil(ranks / (a * b)), 2)))
    total = sizes[0] * sizes[1] * sizes[2]
    return Interconnect("TORUS", ",".join(map(str, sizes)), total, 1, f"a torus of {' x '.join(map(str, sizes))} nodes")


def dragonfly(ranks: int) -> Interconnect:
    """Groups of 4 chassis with 4, 8, 16 … routers with 4 nodes each; out of a group go as many links as it has nodes.

    Example:
        >>> dragonfly(256).parameters, dragonfly(1025).parameters
        ('4,22;4,1;4,1;4', '5,64;4,1;16,1;4')
    """
    routers = 4
    while _CHASSIS * routers**2 * _NODES < ranks:  # as SimGrid routes, each router of a chassis leads to one group
        routers *= 2
    each = _CHASSIS * routers * _NODES
    count = max(ceil(ranks / each), 2)
    links = ceil(each / (count - 1))
    parameters = f"{count},{links};{_CHASSIS},1;{routers},1;{_NODES}"
    words = (
        f"a dragonfly: {count} groups of {_CHASSIS} chassis with {routers} routers with {_NODES} nodes each, "
        f"{links} links between two groups"
    )
    return Interconnect("DRAGONFLY", parameters, count * each, 2, words)


NETWORKS: Mapping[str, Callable[[int], Interconnect]] = {"dragonfly": dragonfly, "fat-tree": fat_tree, "torus": torus}
"""Name to the network for so many ranks."""


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


def find_simulator(run: Callable[..., subprocess.CompletedProcess[str]] = subprocess.run) -> Simulator | str:
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
class SimulatedStep:
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


def replay(
    simulator: Simulator, program: Program, network: Interconnect, link: Link, limit_s: float = 300.0
) -> SimulatedStep | str:
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
    total = replayed_messages(program)
    if total > MOST_MESSAGES:
        return f"{total} messages are more than the {MOST_MESSAGES} that are replayed at most"
    with tempfile.TemporaryDirectory() as folder:
        platform, steps = Path(folder) / "platform.xml", Path(folder) / "program.txt"
        platform.write_text(network.platform(typical_replay(program, link)), encoding="utf-8")
        with steps.open("w", encoding="utf-8") as file:
            write_program(program, link, file)
        command = [str(simulator.program), str(platform), str(steps), str(program.ranks), *_SETTINGS]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
        except subprocess.TimeoutExpired:
            return f"it took longer than {limit_s:g} s"
    if done.returncode:
        raise SimulatorFailed(f"SimGrid ended with status {done.returncode}: {done.stderr.strip()[:300]}")
    return SimulatedStep(float(done.stdout.split()[-1]) / program.steps, program.drawn(), total)


def replayed_messages(program: Program) -> int:
    """How many messages a program has, from a rank of each role and the roles' numbers."""
    roles = Counter(program.pattern.roles[1](rank) for rank in range(program.ranks))
    count = 0
    for rank in program.pattern.representatives(program.ranks):
        sends = sum(len(part.sends) for part in program.rounds(rank, [0] * program.steps) if isinstance(part, Round))
        count += sends * roles[program.pattern.roles[1](rank)]
    return count


def typical_replay(program: Program, link: Link) -> LogGP:
    """The machine's parameters for messages of the size that has most of the bytes: a platform has no others."""
    bytes_of: Counter[int] = Counter()
    for rank in program.pattern.representatives(program.ranks):
        for part in program.rounds(rank, [0]):
            if isinstance(part, Round):
                for _, n in part.sends:
                    bytes_of[whole(n)] += whole(n)
    return link.at(bytes_of.most_common(1)[0][0] if bytes_of else 1)


def write_program(program: Program, link: Link, file: TextIO) -> None:
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


_LINE = re.compile(r"(l\d+): (?:calc (\d+)|(send|recv) (\d+)b (?:to|from) (\d+) tag (\d+))")
_NEEDS = re.compile(r"(l\d+) requires (l\d+)")


def write_goal(program: Program, path: Path) -> Path:
    """Write what each rank does. Times are in nanoseconds; a round's messages wait for all of the round before.

    Args:
        program: What ranks do.
        path: Where to.

    Example:
        A rank of two, with an allreduce among its messages::

            rank 0 {
            l1: calc 310000
            l2: send 40b to 1 tag 0
            l2 requires l1
            l3: recv 40b from 1 tag 0
            l3 requires l1
            …
    """

    def fill(temporary: Path) -> None:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(f"num_ranks {program.ranks}\n")
            rows = program.rows()
            for rank in range(program.ranks):
                file.write(f"\nrank {rank} {{\n")
                _rank(program.rounds(rank, rows[rank].tolist()), program, file)
                file.write("}\n")

    replace(path, fill)
    return path


def _rank(parts: Iterator[Computing | Round], program: Program, file: TextIO) -> None:
    number = 0
    before: list[int] = []

    def line(text: str) -> int:
        nonlocal number
        number += 1
        file.write(f"l{number}: {text}\n")
        for label in before:
            file.write(f"l{number} requires l{label}\n")
        return number

    for part in parts:
        if isinstance(part, Computing):
            before = [line(f"calc {round(part.seconds * 1e9)}")]
            continue
        labels = [line(f"send {whole(n)}b to {to} tag 0") for to, n in part.sends]
        labels += [line(f"recv {whole(n)}b from {source} tag 0") for source, n in part.receives]
        before = labels or before
        adding = round(program.rules.machine.combining(part.added) * 1e9)
        if adding:
            before = [line(f"calc {adding}")]


@dataclass
class RankProgram:
    """What a rank does, as a file says.

    Args:
        calc: Label to nanoseconds.
        sends: Label to rank, bytes and tag.
        receives: The same.
        needs: Label to the labels that must be done before it begins.
    """

    calc: dict[str, int] = field(default_factory=dict)
    sends: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    receives: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)


def read_goal(path: Path) -> list[RankProgram]:
    """The ranks of a file that `write_goal` wrote.

    Raises:
        InvalidArgument: A line that it would not write.
    """
    ranks: list[RankProgram] = []
    announced = 0
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if text.startswith("num_ranks "):
            announced = int(text.split()[1])
        elif text.startswith("rank "):
            ranks.append(RankProgram())
        elif match := _LINE.fullmatch(text):
            label, calc, way, size, peer, tag = match.groups()
            if calc is not None:
                ranks[-1].calc[label] = int(calc)
            else:
                into = ranks[-1].sends if way == "send" else ranks[-1].receives
                into[label] = int(peer), int(size), int(tag)
        elif match := _NEEDS.fullmatch(text):
            ranks[-1].needs.setdefault(match[1], []).append(match[2])
        elif text not in ("", "}"):
            raise InvalidArgument(f"{path}, line {number}: {text!r}", "num_ranks, rank, calc, send, recv or requires")
    if len(ranks) != announced:
        raise InvalidArgument(f"{path}: {len(ranks)} ranks", f"{announced}, as it says itself")
    return ranks


VERSION = "0.0.4"

COMPUTING, SENDING, RECEIVING, COLLECTIVE = 4, 5, 6, 7
"""Of ``NodeType``."""


TYPES = {
    "allreduce": 0, "reduce": 1, "allgather": 2, "gather": 3, "scatter": 4, "broadcast": 5, "alltoall": 6,
    "reduce_scatter": 7, "barrier": 9,
}  # fmt: skip
"""Of ``CollectiveCommType``."""


_PACKAGE = "ChakraProtoMsg"
_FIELDS: dict[str, list[tuple[str, int, str, bool]]] = {
    "BoolList": [("values", 1, "bool", True)],
    "AttributeProto": [
        ("name", 1, "string", False), ("int32_val", 7, "int32", False), ("int64_val", 9, "int64", False),
        ("uint64_val", 13, "uint64", False), ("bool_val", 27, "bool", False), ("bool_list", 28, "BoolList", False),
        ("string_val", 29, "string", False),
    ],
    "GlobalMetadata": [("version", 1, "string", False), ("attr", 2, "AttributeProto", True)],
    "Node": [
        ("id", 1, "uint64", False), ("name", 2, "string", False), ("type", 3, "int32", False),
        ("ctrl_deps", 4, "uint64", True), ("data_deps", 5, "uint64", True), ("start_time_micros", 6, "uint64", False),
        ("duration_micros", 7, "uint64", False), ("attr", 10, "AttributeProto", True),
    ],
}  # fmt: skip
"""Message to its fields: name, number, type, whether there may be several. An enum is an int32 on the wire."""


@cache
def _types() -> dict[str, Any]:
    """Message to its class."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="deep_bench_chakra.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        if name == "AttributeProto":
            message.oneof_decl.add(name="value")
        for label, number, kind, several in fields:
            field_proto = message.field.add(name=label, number=number)
            field_proto.label = kinds.LABEL_REPEATED if several else kinds.LABEL_OPTIONAL
            if kind in _FIELDS:
                field_proto.type, field_proto.type_name = kinds.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
            else:
                field_proto.type = kinds.Type.Value(f"TYPE_{kind.upper()}")
            if name == "AttributeProto" and label != "name":
                field_proto.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    names = ((name, pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _FIELDS)
    return {name: message_factory.GetMessageClass(descriptor) for name, descriptor in names}


def nodes(program: Program, rank: int, rows: list[int]) -> Iterator[Any]:
    """A ``Node`` for each thing that a rank does, each after the one before."""
    number = 0
    before: list[int] = []
    for part in program.calls(rank, rows):
        numbers = []
        for name, kind, micros, attributes in _of(part):
            node = _types()["Node"](id=number, name=name, type=kind, data_deps=before, duration_micros=micros)
            for key, (label, value) in attributes.items():
                attribute = node.attr.add(name=key)
                if label == "bool_list":
                    attribute.bool_list.values.extend(value)
                else:
                    setattr(attribute, label, value)
            numbers.append(number)
            number += 1
            yield node
        before = numbers or before


def _of(part: Computing | TracedCall) -> Iterator[tuple[str, int, int, dict[str, tuple[str, Any]]]]:
    """Name, type, microseconds and attributes of each node that stands for something."""
    ours: dict[str, tuple[str, Any]] = {"is_cpu_op": ("bool_val", False)}
    if isinstance(part, Computing):
        yield part.what, COMPUTING, max(round(part.seconds * 1e6), 0), {"is_cpu_op": ("bool_val", True)}
    elif part.operation in MESSAGES:
        size = {"comm_size": ("int64_val", whole(part.size)), "comm_tag": ("int32_val", 0)}
        for to in part.to:
            yield f"send to {to}", SENDING, 0, {**ours, **size, "comm_dst": ("int32_val", to)}
        for source in part.sources:
            yield f"receive from {source}", RECEIVING, 0, {**ours, **size, "comm_src": ("int32_val", source)}
    elif len(part.group) > 1:
        further: dict[str, tuple[str, Any]] = {
            "comm_type": ("int64_val", TYPES[part.operation]),
            "comm_size": ("int64_val", part.size),
            "involved_dim": ("bool_list", [True]),
            "pg_name": ("string_val", group_name(part.group)),
        }
        if part.root is not None:
            further["root_rank"] = ("int32_val", part.root)
        yield part.operation, COLLECTIVE, 0, {**ours, **further}


def group_name(group: tuple[int, ...]) -> str:
    """A name for the ranks of a call: the first, the last, and the step from one to the next.

    Example:
        >>> group_name((0, 4, 8))
        '0-8/4'
    """
    return f"{group[0]}-{group[-1]}/{group[1] - group[0]}"


def write_chakra(program: Program, path: Path) -> list[Path]:
    """Write ``NAME.RANK.et`` beside ``NAME.et``, as ASTRA-sim wants them; or all of it as one file of JSON, to read.

    Args:
        program: What ranks do.
        path: Where to: it ends in ``.et`` or ``.json``.
    """
    from google.protobuf.json_format import MessageToDict

    rows = program.rows()
    if path.suffix == ".json":
        ranks = [[MessageToDict(node) for node in nodes(program, r, rows[r].tolist())] for r in range(program.ranks)]
        text = json.dumps({"schema": f"Chakra {VERSION}, nodes of each rank", "ranks": ranks}, indent=1) + "\n"
        replace(path, lambda temporary: temporary.write_text(text, encoding="utf-8"))
        return [path]
    files = []
    for rank in range(program.ranks):
        files.append(path.with_name(f"{path.stem}.{rank}.et"))
        content = io.BytesIO()
        _delimited(_types()["GlobalMetadata"](version=VERSION), content)
        for node in nodes(program, rank, rows[rank].tolist()):
            _delimited(node, content)
        replace(files[-1], lambda temporary, content=content: temporary.write_bytes(content.getvalue()))  # type: ignore[misc]
    return files


def _delimited(message: Any, file: io.BytesIO) -> None:
    content = message.SerializeToString()
    remaining = len(content)
    while remaining > 0x7F:
        file.write(bytes([remaining & 0x7F | 0x80]))
        remaining >>= 7
    file.write(bytes([remaining]))
    file.write(content)


def read_chakra(path: Path) -> tuple[str, list[Any]]:
    """The version and the nodes of one rank's file.

    Raises:
        InvalidArgument: It ends within a message.
    """
    content, at = path.read_bytes(), 0
    messages: list[Any] = []
    while at < len(content):
        length = shift = 0
        while True:
            byte = content[at]
            at, length, shift = at + 1, length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        if at + length > len(content):
            raise InvalidArgument(f"{path}, which ends within a message", "a whole file")
        messages.append(_types()["Node" if messages else "GlobalMetadata"].FromString(content[at : at + length]))
        at += length
    return messages[0].version, messages[1:]
