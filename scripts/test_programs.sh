#!/usr/bin/env bash
# Runs the built programs as a user would, on every kind of build.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { printf 'test_programs: %s\n' "$*" >&2; exit 1; }
# contains TEXT NEEDLE WHAT
contains() { [[ $1 == *"$2"* ]] || fail "$3: no '$2' in: $1"; }

go build -o "$work/bin/" ./examples/...
CGO_ENABLED=0 go build -o "$work/nogpu/" ./examples/...

for bin in bin nogpu; do
    "$work/$bin/vector_add" >"$work/out" || fail "$bin/vector_add exited with $?"
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
