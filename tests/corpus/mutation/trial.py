"""Trying mutants in another process, because some end it: shape inference in C++ aborts on some wrong networks."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

_ROOT = Path(__file__).parents[3]
_MODULE = "tests.corpus.mutation.trial"


def faults_among(problems: Sequence[str]) -> dict[str, list[str]]:
    """The keys of the candidates that are faults, by problem. One that ends the process is none: anyone would find it.

    Raises:
        RuntimeError: The other process cannot run at all.
    """
    faults: dict[str, list[str]] = {name: [] for name in problems}
    left, done = list(problems), 0
    while left:
        command = [sys.executable, "-m", _MODULE, str(done), *left]
        process = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
        if process.returncode > 0:
            raise RuntimeError(f"trying mutants failed: {process.stderr}")
        for line in process.stdout.splitlines():
            where, key, fault = json.loads(line)
            if where != left[0]:
                left, done = left[left.index(where) :], 0
            done += 1
            if fault:
                faults[where].append(key)
        if process.returncode == 0:
            break
        done += 1
    return faults


def main(arguments: Sequence[str]) -> None:
    """Print for each candidate of some problems whether it is a fault; of the first problem some were tried before."""
    from .held_out import candidates

    done, *problems = arguments
    for where in problems:
        for number, candidate in enumerate(candidates(where)):
            if where == problems[0] and number < int(done):
                continue
            print(json.dumps([where, candidate.key, candidate.is_fault()]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
