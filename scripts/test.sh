#!/usr/bin/env bash
# Every test, in the order of the layers. Called by `./build.sh test`, which
# has built the archive and exported what cgo needs. Arguments: the build folder,
# and --fast for a share that answers soon.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
fast=${2:-}

# Tests of faults would look for it in build/, but the build folder may be another one.
export KOMPUTE_GO_FAULT_LOADER=$build/csrc/tests/faults/libfault_loader.so

# part NAME COMMAND... runs one part. It prints its name before, and the elapsed and the processors' time after it.
part() {
    local name=$1 TIMEFORMAT="==> %0R s, of processors %0U + %0S s: $1"
    shift
    printf '\n==> %s\n' "$name"
    # In a shell of its own, which does not count the time of processes that run at the same time.
    (time "$@" 2>&1) || { printf '==> FAILED: %s\n' "$name"; exit 1; }
}

# beside LOG COMMAND... runs a command in parallel with what follows; `finish` waits for it.
# Neither uses both cores all the time.
beside() {
    besides_log=$1
    shift
    set -m # in a process group of its own, which can be ended as a whole
    "$@" >"$besides_log" 2>&1 &
    beside_pid=$!
    set +m
    trap 'kill -- "-$beside_pid" 2>/dev/null || true' EXIT
}
finish() {
    local status=0
    wait "$beside_pid" || status=$?
    trap - EXIT
    cat "$besides_log"
    [ "$status" = 0 ] || exit "$status"
}

# left_out WHAT reports what was left out, now and again after the last part.
left_out() {
    echo "left out: $1"
    echo "$1" >>"$build/logs/left-out.log"
}

# Test programs link faster without debug information, and reports still have line numbers.
# `./build.sh check` vets every module.
go_test() { go test -vet=off -ldflags=-s\ -w "$@"; }

# lavapipe compiles kernels with little optimization: for tests of many kernels, which spend
# most of the time on it and then run each once. A model's few kernels run a thousand times.
unoptimized() { GALLIVM_PERF=${GALLIVM_PERF-nopt} "$@"; }

cpp_tests() {
    local log=$build/logs/cpp.log
    KOMPUTE_GO_VALIDATION=1 unoptimized "$build/csrc/tests/kpx_test" >"$log" 2>&1 || { tail -n 60 "$log"; return 1; }
    tail -n 1 "$log"
}

