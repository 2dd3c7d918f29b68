"""The pieces that `db.run` is made of: load, prepare, call, judge.

python examples/piece_by_piece.py
"""

import deep_bench as db
from deep_bench.check.judge import judge
from deep_bench.check.oracle import establish
from deep_bench.check.subject import InProcessSubject
from deep_bench.data import digits

images, labels = digits("test")
network = db.load("digits-cnn")

adapter = db.frameworks["onnxruntime"](threads=1)
executor = adapter.prepare(network)
logits = executor({"image": images})["logits"]
print(f"{(logits.argmax(axis=1) == labels).mean():.1%} of the test digits are recognised")

inputs = {"image": images[:8]}
verdict = judge(establish(network, inputs), InProcessSubject(adapter, network, inputs))
print(f"the result is {verdict.word}: {verdict.reason}")
