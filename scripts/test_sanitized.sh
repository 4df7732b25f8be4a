#!/usr/bin/env bash
# The C++ tests with everything native (shim, Kompute, the tests) under the address
# sanitizer, its leak checker and the undefined behaviour sanitizer, in a build
# folder of its own inside the one that is given. Without Vulkan's validation layer:
# it keeps memory of its own until the process ends, and has watched the plain run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$1
sanitized=$build/sanitize
log=$(mktemp)
trap 'rm -f "$log"' EXIT

quietly() { "$@" >"$log" 2>&1 || { tail -n 60 "$log" >&2; echo "failed: $*" >&2; exit 1; }; }

# -O1 keeps the line numbers of reports, and the time to compile, within reason.
KOMPUTE_CACHE=${KOMPUTE_CACHE:-$build/kompute-cache} quietly cmake -S . -B "$sanitized" -G Ninja \
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE='-O1 -g1 -DNDEBUG' -DKOMPUTE_GO_SANITIZE=ON
quietly cmake --build "$sanitized" -j "$(nproc)" --target kpx_test
quietly env -u KOMPUTE_GO_VALIDATION ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    "$sanitized/csrc/tests/kpx_test"
tail -n 1 "$log"