# All files except those of the fused products of every size and quantization, whose kernels take more time than all
# others together.
most_cpp_files() {
    local file
    for file in csrc/tests/*_test.cpp; do
        file=$(basename "$file" .cpp)
        case $file in
        projection_test | projection_rows_test) ;;
        *) echo "$file" ;;
        esac
    done
}
# shellcheck disable=SC2046 # several files
most_cpp_tests() { unoptimized "$build/csrc/tests/kpx_test" $(most_cpp_files); }
# Sanitizers do not see into kernels, so two tests suffice for the code of the shim that otherwise only the files left
# out run.
# shellcheck disable=SC2046 # several files
cpp_tests_with_address_sanitizer() {
    unoptimized scripts/test_sanitized.sh "$build" address $(most_cpp_files) \
        a_projection_makes_several_rows_in_a_dispatch_of_their_own a_projection_refuses_what_it_cannot_do
}

# The packages in which threads meet. Elsewhere the race detector would only make
# arithmetic in Go some eight times slower. The CPU backend's loops are shared by threads
# in all of these, and in a share of its conformance.
threaded='./kompute ./llm/engine ./internal/workers ./internal/faulttest'
# Its tests of arithmetic run without the race detector.
arithmetic='^TestSameTokensOnOlderCPUs$'
go_tests_with_race() {
    # shellcheck disable=SC2086 # several packages
    KOMPUTE_GO_VALIDATION=1 go_test -race -timeout 60m -skip "$arithmetic" $threaded &&
        go_test -race -short -timeout 60m -run 'TestConformance/cpu' ./ops -args -share=8 &&
        go_test -race -run '^TestConcurrent$' ./llm/tokenizer ./llm/grammar
}
# The other packages that use the binding. Those that do not are tested without cgo, and so is
# the conformance of the CPU backend.
go_tests_with_cgo() {
    local binding
    binding=$(go list -f '{{range .Deps}}{{if eq . "github.com/kompute-go/kompute-go/kompute"}}{{$.ImportPath}}{{"\n"}}{{end}}{{end}}' ./...)
    # shellcheck disable=SC2046,SC2086 # several packages
    KOMPUTE_GO_VALIDATION=1 unoptimized go_test -timeout 60m ./ops -args -device=vulkan &&
        KOMPUTE_GO_VALIDATION=1 go_test -timeout 60m $(grep . <<<"$binding" | grep -vxFf <(go list $threaded ./ops ./llm/api))
}
# Packages whose code and expected results are the same without cgo, and whose tests have run on the
# CPU backend above, do not run again.
go_tests_without_cgo() {
    export CGO_ENABLED=0
    # shellcheck disable=SC2046 # several packages
    go_test $(go list ./... | grep -vE '/(examples/bench|llm/(api|engine|llama|model|qwen2|qwen3))$') &&
        go_test -run "$arithmetic" ./llm/engine
}
# The library's packages: neither the programs nor the check of builds for other processors.
short_go_tests_without_cgo() {
    export CGO_ENABLED=0
    # shellcheck disable=SC2046 # several packages
    go_test -short $(go list ./... | grep -vE '/(examples/|internal/builds$)')
}
# Without cgo, as the program is built.
plotter() { (cd examples/bench/plot && CGO_ENABLED=0 go_test ./...); }

# A second Vulkan driver, with subgroups of 4 and without 8- and 16-bit storage. It compiles
# slowly, so it runs only a share of the ops' cases, some of the faults, and the golden logits
# of a 4-bit model.
second_driver() (
    local icd
    icd=$(scripts/swiftshader.sh "${KOMPUTE_CACHE:-$build/kompute-cache}") || { left_out 'tests on SwiftShader, which cannot be had here'; exit; }
    export VK_DRIVER_FILES=$icd VK_ICD_FILENAMES=$icd KOMPUTE_GO_VALIDATION=1
    KOMPUTE_GO_SPECIALIZE=0 go_test -run '^TestConformance$' ./ops -args -device=vulkan -share=256 && # whole kernels
        KOMPUTE_GO_VALIDATION='' go_test -run '^TestFaults$/^(eager|region|reads)$|Hang' ./internal/faulttest &&
        KOMPUTE_GO_VALIDATION='' go_test -run '^TestGoldenLogits$/^q4$/vulkan' ./llm/llama
)

# The tests of the API and of the service run on the CPU backend; those of its clients run the program as it is built.
service() {
    go_test -race ./llm/api &&
        (cd examples/serve && go_test -race ./... && go build -o ../../bin/serve .) &&
        (cd examples/serve/clients && CGO_ENABLED=0 go_test -count=1 ./...) # Go does not see that the program changed
}

# The CPU backend's loops for arm64, in assembly and in Go, under an emulator: all tests of its
# vector library, and those of the ops that consist of such loops.
arm64() {
    local dir
    dir=$(mktemp -d)
    CGO_ENABLED=0 GOARCH=arm64 go_test -c -o "$dir/simd" ./fallback/internal/simd &&
        CGO_ENABLED=0 GOARCH=arm64 go_test -c -o "$dir/fallback" ./fallback &&
        (cd fallback/internal/simd && qemu-aarch64-static "$dir/simd" -test.short) &&
        (cd fallback && qemu-aarch64-static "$dir/fallback" -test.short -test.run 'Stages|MatMul|Attention|Reduc|RunningSoftmax')
    local status=$?
    rm -rf "$dir"
    return "$status"
}

# What runs in parallel with the Go tests, about half of the whole time.
parts_beside() {
    # The sanitizers come after the plain tests: Mesa's cache then has the kernels, which take three times as long to
    # compile under the address sanitizer, as validation does, too.
    part 'C++ tests of the shim, under Vulkan validation' cpp_tests
    part 'most C++ tests of the shim, under the address, leak and undefined behaviour sanitizers' \
        cpp_tests_with_address_sanitizer
    part 'C++ tests with threads under the thread sanitizer' unoptimized scripts/test_sanitized.sh "$build" thread
    part 'the plotter, a module of its own' plotter
    part 'the HTTP API, the service, a module of its own, and clients of it' service
    part 'arm64, emulated' arm64
    part 'SwiftShader, a second Vulkan driver' second_driver
    part 'a module outside this tree, against an installed archive' scripts/test_install.sh "$build"
}

# --fast runs the share for every day: the binding and the shim on Vulkan, and the CPU
# backend with the models on top of it.
mkdir -p "$build/logs"
: >"$build/logs/left-out.log"
part 'build.sh: for which tree it builds' scripts/test_build.sh
if [ "$fast" = --fast ]; then
    printf '==> most C++ tests of the shim run beside the Go tests\n'
    beside "$build/logs/cpp-tests.log" part 'most C++ tests of the shim' most_cpp_tests
    part 'Go tests without cgo: the CPU backend alone' short_go_tests_without_cgo
    part 'the binding on Vulkan' go_test -short ./kompute
    part 'the goldens of the demo model on Vulkan' go_test -short -run '^TestGoldenGreedy$/vulkan' ./llm/generate
    finish
    printf '\nthe fast share passed in %d s; ./build.sh test runs everything\n' "$SECONDS"
    exit
fi

printf '==> the C++ tests and some others run beside the Go tests; what they print comes last\n'
beside "$build/logs/tests-beside.log" parts_beside
part 'Go tests on every backend, under Vulkan validation' go_tests_with_cgo
part 'Go tests of threads, under the race detector and Vulkan validation' go_tests_with_race
part 'Go tests without cgo: the CPU backend alone' go_tests_without_cgo
part 'programs' scripts/test_programs.sh
finish
printf '\nall tests passed in %d s\n' "$SECONDS"
sed 's/^/LEFT OUT: /' "$build/logs/left-out.log"
