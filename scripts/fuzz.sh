#!/usr/bin/env bash
# Fuzzes every fuzz target of this module, one after the other, for an equal share of
# the time each. What is found to be interesting is kept in a folder from run to run,
# so that each run starts where the last one ended. A failing input is written into
# the package's testdata/fuzz, where every later test run tries it.
#
#   scripts/fuzz.sh SECONDS CORPUS [TARGET]
#
# The environment must be that of `./build.sh env`.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=$1 corpus=$2 only=${3:-}

# targets prints a folder and the name of a fuzz target in it, a line each.
targets() {
    grep -rn --include='*_test.go' -oE '^func Fuzz[A-Za-z0-9_]*' . | sed -E 's#^(.*)/[^/]*:[0-9]+:func (.*)#\1 \2#' | sort
}

mapfile -t all < <(targets | grep -- " ${only:-.*}\$")
[ ${#all[@]} -gt 0 ] || { echo "fuzz: there is no target ${only:-at all}" >&2; exit 1; }
share=$((seconds / ${#all[@]}))
[ "$share" -gt 0 ] || share=1
failed=()
for target in "${all[@]}"; do
    folder=${target% *} name=${target#* }
    kept=$corpus/${folder#./}
    mkdir -p "$kept"
    printf '==> %s in %s, %d s\n' "$name" "$folder" "$share" >&2
    # The seeds run first, so that kernels are compiled: fuzzing allows ten seconds for a case, and a driver may take longer.
    go test -run "^$name\$" -timeout 10m "$folder" || { failed+=("$name"); continue; }
    # Without this limit, minimizing would take a minute for each interesting input.
    go test -run '^$' -fuzz "^$name\$" -fuzztime "${share}s" -fuzzminimizetime 20x -timeout 0 "$folder" -args -test.fuzzcachedir="$kept" ||
        failed+=("$name")
done
[ ${#failed[@]} = 0 ] || { echo "fuzz: failed: ${failed[*]}" >&2; exit 1; }
