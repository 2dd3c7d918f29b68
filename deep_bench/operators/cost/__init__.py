"""What an operator must compute and move, counted from its definition: FLOPs and bytes."""

from deep_bench.facts.work import Work
from deep_bench.operators.cost.count import RULES, cost, cost_of, cost_of_case, costs_of, traffic
from deep_bench.operators.cost.model import Cost, KnownSizes, Sizes

__all__ = ["RULES", "Cost", "KnownSizes", "Sizes", "Work", "cost", "cost_of", "cost_of_case", "costs_of", "traffic"]
