"""The problems that ship, and reading others: deepbench, transformer, convnet."""
