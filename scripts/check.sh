#!/usr/bin/env bash
# Formatting, static analysis and spelling. Called by `./build.sh check`.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
cd "$(dirname "${BASH_SOURCE[0]}")/.."
failed=0

unformatted=$(gofmt -l .)
[ -z "$unformatted" ] || { printf 'gofmt:\n%s\n' "$unformatted"; failed=1; }

go vet ./... || failed=1
for module in fallback/internal/asmgen examples/bench/plot examples/serve examples/serve/clients examples/batch; do
    (cd "$module" && go vet ./...) || failed=1
done
go run honnef.co/go/tools/cmd/staticcheck@v0.8.2 ./... || failed=1

git ls-files '*.cpp' '*.hpp' '*.h' | xargs clang-format --dry-run --Werror || failed=1

git ls-files '*.sh' .ci/run | xargs shellcheck || failed=1

# Spelling, except in what others wrote or programs generate. Names in camel case are
# not checked. The words that are correct here are GLSL's inout, the Unicode class Nd,
# "to and fro", falsy in templates, alo (the low part of a), thi (half a word that a
# test types), and Rust's crate.
git ls-files '*.go' '*.cpp' '*.hpp' '*.h' '*.def' '*.comp' '*.glsl' '*.md' '*.sh' '*.py' '*.cmake' '*.txt' | grep -v testdata/ |
    xargs codespell --ignore-regex '\b[A-Z]?[a-z0-9]+[A-Z]\w*' -L inout,nd,fro,falsy,alo,thi,crate || failed=1
exit $failed
