#!/usr/bin/env bash
# The one entry to this project: dependencies, Kompute, shaders, shim, Go.
# Small steps, each a function; `./build.sh help` lists what can be called.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${KOMPUTE_GO_BUILD:-$root/build}
archive=$build/libkompute-go.a
jobs=$(nproc)

usage() {
    cat <<'EOF'
usage: ./build.sh COMMAND

  demo       build everything and let the embedded model answer two questions
  test       build everything and run every test
  build      dependencies, Kompute, shaders, shim, and the programs in bin/
  check      gofmt, go vet, staticcheck, clang-format
  bench [ARGUMENTS]
             tokens per second, and where their time goes, by bin/bench (--help lists its
             arguments; without any: the embedded model, in seconds on any device)
  microbench Go benchmarks of every package
  conformance [--device SPEC]
             every op on every device, or on one, and a table of what was seen
  install [--prefix DIR]
             put headers, archive and kompute-go.pc under DIR (default /usr/local)
  env        print what a shell or an editor must export to build in this tree
  clean      remove build/ and bin/
  help       this text

environment:
  KOMPUTE_SOURCE=DIR       use this copy of Kompute 0.9.0 instead of downloading it
  KOMPUTE_CACHE=DIR        keep the download of Kompute here (default: in the build folder)
  KOMPUTE_GO_BUILD=DIR     build here instead of in build/
  KOMPUTE_GO_NO_INSTALL=1  never install Debian packages, only name what is missing
EOF
}

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

# ---- Dependencies ----

# missing_packages prints the Debian package of everything that is not there.
missing_packages() {
    local tool
    for tool in g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config glslc:glslc "$@"; do
        command -v "${tool%%:*}" >/dev/null || echo "${tool#*:}"
    done
    [ -e /usr/include/vulkan/vulkan.hpp ] || echo libvulkan-dev
    [ -e /usr/include/fmt/format.h ] || echo libfmt-dev
    [ -n "${KOMPUTE_SOURCE:-}" ] || /usr/bin/python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
    # A driver to run on: any will do, lavapipe is the one that is always to be had.
    compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null || compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null ||
        [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] || echo mesa-vulkan-drivers
    if [ "${want_tests:-}" = 1 ]; then
        compgen -G '/usr/share/vulkan/explicit_layer.d/*validation*.json' >/dev/null || echo vulkan-validationlayers
    fi
}

install_packages() {
    local sudo='' log
    [ "${KOMPUTE_GO_NO_INSTALL:-}" != 1 ] || die "missing: $*. Install with: apt-get install $*"
    command -v apt-get >/dev/null || die "missing: $* (Debian's names). Install them with this system's package manager"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "missing: $*. Neither root nor sudo here; as root: apt-get install $*"
        sudo=sudo
    fi
    say "installing $*"
    log=$(mktemp)
    if ! { $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "$@"; } >"$log" 2>&1; then
        tail -n 5 "$log" >&2
        die "could not install $*; is there a network? As root: apt-get install $*"
    fi
    rm -f "$log"
}

