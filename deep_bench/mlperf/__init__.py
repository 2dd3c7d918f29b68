"""MLPerf: systems under test for the LoadGen, logs of training, and what a submission holds."""
