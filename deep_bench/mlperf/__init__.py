"""MLPerf's own tools on any framework of deep_bench: the LoadGen for inference, and the logs of training.

Nothing here is an official MLPerf result. A result that MLCommons has not reviewed is *unverified*, and every report of
one must say so: "Result not verified by MLCommons Association."

`deep_bench.mlperf.inference` runs a network under the LoadGen (``pip install 'deep-bench[mlperf]'``): is the run valid,
were the answers right, how fast was it?
"""
