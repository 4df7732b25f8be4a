#!/usr/bin/env bash
# Runs the built programs as a user would, on every kind of build.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { printf 'test_programs: %s\n' "$*" >&2; exit 1; }
# contains TEXT NEEDLE WHAT
contains() { [[ $1 == *"$2"* ]] || fail "$3: no '$2' in: $1"; }

go build -o "$work/bin/" ./examples/...
CGO_ENABLED=0 go build -o "$work/nogpu/" ./examples/...

(cd examples/bench/plot && CGO_ENABLED=0 go build -o "$work/bin/benchplot" .)
(cd examples/serve && go build -o "$work/bin/serve" .)

# Help and version go to stdout with success; nonsense is one line on stderr, exit code 1 and nothing on stdout.
# vector_add is for copying and has no flags.
for program in decode bench benchplot serve streams custom_shader; do
    for flag in --help -h; do
        "$work/bin/$program" "$flag" >"$work/out" 2>"$work/err" || fail "$program $flag exited with $?"
        contains "$(cat "$work/out")" 'usage: ' "$program $flag"
        contains "$(cat "$work/out")" '--version' "$program $flag"
        [ ! -s "$work/err" ] || fail "$program $flag wrote to stderr: $(cat "$work/err")"
        # One flag style: two dashes, or one with one letter.
        if grep -Eq '^  -[a-z]{2}' "$work/out"; then fail "$program $flag shows flags with one dash"; fi
    done
    contains "$("$work/bin/$program" --version)" "$program (kompute-go) " "$program --version"
    if "$work/bin/$program" --nonsense >"$work/out" 2>"$work/err"; then fail "$program --nonsense was a success"; fi
    [ ! -s "$work/out" ] || fail "$program --nonsense wrote to stdout: $(cat "$work/out")"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$program --nonsense: not one line: $(cat "$work/err")"
    contains "$(cat "$work/err")" '--nonsense' "$program --nonsense"
done

# refused FLAG PROGRAM ARGUMENTS...: a file that cannot be written is refused before anything is done.
refused() {
    local flag=$1
    shift
    if "$@" "$flag" "$work/no/such.svg" >"$work/out" 2>"$work/err"; then fail "$1 $flag took a bad file"; fi
    [ ! -s "$work/out" ] || fail "$1 $flag: work was done first: $(cat "$work/out")"
    [ "$(wc -l <"$work/err")" = 1 ] || fail "$1 $flag: work was done first: $(cat "$work/err")"
    contains "$(cat "$work/err")" "$flag: " "$1 $flag"
}
refused --trace "$work/bin/decode" --device cpu
refused --dump-region "$work/bin/decode" --device cpu
refused --plot "$work/bin/bench" --device cpu --shape demo

# Pictures and JSON of a small measurement, whose progress goes to stderr.
"$work/bin/bench" --device cpu --shape demo --n-prompt 8 --n-gen 4 --repetitions 1 --profile 1 --json \
    --plot "$work/bench.svg" >"$work/out" 2>"$work/err" || fail "bench exited with $?: $(cat "$work/err")"
contains "$(cat "$work/out")" '"tokens_per_second"' 'bench --json'
contains "$(cat "$work/err")" 'bench: test 1 of 3: pp8, prompt' 'the progress of bench'
contains "$(cat "$work/bench.svg")" 'sans-serif' 'bench --plot'
if "$work/bin/decode" --list-devices --json | grep -E '"[A-Za-z_]*[A-Z][A-Za-z_]*": '; then fail 'keys of the list of devices'; fi

for bin in bin nogpu; do
    contains "$("$work/$bin/vector_add")" '[3 6 9]' "$bin/vector_add"
    "$work/$bin/streams" --size 64 >/dev/null || fail "$bin/streams exited with $?"
done
"$work/bin/custom_shader" >/dev/null || fail "custom_shader exited with $?"

name='My name is Mote. I am a tiny language model that runs on the GPU through Vulkan.'
for device in cpu vulkan; do
    contains "$("$work/bin/decode" --device "$device" --temp 0 --quiet --prompt 'Hi what is your name')" "$name" "decode on $device"
done
contains "$("$work/nogpu/decode" --temp 0 --quiet --prompt 'Hi what is your name')" "$name" 'decode without cgo'

# Without a Vulkan loader a binary starts, uses the CPU and says why; asked for Vulkan by name, it fails with that reason.
export KOMPUTE_GO_VULKAN_LIBRARY=/nonexistent/libvulkan.so.1
contains "$("$work/bin/decode" --temp 0 --prompt 'Hi what is your name' 2>&1)" "$name" 'decode without a loader'
contains "$("$work/bin/decode" --list-devices 2>&1)" 'libvulkan' 'the list of devices without a loader'
if out=$("$work/bin/decode" --device vulkan --prompt hi 2>&1); then fail 'decode --device vulkan ran without a loader'; fi
contains "$out" 'libvulkan' 'decode --device vulkan without a loader'
