# shellcheck shell=bash
# What must be installed before anything is built: packages and Go. Sourced by build.sh.
: "${root:?}" "${build:?}"

# missing_to_build prints the Debian package of each missing tool or library that the build needs.
missing_to_build() {
    local tool
    for tool in g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config glslc:glslc "$@"; do
        command -v "${tool%%:*}" >/dev/null || echo "${tool#*:}"
    done
    [ -e /usr/include/vulkan/vulkan.hpp ] || echo libvulkan-dev
    [ -e /usr/include/fmt/format.h ] || echo libfmt-dev
    [ -e /usr/include/spirv/unified1/spirv.hpp ] || echo spirv-headers
    [ -n "${KOMPUTE_SOURCE:-}" ] || [ -e "${KOMPUTE_CACHE:-$build/kompute-cache}/kp-0.9.0.tar.gz" ] || /usr/bin/python3 -m pip --version >/dev/null 2>&1 || echo python3-pip
}

# missing_to_run prints what programs need when they run, and with want_tests what tests need.
missing_to_run() {
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

# may_install refuses with the packages that are missing if it cannot install them.
may_install() {
    [ "${KOMPUTE_GO_NO_INSTALL:-}" != 1 ] || die "missing: $*. Install with: apt-get install $*"
    command -v apt-get >/dev/null || die "missing: $* (Debian's names). Install them with this system's package manager"
    [ "$(id -u)" != 0 ] || return 0
    command -v sudo >/dev/null || die "missing: $*. Neither root nor sudo here; as root: apt-get install $*"
    sudo=sudo
    sudo true # asks for a password now, not beside the build
}

# install_packages LOG PACKAGE...
install_packages() {
    local log=$1
    shift
    say "installing packages: $*"
    hint="is there a network? As root: apt-get install $*" \
        logged "$log" install_with_apt "$@"
}

install_with_apt() {
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

# deps installs what is missing: what the build needs at once, the rest beside the build,
# which waits for it at its end.
deps() {
    need_go
    local build_packages run_packages sudo=''
    # In parallel with the installation of packages; the build reports modules that could not be downloaded.
    (cd "$root" && go mod download >/dev/null 2>&1) &
    build_packages=$(missing_to_build "$@")
    run_packages=$(missing_to_run)
    [ -n "$build_packages$run_packages" ] || return 0
    # shellcheck disable=SC2086 # one word per package
    {
        may_install $build_packages $run_packages
        [ -z "$build_packages" ] || install_packages packages $build_packages
        [ -z "$run_packages" ] || { install_packages packages-to-run $run_packages & installing=$!; }
    }
}
installing=''
deps_caught_up() {
    [ -z "$installing" ] || wait "$installing" || exit 1 # it has said why
    installing=''
}
