"""The indices of ``Einsum``."""

from __future__ import annotations

import string
from collections import Counter

from deep_bench.network.gradient.rules._sizes import joined, positions, size


class Terms:
    """An equation in which every index is a letter, also those that ``...`` stands for.

    Args:
        equation: As ONNX has it, with or without ``->``.
        ranks: Of the operands.
    """

    def __init__(self, equation, ranks):
        operands, arrow, result = equation.replace(" ", "").partition("->")
        inputs = operands.split(",")
        self._free = [c for c in string.ascii_letters if c not in equation]
        hidden = max((rank - len(t) + 3 for t, rank in zip(inputs, ranks, strict=True) if "..." in t), default=0)
        letters = "".join(self._free.pop(0) for _ in range(hidden))
        if not arrow:
            counts = Counter(operands.replace(",", "").replace(".", ""))
            result = "..." * ("..." in operands) + "".join(sorted(c for c, n in counts.items() if n == 1))
        self.inputs = [_spelled(t, letters, rank) for t, rank in zip(inputs, ranks, strict=True)]
        self.result = result.replace("...", letters)

    def gradient(self, dy, inputs, place):
        """The gradient of the factor at a place."""
        term, x, tape = self.inputs[place], inputs[place], dy.tape
        indices = "".join(dict.fromkeys(term))
        factors = [(t, v) for i, (t, v) in enumerate(zip(self.inputs, inputs, strict=True)) if i != place]
        if self.result:
            factors.insert(0, (self.result, dy))
        missing = [c for c in indices if not any(c in t for t, _ in factors)]
        if missing:  # it was only summed over: the gradient is the same all along it
            ones = tape.constant(1, dy.dtype).expand(joined(tape, *(size(x, term.index(c)) for c in missing)))
            factors.append(("".join(missing), ones))
        if not factors:
            return dy
        if any(0 in (v.static_shape or ()) for v in (dy, *inputs)):
            return tape.zeros_like(x)
        gradient = _product(tape, factors, indices)
        if not self.result:
            gradient = gradient * dy
        return tape.sum_to(self._on_diagonals(gradient, term, x), x)

    def _on_diagonals(self, gradient, term, x):
        """Where an operand repeats an index, its gradient is 0 off the diagonal."""
        indices, free = "".join(dict.fromkeys(term)), list(self._free)
        for place, index in enumerate(term):
            if index in term[:place]:
                new = free.pop(0)
                at = [i for i, c in enumerate(term[:place]) if c == index]
                ticks = positions(gradient.tape, size(x, at[0]))
                diagonal = ticks.unsqueeze(0).equals(ticks.unsqueeze(1)).cast(gradient.dtype)
                wider = indices + new
                gradient = _product(gradient.tape, [(indices, gradient), (index + new, diagonal)], wider)
                indices, term = wider, term[:place] + new + term[place + 1 :]
        return gradient if indices == term else gradient.transpose([indices.index(c) for c in term])


def _product(tape, factors, result):
    if [t for t, _ in factors] == [result]:
        return factors[0][1]
    equation = ",".join(t for t, _ in factors) + "->" + result
    return tape.Einsum(*(v for _, v in factors), equation=equation)


def _spelled(term, letters, rank):
    """A term in which ``...`` is spelled out by the last of the letters."""
    if "..." not in term:
        return term
    hidden = rank - len(term) + 3
    return term.replace("...", letters[len(letters) - hidden :])
