#!/bin/sh
# Measures two checkouts by turns, each in processes of its own: whatever the machine does meanwhile hits both alike.
#
#   by_turns.sh BASE HEAD ROUNDS TESTS RECORDS
#
# BASE and HEAD are checkouts with an environment in .venv each. The tests are those of HEAD, for both. RECORDS/base and
# RECORDS/head get one record of each gate from each round.
set -eu
base=$(realpath "$1") head=$(realpath "$2") rounds=$3 tests=$4
mkdir -p "$5"
records=$(realpath "$5")

measure() {  # the checkout, and the folder of its records; "python -m" imports what is measured from the checkout
    cd "$1"
    .venv/bin/python -m pytest -q -p no:cacheprovider --import-mode=importlib --rootdir "$head" "$head/$tests" \
        --deep-bench-records "$records/$2"
}

measure_base() {
    (measure "$base" base) || echo "the base fails some of these tests: they have no base to compare with"
}

measure_head() {
    (measure "$head" head)
}

round=1
while [ "$round" -le "$rounds" ]; do
    if [ $((round % 2)) -eq 1 ]; then  # neither of them always follows the other
        measure_base
        measure_head
    else
        measure_head
        measure_base
    fi
    round=$((round + 1))
done
