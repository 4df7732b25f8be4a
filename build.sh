#!/usr/bin/env bash
# The one entry to this project: dependencies, Kompute, shaders, shim, Go. It
# consists of small functions; `./build.sh help` lists the commands.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
build=${KOMPUTE_GO_BUILD:-$root/build}
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
  faults     make each call of each Vulkan function fail with each result that it may return,
             and show what became of it; takes an hour or more on a CPU driver
  soak [--time TIME]
             let clients ask bin/serve for 10m (the default), 2h, … while Vulkan calls fail at
             random, and compare every answer
  install [--prefix DIR]
             put headers, archive and kompute-go.pc under DIR (default /usr/local)
  env        print what a shell or an editor must export to build in this tree
  clean      remove build/ and bin/, but for the downloads and what was built of glslang
  help       this text

environment:
  KOMPUTE_SOURCE=DIR       use this copy of Kompute 0.9.0 instead of downloading it
  KOMPUTE_CACHE=DIR        keep the downloads of Kompute and glslang, and the glslang program,
                           here (default: in the build folder)
  KOMPUTE_GO_FUZZ=DIR      keep the fuzz corpus here (default ~/.cache/kompute-go/fuzz)
  KOMPUTE_GO_BUILD=DIR     build here instead of in build/
  KOMPUTE_GO_NO_INSTALL=1  never install Debian packages, only name what is missing
EOF
}

logs=$build/logs # the output of each step, shown if it fails

say() { printf '==> %s\n' "$*" >&2; }
die() { printf 'build.sh: %s\n' "$*" >&2; exit 1; }

# ---- Dependencies ----

