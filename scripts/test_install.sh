#!/usr/bin/env bash
# Proves that after `install` a foreign module builds with plain `go build` and
# runs. Argument: the build folder.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >/dev/null
mkdir "$work/service"
cp "$root/scripts/testdata/service.go.txt" "$work/service/main.go"
cp "$root/go.sum" "$work/service/go.sum"
# The service needs what this module needs, and this module itself from the tree.
sed 's|^module .*|module example.com/service|' "$root/go.mod" >"$work/service/go.mod"
(
    cd "$work/service"
    go mod edit -require=github.com/kompute-go/kompute-go@v0.0.0 -replace=github.com/kompute-go/kompute-go="$root"
    unset CGO_CFLAGS
    # A cache of its own: Go's would still have the link flags of an earlier prefix.
    export PKG_CONFIG_PATH="$work/prefix/lib/pkgconfig" GOFLAGS=-mod=mod GOCACHE="$work/cache"
    go build -o service .
    ./service
)
