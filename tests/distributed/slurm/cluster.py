"""A SLURM of one node on this machine, in a folder of its own: a real ``slurmctld``, ``slurmd`` and ``munged``.

    python -m tests.distributed.slurm.cluster srun -n 2 --mpi=pmix hostname

brings it up, runs a command with ``SLURM_CONF`` set, and takes it down again. It needs Debian's ``slurm-wlm``, ``munge`` and
``libpmix-dev`` (whose link ``libpmix.so`` the PMIx plugin opens); no configuration of the machine, and no root.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from getpass import getuser
from pathlib import Path
from time import monotonic, sleep

PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "sinfo")
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin", "/sbin"])
NODE = "node0"
PARTITION = "all"

CONFIGURATION = """
ClusterName=deepbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={daemon}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
MpiDefault=pmix
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
NodeName={node} NodeAddr=127.0.0.1 NodeHostname={host} CPUs={cpus} State=UNKNOWN
PartitionName={partition} Nodes={node} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:4
"""


def missing() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program, path=PATH) is None]


@contextmanager
def cluster() -> Iterator[Mapping[str, str]]:
    """A cluster while the block runs.

    Yields:
        The environment in which ``srun`` and ``sbatch`` reach it.

    Raises:
        RuntimeError: Programs are missing, or no node is ready after half a minute; the logs are in the message.
    """
    if absent := missing():
        raise RuntimeError(f"no {', '.join(absent)}: apt-get install slurm-wlm munge libpmix-dev")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="slurm-", ignore_cleanup_errors=True)))
        environment = {**os.environ, "PATH": PATH, "SLURM_CONF": str(_configured(folder))}
        for command in _daemons(folder):
            stack.callback(_ended, _started(command, folder, environment))
        _await_node(folder, environment)
        yield environment


def _configured(folder: Path) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    path = folder / "slurm.conf"
    text = CONFIGURATION.format(
        host=socket.gethostname(), controller=_free_port(), daemon=_free_port(), user=getuser(), folder=folder, node=NODE,
        cpus=os.cpu_count(), partition=PARTITION,
    )  # fmt: skip
    path.write_text(text)
    (folder / "pmix").mkdir()
    # In /tmp a job of the same number, of another cluster or one that was killed, would be in the way.
    (folder / "mpi.conf").write_text(f"PMIxCliTmpDirBase={folder}/pmix\n")
    return path


def _daemons(folder: Path) -> list[list[str]]:
    files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid", "log-file": "munge.log"}
    own = [f"--{option}={folder / file}" for option, file in files.items()]
    return [
        ["munged", "--foreground", "--force", f"--seed-file={folder / 'munge.seed'}", *own],
        ["slurmctld", "-D"],
        ["slurmd", "-D", "-N", NODE],
    ]


def _started(command: list[str], folder: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    program = shutil.which(command[0], path=PATH)
    assert program is not None
    with open(folder / f"{command[0]}.out", "wb") as out:
        return subprocess.Popen([program, *command[1:]], env=environment, stdout=out, stderr=out)


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _await_node(folder: Path, environment: Mapping[str, str]) -> None:
    until = monotonic() + 30
    while monotonic() < until:
        found = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True, check=False)
        if found.stdout.strip() == "idle":
            return
        sleep(0.2)
    logs = "\n".join(f"{path.name}:\n{path.read_text()[-1500:]}" for path in sorted(folder.glob("*.[lo][ou][gt]")))
    raise RuntimeError(f"no node of the cluster is ready after 30 s: {found.stdout}{found.stderr}\n{logs}")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


if __name__ == "__main__":
    with cluster() as variables:
        sys.exit(subprocess.run(sys.argv[1:], env=variables, check=False).returncode)
