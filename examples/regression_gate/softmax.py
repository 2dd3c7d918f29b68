"""What is measured: put your own package in its place."""

import numpy as np


def softmax(x):
    """The exponential of each element over the sum of them in its row."""
    powers = np.exp(x - x.max(axis=-1, keepdims=True))
    return powers / powers.sum(axis=-1, keepdims=True)
