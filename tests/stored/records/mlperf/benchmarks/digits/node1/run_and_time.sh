#!/bin/sh
set -e
cd "$(dirname "$0")"
deep-bench mlperf train ../implementations/deep_bench/recipe.yaml --on torch --benchmark digits --apart --seed "${SEED:?a number}" -o "${OUTPUT:?a folder}"
