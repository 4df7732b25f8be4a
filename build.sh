#!/usr/bin/env bash
# The one entry to this project: dependencies, Kompute, shaders, shim, Go. It
# consists of small functions; `./build.sh help` lists the commands.
set -euo pipefail

unset CDPATH # cd would look there first, and print what it found
root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
cd -P . # CMake would keep the symbolic links by which the shell has come here
build=$(realpath -m "${KOMPUTE_GO_BUILD:-$root/build}")
# Absolute paths, since programs in other folders read these.
[ -z "${KOMPUTE_SOURCE:-}" ] || KOMPUTE_SOURCE=$(realpath -m "$KOMPUTE_SOURCE")
[ -z "${KOMPUTE_CACHE:-}" ] || KOMPUTE_CACHE=$(realpath -m "$KOMPUTE_CACHE")
# A go.work above this tree is not meant for it; its modules refer to each other by themselves.
export GOWORK=off
archive=$build/libkompute-go.a
jobs=$(nproc)

usage() {
    cat <<'EOF'
usage: ./build.sh COMMAND

  demo       build the library and bin/decode, let the embedded model answer two questions
             on the best device, and show how fast every other device is
  test [--fast]
             build everything and run every test; --fast: a share of them, in a minute or two
  build      dependencies, Kompute, shaders, shim, and the programs in bin/
  check      gofmt, go vet, staticcheck, clang-format, shellcheck, codespell
  bench [ARGUMENTS]
             tokens per second, and where their time goes, or with --ops each op by itself, by bin/bench (--help lists its
             arguments; without any: the embedded model, in seconds on any device)
  microbench Go benchmarks of every package
  conformance [--device SPEC]
             every op on every device, or on one, and a table of what was seen
  fuzz [--time TIME] [--target NAME]
             fuzz every target, or one, for 10m, 2h, … in all (default 1h), with a corpus that
             grows from run to run; for every night
  faults [ARGUMENTS]
             make each call of each Vulkan function fail with each result that it may return,
             and show what became of it; takes an hour or more on a CPU driver; arguments go to
             go test (CONTRIBUTING.md)
  soak [--time TIME]
             let clients ask bin/serve for 10m (the default), 2h, … while Vulkan calls fail at
             random, and compare every answer
  install [--prefix DIR]
             put headers, archive and kompute-go.pc under DIR (default /usr/local)
  env        print what a shell or an editor must export to build in this tree
  clean      remove the build folder and bin/, but for the downloads and what was built of glslang
  help       this text

environment:
  KOMPUTE_SOURCE=DIR       use this copy of Kompute 0.9.0 instead of downloading it
  KOMPUTE_CACHE=DIR        keep the downloads of Kompute and glslang, and the glslang program,
                           here (default: in the build folder)
  KOMPUTE_GO_FUZZ=DIR      keep the fuzz corpus here (default ~/.cache/kompute-go/fuzz)
  KOMPUTE_GO_BUILD=DIR     build here instead of in build/
  KOMPUTE_GO_NO_INSTALL=1  install no Debian packages: name what is missing, and end if it is
                           needed to build or to test
  KOMPUTE_GO_SOAK_PORT=N   the port at which soak serves (default 18080)
EOF
}

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

# shellcheck source=scripts/steps.sh
. "$root/scripts/steps.sh"
# shellcheck source=scripts/dependencies.sh
. "$root/scripts/dependencies.sh"

# usable_paths ends the build if a path has a character because of which a step would fail, or be repeated in every
# build: Kompute's CMake files pass paths to a shell as they are, and some characters are special to CMake, ninja and
# pkg-config. Spaces are no problem.
usable_paths() {
    local path refused=$'\'"`$\\()[]<>|&;:*?#^'
    for path in "$root" "$build" "${KOMPUTE_SOURCE:-}" "${KOMPUTE_CACHE:-}"; do
        [[ $path != *["$refused"]* && $path != *[[:cntrl:]]* ]] ||
            die "the path may not contain control characters or any of $refused: $path"
    done
}

# ---- Native part ----

