"""Training as MLPerf has it: logs of runs, the checks of its own tools, scores, and reference convergence points."""