need_go() {
    command -v go >/dev/null || die "Go is missing: install Go $(go_wanted) or newer and put it on PATH"
    local have want
    want=$(go_wanted)
    have=$(GOTOOLCHAIN=local go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
    [ "$(printf '%s\n%s\n' "$want" "$have" | sort -V | head -n 1)" = "$want" ] ||
        die "Go $have is too old: install Go $want or newer"
}

go_wanted() { sed -n 's/^go //p' "$root/go.mod"; }

deps() {
    need_go
    local missing
    missing=$(missing_packages "$@")
    # shellcheck disable=SC2086 # one word per package
    [ -z "$missing" ] || install_packages $missing
}

# ---- Native part ----

native() {
    # Configuring again is needed only for a new tree or another source of Kompute; ninja sees the rest.
    local key="${KOMPUTE_SOURCE:-}|${CMAKE_PREFIX_PATH:-}"
    if [ ! -e "$build/build.ninja" ] || [ "$(cat "$build/configured-for" 2>/dev/null)" != "$key" ]; then
        say 'configuring'
        logged cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release
        printf '%s' "$key" >"$build/configured-for"
    fi
    logged cmake --build "$build" -j "$jobs"
}

# logged runs a command quietly and shows its output only if it fails.
logged() {
    local log
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1; then
        tail -n 40 "$log" >&2
        die "failed: $*"
    fi
    rm -f "$log"
}

# go_env exports what cgo needs. Go's build cache sees neither a changed archive
# nor changed pkg-config output, so a hash of the archive and where it lies goes
# into CGO_CFLAGS, which is part of the cache's key; with the build id beside it a binary notices
# at run time if it was linked with another archive after all.
go_env() {
    local hash id
    hash=$({ cat "$archive" && echo "$build"; } | sha256sum | cut -c 1-32)
    id=$(sed -n 's/^#define KPX_BUILD_ID "\(.*\)"$/\1/p' "$build/generated/build_id.h")
    export CGO_ENABLED=1
    export PKG_CONFIG_PATH="$build/pkgconfig${outer_pkg_config_path:+:$outer_pkg_config_path}"
    export CGO_CFLAGS="-O2 -g -DKPX_ARCHIVE_HASH=h$hash '-DKPX_EXPECT_BUILD_ID=\"$id\"'"
}
outer_pkg_config_path=${PKG_CONFIG_PATH:-}

programs() {
    say 'building Go programs into bin/'
    (cd "$root" && go build -o bin/ ./examples/...)
}

# ---- Commands ----

cmd_build() {
    deps
    native
    go_env
    programs
}

cmd_demo() {
    cmd_build
    "$root/bin/decode"
}

cmd_test() {
    want_tests=1 deps
    native
    go_env
    "$root/scripts/test.sh" "$build"
}

cmd_check() {
    deps clang-format:clang-format
    native
    go_env
    "$root/scripts/check.sh"
}

cmd_bench() {
    cmd_build
    [[ " $*" != *' '-?(-)plot* ]] || plotter
    [ $# -gt 0 ] || set -- --shape demo -p 64 -n 32 -d 0,64 -r 3
    "$root/bin/bench" "$@"
}

# plotter builds what bench draws with: a module of its own, with libraries that nothing else needs.
plotter() {
    say 'building bin/benchplot'
    (cd "$root/examples/bench/plot" && CGO_ENABLED=0 go build -o "$root/bin/benchplot" .)
}

cmd_microbench() {
    cmd_build
    (cd "$root" && go test -run '^$' -bench . -benchmem ./...)
}

cmd_conformance() {
    local device=''
    while [ $# -gt 0 ]; do
        case $1 in
        --device) device=${2:?--device needs a device, such as cpu or vulkan:0}; shift 2 ;;
        --device=*) device=${1#*=}; shift ;;
        *) die "conformance: unknown argument $1" ;;
        esac
    done
    cmd_build
    # go test prints nothing of what passes, so the table goes through a file.
    local table status=0
    table=$(mktemp)
    (cd "$root" && go test -count=1 -timeout 60m -run '^TestConformance$' ./ops -args -device="$device" -table="$table") || status=$?
    cat "$table"
    rm -f "$table"
    return "$status"
}

cmd_install() {
    local prefix=/usr/local
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix) prefix=${2:?--prefix needs a directory}; shift 2 ;;
        --prefix=*) prefix=${1#*=}; shift ;;
        *) die "install: unknown argument $1" ;;
        esac
    done
    deps
    native
    logged cmake --install "$build" --prefix "$prefix"
    say "installed under $prefix; other modules build with PKG_CONFIG_PATH=$prefix/lib/pkgconfig"
}

cmd_env() {
    [ -e "$archive" ] || die 'nothing is built yet: run ./build.sh build first'
    go_env
    printf 'export CGO_ENABLED=%q\nexport PKG_CONFIG_PATH=%q\nexport CGO_CFLAGS=%q\n' \
        "$CGO_ENABLED" "$PKG_CONFIG_PATH" "$CGO_CFLAGS"
}

cmd_clean() { rm -rf "$build" "$root/bin"; }

command=${1:-help}
shift || true
case $command in
demo | test | build | check | bench | microbench | conformance | install | env | clean) "cmd_$command" "$@" ;;
help | -h | --help) usage ;;
*) usage >&2; die "unknown command $command" ;;
esac
