"""Studies: operators, cases and frameworks side by side, each checked and timed. See `deep_bench.operators.study`."""
