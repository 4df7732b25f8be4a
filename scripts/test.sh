#!/usr/bin/env bash
# Every test, in the order of the layers. Called by `./build.sh test`, which
# has built the archive and exported what cgo needs. Argument: the build folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1

step() { printf '\n==> %s\n' "$*"; }

step 'C++ tests of the shim, under Vulkan validation'
KOMPUTE_GO_VALIDATION=1 ctest --test-dir "$build" --output-on-failure

step 'C++ tests under the address, leak and undefined behaviour sanitizers'
scripts/test_sanitized.sh "$build" address

step 'C++ tests with threads under the thread sanitizer'
scripts/test_sanitized.sh "$build" thread

step 'go vet'
go vet ./...

step 'Go tests on every backend, race detector, Vulkan validation'
KOMPUTE_GO_FAULT_LOADER=$(realpath "$build")/csrc/tests/faults/libfault_loader.so \
    KOMPUTE_GO_VALIDATION=1 go test -race -timeout 60m ./...

step 'Go tests without cgo: the CPU backend alone'
CGO_ENABLED=0 go vet ./...
CGO_ENABLED=0 go test ./...

step 'the plotter, a module of its own'
(cd examples/bench/plot && go vet ./... && go test ./...)

step 'builds with -tags nogpu, and for another architecture'
go build -tags nogpu ./...
CGO_ENABLED=0 GOARCH=arm64 go build ./...

step 'a module outside this tree, against an installed archive'
scripts/test_install.sh "$build"

step 'programs'
scripts/test_programs.sh
echo
echo 'all tests passed'
