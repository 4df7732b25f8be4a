#!/usr/bin/env bash
# Formatting and static analysis. Called by `./build.sh check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=0

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { printf 'gofmt:\n%s\n' "$unformatted"; failed=1; }

go vet ./... || failed=1
(cd examples/bench/plot && go vet ./...) || failed=1
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./... || failed=1

git ls-files '*.cpp' '*.hpp' '*.h' | xargs clang-format --dry-run --Werror || failed=1
exit $failed
