"""Functions of torch as kernels, plain and compiled, with gradients by autograd; and in the place of a network's node.

python examples/gelu_torch.py
"""

import torch

import deep_bench as db


def gelu(x):
    """The same as torch's own, written out."""
    return 0.5 * x * (1 + torch.erf(x * 0.7071067811865476))


def leaky(x):
    """A Relu that lets a little through."""
    return torch.where(x > 0, x, 1e-4 * x)


if __name__ == "__main__":
    case = db.Case.of("Gelu", (16, 256))
    for device in ("torch", "torch:compile=aot_eager"):
        kernel = db.operators.wrap(gelu, computes="Gelu", device=device)
        for finding in db.operators.check_operator(kernel, case, checks=["forward", "backward"], isolate=False):
            print(f"{device}, {finding.name}: {finding.word}")

    network = db.load("digits-cnn")
    for function in (torch.relu, leaky):
        replaced = network.replace("residual_relu", db.operators.wrap(function, computes="Relu"))
        found = db.network.diverge(replaced, "torch", batch=4)
        said = f"{found.first.name} is {found.first.word}" if found.first else "right"
        print(f"{function.__name__} in the network: {said}")