# native TARGET... builds these targets of CMake's.
native() {
    lock_build
    # Configuring again is needed only for another tree or other sources; ninja sees the rest.
    local key
    key="$root|$build|${KOMPUTE_SOURCE:-}|${KOMPUTE_CACHE:-}|${CMAKE_PREFIX_PATH:-}|$(spirv_tools)"
    if [ ! -e "$build/build.ninja" ] || [ "$(cat "$build/configured-for" 2>/dev/null)" != "$key" ] || ! configured_here; then
        say 'configuring, and fetching Kompute and glslang if they are not here yet'
        rm -f "$build/configured-for"
        # CMake refuses to continue with files that it made for another tree, so these are removed, also in the folders
        # of the sanitizers. Those of another project are kept, and CMake refuses.
        if ! configured_here && grep -qsx 'CMAKE_PROJECT_NAME:STATIC=kompute-go' "$build/CMakeCache.txt"; then
            rm -rf "$build"/{,sanitize-*/}CMake{Cache.txt,Files}
        fi
        # CMake would keep the sources of an earlier run, and would prefer the Python of a virtual environment.
        logged configure cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
            -DKOMPUTE_SOURCE="${KOMPUTE_SOURCE:-}" -DPython3_EXECUTABLE="$python"
        printf '%s' "$key" >"$build/configured-for"
        left_out configure
    fi
    say "compiling with $jobs jobs: $*"
    meter=native_meter logged native cmake --build "$build" -j "$jobs" --target "$@"
    left_out native # ninja configures again where CMake's files have changed
    unlock_build
    deps_caught_up
}

# configured_here: whether the build folder was configured for this tree and in its current place. In a copied or moved
# folder, everything refers to the old place.
configured_here() {
    [ "$(cached_path CMAKE_HOME_DIRECTORY)" = "$root" ] && [ "$(cached_path CMAKE_CACHEFILE_DIR)" = "$build" ]
}
cached_path() { realpath -m "$(sed -n "s/^$1:INTERNAL=//p" "$build/CMakeCache.txt" 2>/dev/null)" 2>/dev/null; }

# lock_build waits until no other build.sh compiles in the build folder, where both would write the same files. Other
# users of the folder, such as tests, are not kept out. Without flock, or on a file system that cannot lock a folder,
# nothing waits.
lock_build() {
    command -v flock >/dev/null || return 0
    mkdir -p "$build"
    exec 9<"$build"
    flock -n 9 2>/dev/null || [ $? != 1 ] || { say "waiting for another build in $build"; flock 9; }
}
unlock_build() { exec 9<&-; }

# left_out LOG says how many kernels were left out because glslang could not be fetched. The next run then configures
# again.
left_out() {
    local count reason
    count=$(grep -c ': left out, ' "$logs/$1.log") || return 0
    reason=$(sed -n 's/^-- \(glslang could not be fetched.*\)/\1/p' "$logs/$1.log")
    rm -f "$build/configured-for"
    say "$count kernels for tensor cores are left out: $reason; then run ./build.sh build again"
}

# go_env exports what cgo needs. Go's build cache sees neither a changed archive nor changed
# pkg-config output, so a hash of the archive and its location goes into CGO_CFLAGS, which is
# part of the cache's key. With the build ID that is also there, a binary notices at run time if
# it was linked with another archive after all.
go_env() {
    local hash id
    hash=$({ cat "$archive" && echo "$build"; } | sha256sum | cut -c 1-32)
    id=$(sed -n 's/^#define KPX_BUILD_ID "\(.*\)"$/\1/p' "$build/generated/build_id.h")
    export CGO_ENABLED=1
    export PKG_CONFIG_PATH="$build/pkgconfig${outer_pkg_config_path:+:$outer_pkg_config_path}"
    # If git refuses to read the tree, because another user owns it, Go cannot stamp a revision.
    git -C "$root" status --porcelain >/dev/null 2>&1 || export GOFLAGS="${GOFLAGS:+$GOFLAGS }-buildvcs=false"
    export CGO_CFLAGS="-O2 -g -DKPX_ARCHIVE_HASH=h$hash '-DKPX_EXPECT_BUILD_ID=\"$id\"'"
}
outer_pkg_config_path=${PKG_CONFIG_PATH:-}

programs() {
    say 'building Go programs into bin/'
    meter=go_meter logged go go_build ./examples/...
    meter=go_meter logged serve serve_build
}

go_build() { (cd "$root" && go build -v -o bin/ "$@"); }

# go_ahead PACKAGES compiles the dependencies of these that do not need the archive, while the archive
# is made; go_caught_up waits for it. What fails here fails again, with its reason, in the build.
go_ahead() {
    mkdir -p "$logs"
    in_background build_without_archive "$@"
    ahead=$!
}
go_caught_up() { wait "$ahead" || true; }
build_without_archive() {
    cd "$root"
    export CGO_ENABLED=1
    { go list -deps -f "$without_archive" "$@" | xargs go build; } >"$logs/go-ahead.log" 2>&1
}
# shellcheck disable=SC2016 # Go's template
without_archive='{{$needs := .CgoFiles}}{{range .Deps}}{{if eq . "github.com/kompute-go/kompute-go/kompute"}}{{$needs = true}}{{end}}{{end}}{{if not $needs}}{{.ImportPath}}{{end}}'

# The service is a module of its own.
serve_build() { (cd "$root/examples/serve" && go build -v -o "$root/bin/serve" .); }

# ---- Commands ----

cmd_build() {
    deps
    go_ahead ./examples/...
    native kompute-go
    go_caught_up
    go_env
    programs
}

# The demo builds only the program that it runs.
cmd_demo() {
    deps
    go_ahead ./examples/decode
    native kompute-go
    go_caught_up
    go_env
    say 'building bin/decode'
    meter=go_meter logged go go_build ./examples/decode
    "$root/bin/decode" --compare-devices
}

cmd_test() {
    local fast=''
    case ${1:-} in
    '') ;;
    --fast) fast=--fast ;;
    *) die "test: unknown argument $1" ;;
    esac
    want_tests=1 deps
    native all
    go_env
    "$root/scripts/test.sh" "$build" $fast
}

