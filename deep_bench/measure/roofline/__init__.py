"""The roofline of this machine: what it computes and moves in a second at most, measured."""

from deep_bench.measure.roofline.model import Costed, Rate, Roofline, Share
from deep_bench.measure.roofline.take import DTYPES, roofline

__all__ = ["DTYPES", "Costed", "Rate", "Roofline", "Share", "roofline"]
