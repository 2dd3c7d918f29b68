#!/bin/sh
set -e
cd "$(dirname "$0")"
deep-bench train ../implementations/deep_bench/recipe.yaml --on reference --steps 1 --output "$(mktemp -d)"
