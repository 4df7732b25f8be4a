#!/usr/bin/env bash
# Every test, in the order of the layers. Called by `./build.sh test`, which
# has built the archive and exported what cgo needs. Arguments: the build folder,
# and --fast for a share that answers soon.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
fast=${2:-}

# part NAME COMMAND... runs one part, between its name and its time.
part() {
    local name=$1 start=$SECONDS
    shift
    printf '\n==> %s\n' "$name"
    "$@" || { printf '==> FAILED after %d s: %s\n' $((SECONDS - start)) "$name"; exit 1; }
    printf '==> %d s: %s\n' $((SECONDS - start)) "$name"
}

cpp_tests() { KOMPUTE_GO_VALIDATION=1 ctest --test-dir "$build" --output-on-failure; }
go_tests() { KOMPUTE_GO_VALIDATION=1 go test -race -timeout 60m ./...; }
go_tests_without_cgo() { CGO_ENABLED=0 go vet ./... && CGO_ENABLED=0 go test ./...; }
plotter() { (cd examples/bench/plot && go vet ./... && go test ./...); }

# Compiled only: there may be nothing here that runs them.
other_builds() {
    go build -tags nogpu ./... && CGO_ENABLED=0 GOARCH=arm64 go build ./... &&
        CGO_ENABLED=0 GOARCH=386 go vet ./... && CGO_ENABLED=0 GOARCH=arm go vet ./...
}

# The share for every day: what the binding and the shim keep in order, on Vulkan,
# and the CPU backend with the models on top of it.
if [ "$fast" = --fast ]; then
    part 'C++ tests of the shim' ctest --test-dir "$build" --output-on-failure
    part 'the binding on Vulkan' go test -short ./kompute
    part 'the goldens of the demo model on Vulkan' go test -short -run '^TestGoldenGreedy$/vulkan' ./llm/generate
    part 'Go tests without cgo: the CPU backend alone' env CGO_ENABLED=0 go test -short ./...
    printf '\nthe fast share passed in %d s; ./build.sh test runs everything\n' "$SECONDS"
    exit
fi

part 'C++ tests of the shim, under Vulkan validation' cpp_tests
part 'C++ tests under the address, leak and undefined behaviour sanitizers' scripts/test_sanitized.sh "$build" address
part 'C++ tests with threads under the thread sanitizer' scripts/test_sanitized.sh "$build" thread
part 'go vet' go vet ./...
part 'Go tests on every backend, race detector, Vulkan validation' go_tests
part 'Go tests without cgo: the CPU backend alone' go_tests_without_cgo
part 'the plotter, a module of its own' plotter
part 'builds with -tags nogpu and for other architectures, also of 32 bits' other_builds
part 'a module outside this tree, against an installed archive' scripts/test_install.sh "$build"
part 'programs' scripts/test_programs.sh
printf '\nall tests passed in %d s\n' "$SECONDS"
