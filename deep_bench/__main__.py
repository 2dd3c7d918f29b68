"""``python -m deep_bench``: the command line, as ``deep-bench``."""

from deep_bench.cli import main

if __name__ == "__main__":
    main()