cmd_check() {
    deps clang-format:clang-format shellcheck:shellcheck codespell:codespell
    native kompute-go
    go_env
    "$root/scripts/check.sh"
}

cmd_bench() {
    cmd_build
    [[ " $*" != *' '-?(-)plot* ]] || plotter
    [ $# -gt 0 ] || set -- --shape demo -p 64 -n 32 -d 0,64 -r 3
    "$root/bin/bench" "$@"
}

# plotter builds the program that draws bench's pictures: a separate module, because nothing else needs its libraries.
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
        --device) needs conformance 'a device, such as cpu or vulkan:0' "$@"; device=$2; shift 2 ;;
        --device=*) device=${1#*=}; shift ;;
        *) die "conformance: unknown argument $1" ;;
        esac
    done
    cmd_build
    # go test prints no output of tests that pass, so the table goes through a file.
    local table status=0
    table=$(mktemp)
    (cd "$root" && go test -count=1 -timeout 60m -run '^TestConformance$' ./ops -args -device="$device" -table="$table") || status=$?
    cat "$table"
    rm -f "$table"
    return "$status"
}

# needs COMMAND WHAT --OPTION [VALUE]... ends the program if the option has no value.
needs() { [ -n "${4:-}" ] || die "$1: $3 needs $2"; }

# seconds_of COMMAND TIME
seconds_of() {
    local -A unit=([s]=1 [m]=60 [h]=3600)
    [[ $2 =~ ^([0-9]+)([smh])$ ]] || die "$1: --time $2 is not a time such as 90s, 10m or 2h"
    echo $((10#${BASH_REMATCH[1]} * ${unit[${BASH_REMATCH[2]}]}))
}

cmd_fuzz() {
    local time=1h target=''
    while [ $# -gt 0 ]; do
        case $1 in
        --time) needs fuzz 'a time, such as 10m' "$@"; time=$2; shift 2 ;;
        --time=*) time=${1#*=}; shift ;;
        --target) needs fuzz 'the name of a target' "$@"; target=$2; shift 2 ;;
        --target=*) target=${1#*=}; shift ;;
        *) die "fuzz: unknown argument $1" ;;
        esac
    done
    local seconds
    seconds=$(seconds_of fuzz "$time")
    cmd_build
    native fault_loader # FuzzFaults runs with it
    "$root/scripts/fuzz.sh" "$seconds" \
        "${KOMPUTE_GO_FUZZ:-${XDG_CACHE_HOME:-$HOME/.cache}/kompute-go/fuzz}" "$target"
}

