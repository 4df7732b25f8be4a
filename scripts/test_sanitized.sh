#!/usr/bin/env bash
# Runs the C++ tests, with the shim and Kompute, under sanitizers, in a build folder of its
# own inside the given one. Arguments: the build folder, with kernels and kpx_test built;
# address (with its leak checker and the undefined behaviour sanitizer) or thread (only the
# tests that csrc/tests/CMakeLists.txt selects for it, which it watches, too); and the tests
# or files of tests to run, if not all. KOMPUTE_GO_VALIDATION=1 adds Vulkan's validation
# layer; memory that this keeps until the process ends is no leak of ours.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "$1")
kind=$2
shift 2
folder=$build/sanitize-$kind
log=$build/logs/sanitize-$kind.log
mkdir -p "$build/logs"
: >"$log"

quietly() { "$@" >>"$log" 2>&1 9<&- || { tail -n 60 "$log" >&2; printf 'failed: %s\nall of its output: %s\n' "$*" "$log" >&2; exit 1; }; }

# Compiling takes longer than running here. Without optimization and without the texts
# of undefined behaviour, whose stack the address sanitizer prints, it takes half the time.
tools=ON
case $kind in
address) flags='-O0 -g1' ;;
thread)
    flags='-O1 -g1'
    tools=OFF # so that the shim is also built as where SPIRV-Tools is not installed
    ;;
esac
# Only one process at a time compiles here, as in build.sh, if flock exists and works.
if command -v flock >/dev/null; then
    mkdir -p "$folder"
    exec 9<"$folder"
    flock 9 || true
fi
KOMPUTE_CACHE=${KOMPUTE_CACHE:-$build/kompute-cache} quietly cmake -S . -B "$folder" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="$flags -DNDEBUG" \
    -DKOMPUTE_SOURCE="${KOMPUTE_SOURCE:-}" -DKOMPUTE_GO_SANITIZE="$kind" -DKOMPUTE_GO_PLAIN="$build" \
    -DKOMPUTE_GO_SPIRV_TOOLS="$tools"
quietly cmake --build "$folder" -j "$(nproc)" --target kpx_test
exec 9<&-

case $kind in
# Only a few frames of each allocation are kept: Mesa's compiler makes millions. With a larger
# quarantine of freed memory, half of the time would go into new pages. Paths are quoted: a space
# ends an option.
address) export ASAN_OPTIONS=detect_leaks=1:malloc_context_size=4:quarantine_size_mb=16:thread_local_quarantine_size_kb=64:handle_sigill=1 \
    LSAN_OPTIONS="suppressions='$PWD/csrc/tests/lsan_suppressions.txt':print_suppressions=0" ;;
thread) export TSAN_OPTIONS="suppressions='$PWD/csrc/tests/tsan_suppressions.txt' second_deadlock_stack=1" ;;
esac
quietly "$folder/csrc/tests/kpx_test" "$@"
tail -n 1 "$log"