# missing_packages prints the Debian package of each missing tool or library.
missing_packages() {
    local tool
    for tool in g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config glslc:glslc "$@"; do
        command -v "${tool%%:*}" >/dev/null || echo "${tool#*:}"
    done
    [ -e /usr/include/vulkan/vulkan.hpp ] || echo libvulkan-dev
    [ -e /usr/include/fmt/format.h ] || echo libfmt-dev
    [ -e /usr/include/spirv/unified1/spirv.hpp ] || echo spirv-headers
    [ -n "${KOMPUTE_SOURCE:-}" ] || [ -e "${KOMPUTE_CACHE:-$build/kompute-cache}/kp-0.9.0.tar.gz" ] || /usr/bin/python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
    # Any driver will do; lavapipe is always available.
    compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null || compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null ||
        [ -n "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] || echo mesa-vulkan-drivers
    if [ "${want_tests:-}" = 1 ]; then
        compgen -G '/usr/share/vulkan/explicit_layer.d/*validation*.json' >/dev/null || echo vulkan-validationlayers
        command -v qemu-aarch64-static >/dev/null || echo qemu-user-static # runs tests for arm64
        # For the chat page of examples/serve; the names are those its test looks for.
        command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null || echo chromium-headless-shell
    fi
}

install_packages() {
    local sudo=''
    [ "${KOMPUTE_GO_NO_INSTALL:-}" != 1 ] || die "missing: $*. Install with: apt-get install $*"
    command -v apt-get >/dev/null || die "missing: $* (Debian's names). Install them with this system's package manager"
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "missing: $*. Neither root nor sudo here; as root: apt-get install $*"
        sudo=sudo
    fi
    say "installing packages: $*"
    hint="is there a network? As root: apt-get install $*" \
        logged packages install_with_apt "$sudo" "$@"
}

install_with_apt() {
    local sudo=$1
    shift
    $sudo apt-get update -q && $sudo env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -q --no-install-recommends "$@"
}

# need_go finds Go, also under sudo, whose PATH may lack it, and lets a Go that can
# fetch the version that go.mod asks for do so.
need_go() {
    local want have get='get it from https://go.dev/dl/ and put it on PATH'
    want=$(go_wanted)
    find_go || die "Go is missing: Go $want or newer is needed; $get"
    have=$(cd / && GOTOOLCHAIN=local go env GOVERSION | sed 's/^go//; s/[^0-9.].*//')
    ! at_least "$have" "$want" || return 0
    at_least "$have" 1.21 || die "Go $have is too old: Go $want or newer is needed; $get"
    say "Go $have fetches Go $want, which go.mod asks for"
    hint="Go $want or newer is needed; $get" logged toolchain go_version_here
}

go_version_here() { (cd "$root" && go version); }

# at_least A B: whether version A is B or newer.
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

find_go() {
    local home='' dir
    if [ -n "${SUDO_USER:-}" ]; then
        home=$(getent passwd "$SUDO_USER" | cut -d : -f 6)
    fi
    ! command -v go >/dev/null || return 0
    for dir in "${GOROOT:-/usr/local/go}/bin" /usr/local/go/bin /usr/lib/go/bin /snap/bin \
        ${home:+"$home/go/bin" "$home/.local/go/bin" "$home"/sdk/go*/bin}; do
        if [ -x "$dir/go" ]; then
            PATH=$PATH:$dir
            return 0
        fi
    done
    # Last, where the user who called sudo has it.
    [ -n "$home" ] && [ "$(id -u)" = 0 ] || return 1
    dir=$(su - "$SUDO_USER" -c 'command -v go' 2>/dev/null | tail -n 1)
    [ -x "$dir" ] && PATH=$PATH:$(dirname "$dir")
}

go_wanted() { sed -n 's/^go //p' "$root/go.mod"; }

deps() {
    need_go
    local missing
    # In parallel with the installation of packages; the build reports modules that could not be downloaded.
    (cd "$root" && go mod download >/dev/null 2>&1) &
    missing=$(missing_packages "$@")
    # shellcheck disable=SC2086 # one word per package
    [ -z "$missing" ] || install_packages $missing
}

# ---- Native part ----

# native TARGET... builds these targets of CMake's.
native() {
    # Configuring again is needed only for a new tree or another source of Kompute; ninja sees the rest.
    local key="${KOMPUTE_SOURCE:-}|${CMAKE_PREFIX_PATH:-}"
    if [ ! -e "$build/build.ninja" ] || [ "$(cat "$build/configured-for" 2>/dev/null)" != "$key" ]; then
        say 'configuring, and fetching Kompute and glslang if they are not here yet'
        logged configure cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release
        printf '%s' "$key" >"$build/configured-for"
    fi
    say "compiling with $jobs jobs: $*"
    meter=native_meter logged native cmake --build "$build" -j "$jobs" --target "$@"
}

# logged NAME COMMAND... runs a command, whose output goes into $logs/NAME.log, and
# through $meter to the terminal if there is one. If the command fails, the last lines
# of its output are shown.
logged() {
    local log=$logs/$1.log
    shift
    mkdir -p "$logs"
    if ! "$@" 2>&1 | tee "$log" | "${meter:-nothing}" >&2; then
        tail -n 40 "$log" >&2
        die "failed: $*${hint:+; $hint}. All of its output: $log"
    fi
}
nothing() { cat >/dev/null; }

# native_meter turns ninja's lines into "Kompute 3/4  shaders 20/95  shim 7/82" if
# everything has to be built, otherwise into ninja's own count, "7/12".
native_meter() {
    local line kind bare=1
    [ ! -e "$archive" ] || bare=0
    local -A total=() steps=()
    while read -r line; do
        kind=$(native_kind "$line")
        total[$kind]=$((${total[$kind]:-0} + 1))
    done < <(ninja -C "$build" -t targets all | grep -E '\.(o|gch|spv): ')
    while read -r line; do
        kind=$(native_kind "${line##* }")
        steps[$kind]=$((${steps[$kind]:-0} + 1))
        case $bare$line in
        1*) line='' ;;
        0\[*) line=${line%%]*} line=${line#[} ;; # "[7/12] Building ..."
        *) continue ;;
        esac
        for kind in Kompute glslang shaders shim tests; do
            [ $bare = 0 ] || [ -z "${steps[$kind]:-}" ] || line+="$kind ${steps[$kind]}/${total[$kind]}  "
        done
        show "$line"
    done
    show_end
}