cmd_faults() {
    want_tests=1 deps
    native all
    go_env
    local table status=0
    table=$(mktemp)
    (cd "$root" && KOMPUTE_GO_FAULTS=all KOMPUTE_GO_FAULTS_TABLE=$table \
        KOMPUTE_GO_FAULT_LOADER=$build/csrc/tests/faults/libfault_loader.so go test -count=1 -timeout 24h -run '^TestFaults$' ./internal/faulttest "$@") || status=$?
    cat "$table"
    rm -f "$table"
    return "$status"
}

cmd_soak() {
    local time=10m
    while [ $# -gt 0 ]; do
        case $1 in
        --time) needs soak 'a time, such as 10m' "$@"; time=$2; shift 2 ;;
        --time=*) time=${1#*=}; shift ;;
        *) die "soak: unknown argument $1" ;;
        esac
    done
    local seconds
    seconds=$(seconds_of soak "$time")
    want_tests=1 deps
    native all
    go_env
    programs
    "$root/scripts/soak.sh" "$seconds" "$build"
}

cmd_install() {
    local prefix=/usr/local
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix) needs install 'a directory' "$@"; prefix=$2; shift 2 ;;
        --prefix=*) prefix=${1#*=}; shift ;;
        *) die "install: unknown argument $1" ;;
        esac
    done
    deps
    native kompute-go
    rm -f "$build/install_manifest.txt" # one of root's, made by sudo, could not be written
    hint="where only root may write: sudo cmake --install $build --prefix $prefix" \
        logged install cmake --install "$build" --prefix "$prefix"
    local lib
    lib=$(sed -n 's/^CMAKE_INSTALL_LIBDIR:[A-Z]*=//p' "$build/CMakeCache.txt")
    say "installed under $prefix; other modules build with PKG_CONFIG_PATH=$(realpath -m "$prefix")/$lib/pkgconfig"
}

cmd_env() {
    [ -e "$archive" ] || die 'nothing is built yet: run ./build.sh build first'
    configured_here || die "$build was built for another tree, or in another place: run ./build.sh build first"
    go_env
    printf 'export CGO_ENABLED=%q\nexport PKG_CONFIG_PATH=%q\nexport CGO_CFLAGS=%q\n' \
        "$CGO_ENABLED" "$PKG_CONFIG_PATH" "$CGO_CFLAGS"
    [ -z "${GOFLAGS:-}" ] || printf 'export GOFLAGS=%q\n' "$GOFLAGS"
}

cmd_clean() {
    # KOMPUTE_GO_BUILD may name a folder that is no build folder: this script must not remove it.
    [ "$build" = "$(realpath -m "$root/build")" ] || [ ! -d "$build" ] || [ -e "$build/logs/configure.log" ] ||
        [ "$(ls -A "$build")" = kompute-cache ] || [ -z "$(ls -A "$build")" ] || die "clean: $build is not a build folder"
    [ ! -d "$build" ] || lock_build
    rm -rf "${root:?}/bin"
    [ ! -d "$build" ] || find "$build" -mindepth 1 -maxdepth 1 ! -name kompute-cache -exec rm -rf {} +
}

command=${1:-help}
shift || true
case $command in
clean | help | -h | --help) ;;
*) usable_paths ;;
esac
case $command in
demo | build | check | microbench | env | clean)
    [ $# = 0 ] || die "$command: unknown argument $1"
    "cmd_$command"
    ;;
test | bench | conformance | faults | fuzz | soak | install) "cmd_$command" "$@" ;;
help | -h | --help) usage ;;
*) usage >&2; die "unknown command $command" ;;
esac
