#!/usr/bin/env bash
# The whole row on a bare machine: a recipe is run, reported, compared, bundled, judged and repeated, by the commands of
# docs/howto/publish.md, in a new virtual environment and with an empty home. Each step's exit status and what it wrote are checked.
#
#     tests/row.sh [FOLDER]     (or: make row)
#
# FOLDER is new or empty, and keeps all that comes of it; by default it is a temporary one, which is removed in the end.

set -euo pipefail

ROOT=$(cd "$(dirname "$0")/.." && pwd)
PYTHON=${PYTHON:-python3}
if [ $# -gt 0 ]; then
    mkdir -p "$1"
    WORK=$(cd "$1" && pwd)
    [ -z "$(ls -A "$WORK")" ] || { echo "row: $WORK has files: name a new folder" >&2; exit 2; }
else
    WORK=$(mktemp -d)
    trap 'rm -rf "$WORK"' EXIT
fi
BIN=$WORK/venv/bin
BEGAN=$SECONDS

# bare COMMAND…: with a home of its own and no variables of the caller's but pip's
bare() {
    local kept=()
    while IFS= read -r variable; do kept+=("$variable"); done < <(env | grep -E '^PIP_' || true)
    env -i PATH="$BIN:/usr/local/bin:/usr/bin:/bin" HOME="$WORK/home" LANG=C.UTF-8 COLUMNS=120 "${kept[@]}" "$@"
}

failed() {
    echo "row: FAILED after $((SECONDS - BEGAN)) s: $*" >&2
    exit 1
}

# step STATUS COMMAND…: run it, show what it says, and see that it ends with this status
step() {
    local wanted=$1 status=0 began=$SECONDS
    shift
    echo
    echo "\$ $*"
    bare "$@" 2>&1 | tee "$WORK/said" || status=$?
    echo "[$((SECONDS - began)) s, status $status]"
    [ "$status" -eq "$wanted" ] || failed "status $status, expected $wanted: $*"
}

# said PATTERN: the last step said so
said() { grep -Eq -- "$1" "$WORK/said" || failed "nothing said like: $1"; }

# wrote FILE [PATTERN]: there is such a file, with such a line
wrote() {
    [ -s "$1" ] || failed "there is no $1"
    [ $# -lt 2 ] || grep -Eq -- "$2" "$1" || failed "$1 has nothing like: $2"
}

# records FOLDER NUMBER: so many records lie below it
records() {
    local found
    found=$(grep -lE '"complete": true' -r "$1" --include='*.json' | wc -l)
    [ "$found" -eq "$2" ] || failed "$1 has $found records, expected $2"
}

# What a clone has: nothing that was built here.
mkdir "$WORK/home" "$WORK/source" "$WORK/here"
(cd "$ROOT" && git ls-files --cached --others --exclude-standard --deduplicate -z |
    while IFS= read -r -d '' file; do [ ! -e "$file" ] || printf '%s\0' "$file"; done |
    tar --create --null --no-recursion --files-from=- | tar --extract --directory="$WORK/source")

"$PYTHON" -m venv "$WORK/venv"
cd "$WORK/source"
step 0 "$BIN/python" -m pip install --quiet -c constraints.txt '.[onnxruntime,report]'

cd "$WORK/here"
step 0 deep-bench recipe run small-operators -o mine
records mine 2
wrote mine/recipe.yaml '^level: operators'

step 0 deep-bench recipe run small-operators -o again
records again 2

step 0 deep-bench report mine -o report.html
said '^report: report.html'
wrote report.html '</html>'
! grep -Eq '(src|href)="https?://[^"]+\.(js|css|png)"' report.html || failed "report.html loads something"

step 0 deep-bench compare mine again
said 'equivalent|cannot tell|faster|slower'

step 0 deep-bench bundle mine -o mine.zip --licence CC-BY-4.0 --title 'Two matrix products on two runtimes'
said '^repeat it: deep-bench repeat mine.zip'
wrote mine.zip
step 2 deep-bench bundle mine -o mine.zip
said 'mine.zip is there already'

step 0 deep-bench badges mine.zip
said 'artifacts evaluated - functional: unknown'

step 0 deep-bench repeat mine.zip --into repeated
said '^verdict: repeated'
said 'a clean environment from its lock'
wrote repeated/repetition.json '"verdict":"repeated|"verdict": "repeated'
records repeated/repeated 2

step 0 deep-bench badges mine.zip --repeated repeated
said 'artifacts evaluated - functional: pass'
said 'runs in a clean environment'

echo
echo "row: all steps passed, in $((SECONDS - BEGAN)) s"