# native_kind tells the kind of a target from its output's name, or from the end of ninja's line about it.
native_kind() {
    case $1 in
    kompute/*.o | kompute/*.o:*) echo Kompute ;;
    CMakeFiles/kpx_glslang*) echo glslang ;;
    csrc/tests/*) echo tests ;;
    generated/spirv/*) echo shaders ;;
    CMakeFiles/kpx*) echo shim ;;
    *) echo other ;;
    esac
}

# go_meter counts the packages that `go build -v` names.
go_meter() {
    local line n=0
    while read -r line; do
        n=$((n + 1))
        show "Go: $n packages, $line"
    done
    show_end
}

# show reports the progress of a step: on a terminal in one line that is redrawn, otherwise as a line every ten
# seconds.
shown='' shown_at=$SECONDS
show() {
    shown=$1
    [ -n "$shown" ] || return 0
    if [ -t 2 ]; then
        printf '\r    %.100s\033[K' "$shown" >&2
    elif [ $((SECONDS - shown_at)) -ge 10 ]; then
        shown_at=$SECONDS
        printf '    %s\n' "$shown" >&2
    fi
}
show_end() { [ -z "$shown" ] || if [ -t 2 ]; then echo >&2; else printf '    %s\n' "$shown" >&2; fi; }

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

# go_ahead PACKAGES compiles what these need and does not itself need the archive, beside what
# makes that; go_caught_up waits for it. What fails here fails again, with its reason, in the build.
go_ahead() {
    mkdir -p "$logs"
    (cd "$root" && CGO_ENABLED=1 go list -deps -f "$without_archive" "$@" | CGO_ENABLED=1 xargs go build) >"$logs/go-ahead.log" 2>&1 &
    ahead=$!
}
go_caught_up() { wait "$ahead" || true; }
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
        --device) device=${2:?--device needs a device, such as cpu or vulkan:0}; shift 2 ;;
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

# seconds_of COMMAND TIME
seconds_of() {
    local -A unit=([s]=1 [m]=60 [h]=3600)
    [[ $2 =~ ^([0-9]+)([smh])$ ]] || die "$1: --time $2 is not a time such as 90s, 10m or 2h"
    echo $((BASH_REMATCH[1] * ${unit[${BASH_REMATCH[2]}]}))
}

cmd_fuzz() {
    local time=1h target=''
    while [ $# -gt 0 ]; do
        case $1 in
        --time) time=${2:?--time needs a time, such as 10m}; shift 2 ;;
        --time=*) time=${1#*=}; shift ;;
        --target) target=${2:?--target needs the name of a target}; shift 2 ;;
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
    (cd "$root" && KOMPUTE_GO_FAULTS=all KOMPUTE_GO_FAULTS_TABLE=$table go test -count=1 -timeout 24h -run '^TestFaults$' ./internal/faulttest "$@") || status=$?
    cat "$table"
    rm -f "$table"
    return "$status"
}

cmd_soak() {
    local time=10m
    while [ $# -gt 0 ]; do
        case $1 in
        --time) time=${2:?--time needs a time, such as 10m}; shift 2 ;;
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
        --prefix) prefix=${2:?--prefix needs a directory}; shift 2 ;;
        --prefix=*) prefix=${1#*=}; shift ;;
        *) die "install: unknown argument $1" ;;
        esac
    done
    deps
    native kompute-go
    logged install cmake --install "$build" --prefix "$prefix"
    say "installed under $prefix; other modules build with PKG_CONFIG_PATH=$prefix/lib/pkgconfig"
}

cmd_env() {
    [ -e "$archive" ] || die 'nothing is built yet: run ./build.sh build first'
    go_env
    printf 'export CGO_ENABLED=%q\nexport PKG_CONFIG_PATH=%q\nexport CGO_CFLAGS=%q\n' \
        "$CGO_ENABLED" "$PKG_CONFIG_PATH" "$CGO_CFLAGS"
    [ -z "${GOFLAGS:-}" ] || printf 'export GOFLAGS=%q\n' "$GOFLAGS"
}

cmd_clean() {
    rm -rf "${root:?}/bin"
    [ ! -d "$build" ] || find "$build" -mindepth 1 -maxdepth 1 ! -name kompute-cache -exec rm -rf {} +
}

command=${1:-help}
shift || true
case $command in
demo | test | build | check | bench | microbench | conformance | faults | fuzz | soak | install | env | clean) "cmd_$command" "$@" ;;
help | -h | --help) usage ;;
*) usage >&2; die "unknown command $command" ;;
esac
