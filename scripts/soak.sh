#!/usr/bin/env bash
# Lets clients send requests to the service (bin/serve) for a while, on a Vulkan device whose
# calls fail now and then, at random. No client may get a wrong answer, nothing may be left
# over at the end, and the memory may not grow. It prints which calls failed, and what became
# of the requests.
#
#   scripts/soak.sh SECONDS BUILD
#
# The environment must be that of `./build.sh env`, with bin/serve and the fault loader built.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=$1 build=$2
work=$(mktemp -d)
address=127.0.0.1:${KOMPUTE_GO_SOAK_PORT:-18080}
started=()
# shellcheck disable=SC2317 # the trap calls it
cleanup() {
    for pid in "${started[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap cleanup EXIT

# until_ok COMMAND... waits until it succeeds, for at most five minutes and as long as all programs run.
until_ok() {
    for ((i = 0; i < 3000; i++)); do
        if "$@" >"$work/until" 2>&1; then return; fi
        for pid in "${started[@]}"; do kill -0 "$pid" 2>/dev/null || break 2; done
        sleep 0.1
    done
    echo "soak: gave up on: $*" >&2
    cat "$work/until" "$work/serve.log" >&2
    return 1
}

go build -o "$work/inject" ./internal/faulttest/inject
(cd examples/serve && go build -o "$work/load" ./load)
KOMPUTE_GO_VULKAN_LIBRARY=$build/csrc/tests/faults/libfault_loader.so KOMPUTE_GO_FAULT_CONTROL=$work/control \
    bin/serve --device vulkan --listen "$address" --replace-device 1000000 --sequences 8 --no-warm-up 2>"$work/serve.log" &
started+=($!)
until_ok curl -sf "http://$address/readyz"
"$work/load" -url "http://$address" -faults -clients 8 -requests 12 -time "${seconds}s" >"$work/load.log" 2>&1 &
load=$!
started+=("$load")
until_ok grep -q alone "$work/load.log" # faults begin when the answers to compare with are there
# One failure in the time that an answer takes alone: with more, a slow driver would only replace devices.
every=$(awk '/requests alone/ { e = $4 / $1; print (e < 1 ? 1 : e) "s" }' "$work/load.log")
"$work/inject" -every "$every" "$work/control" >"$work/inject.log" &
inject=$!
started+=("$inject")
sleep "$seconds"
kill -TERM "$inject"
wait "$inject"
status=0
wait "$load" || status=$?
cat "$work/inject.log" "$work/load.log"
[ "$status" = 0 ] || tail -n 20 "$work/serve.log" >&2
exit "$status"
