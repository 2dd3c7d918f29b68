"""When is a result right? The oracle, the estimate of rounding errors, and the verdict.

`establish` computes once what is known of a network on given inputs; `judge` compares any number of systems with it.
"""

from deep_bench.check.judge import judge
from deep_bench.check.oracle import Effort, Truth, establish
from deep_bench.check.subject import InProcessSubject, Subject
from deep_bench.check.verdict import NodeVerdict, OutputVerdict, Repeatability, Verdict, Word

__all__ = [
    "Effort",
    "InProcessSubject",
    "NodeVerdict",
    "OutputVerdict",
    "Repeatability",
    "Subject",
    "Truth",
    "Verdict",
    "Word",
    "establish",
    "judge",
]
