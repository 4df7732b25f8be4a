#!/usr/bin/env bash
# Proves that after `install` a foreign module builds with plain `go build` and
# runs. Argument: the build folder.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

prefix="$work/the prefix" # a space must not matter
rm -f "$build/install_manifest.txt" # one of root's, made by sudo, could not be written
cmake --install "$build" --prefix "$prefix" >/dev/null
mkdir "$work/service"
cp "$root/scripts/testdata/service.go.txt" "$work/service/main.go"
version=$(sed -n 's/^const Version = "\(.*\)"$/v\1/p' "$root/kompute/version.go")
(
    cd "$work/service"
    # The commands of README's section on the library, with its version.
    grep -qF "kompute-go@$version" "$root/README.md"
    go mod init example.com/service
    go mod edit -require "github.com/kompute-go/kompute-go@$version"
    go mod edit -replace "github.com/kompute-go/kompute-go=$root"
    go mod tidy
    # Go's cache would still have the link flags of an earlier prefix: it sees only this change.
    PKG_CONFIG_PATH=$(dirname "$(find "$prefix" -name kompute-go.pc)")
    export PKG_CONFIG_PATH CGO_CFLAGS="-O2 -g '-DPREFIX=\"$work\"'"
    [ "v$(pkg-config --modversion kompute-go)" = "$version" ]
    go build -o service .
    ./service

    # A changed shader changes the build ID, and without changes it stays the same. A program
    # that was compiled for another ID than that of its archive is refused.
    mkdir tree
    cp -r "$root/csrc" "$root/shaders" "$root/cmake" "$root/CMakeLists.txt" tree
    build_id() { cmake -DSOURCE="$PWD/tree" -DOUTPUT="$PWD/id.h" -P tree/cmake/build_id.cmake && sed -n 's/^#define KPX_BUILD_ID "\(.*\)"$/\1/p' id.h; }
    first=$(build_id)
    [ -n "$first" ] && [ "$(build_id)" = "$first" ]
    sed -i 's/^void main() {/&\n    \/\/ changed/' tree/shaders/softmax.comp
    changed=$(build_id)
    [ "$changed" != "$first" ]
    CGO_CFLAGS="-O2 -g '-DPREFIX=\"$work\"' '-DKPX_EXPECT_BUILD_ID=\"$changed\"'" go build -o stale .
    if ./stale 2>stale.log; then
        echo 'a program ran with an archive that it was not compiled for'
        exit 1
    fi
    grep -q "the kompute-go library does not match: it is build .*, this program was compiled for $changed: recompile it" stale.log
)
