#!/bin/sh
set -e
cd "$(dirname "$0")"
pip install 'deep-bench[mlperf]==0.1.0'
