# shellcheck shell=bash
# What must be installed before anything is built: packages and Go. Sourced by build.sh.
: "${root:?}" "${build:?}"

python=/usr/bin/python3 # its pip fetches Kompute

# missing_to_build prints the Debian package of each missing tool or library that the build needs.
missing_to_build() {
    local tool
    for tool in g++:g++ cmake:cmake ninja:ninja-build pkg-config:pkg-config glslc:glslc "$@"; do
        command -v "${tool%%:*}" >/dev/null || echo "${tool#*:}"
    done
    [ -e /usr/include/vulkan/vulkan.hpp ] || echo libvulkan-dev
    [ -e /usr/include/fmt/format.h ] || echo libfmt-dev
    [ -e /usr/include/spirv/unified1/spirv.hpp ] || echo spirv-headers
    [ -n "${KOMPUTE_SOURCE:-}" ] || [ -e "${KOMPUTE_CACHE:-$build/kompute-cache}/kp-0.9.0.tar.gz" ] || "$python" -m pip --version >/dev/null 2>&1 || echo python3-pip
}

# missing_to_run prints what programs need when they run, and with want_tests what tests need.
missing_to_run() {
    driver_here || echo mesa-vulkan-drivers
    if [ "${want_tests:-}" = 1 ]; then
        compgen -G '/usr/share/vulkan/explicit_layer.d/*validation*.json' >/dev/null || echo vulkan-validationlayers
        command -v qemu-aarch64-static >/dev/null || echo qemu-user-static # runs tests for arm64
        # For the chat page of examples/serve; the names are those its test looks for.
        command -v chromium-headless-shell chromium chromium-browser google-chrome >/dev/null || echo chromium-headless-shell
    fi
}

# driver_here: whether any Vulkan driver is installed, where the loader looks for one.
driver_here() {
    local folder
    [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] || return 0
    for folder in /usr/share /usr/local/share /etc "${XDG_DATA_HOME:-${HOME:-}/.local/share}"; do
        ! compgen -G "$folder/vulkan/icd.d/*.json" >/dev/null || return 0
    done
    return 1
}

# spirv_tools prints the files of Debian's spirv-tools that are installed, where CMake looks for them.
spirv_tools() {
    local prefix prefixes
    IFS=: read -ra prefixes <<<"/usr:/usr/local:${CMAKE_PREFIX_PATH:-}"
    for prefix in "${prefixes[@]}"; do
        compgen -G "$prefix/include/spirv-tools/libspirv.h" || true
        compgen -G "$prefix/lib*/libSPIRV-Tools.*" || true
        compgen -G "$prefix/lib*/*/libSPIRV-Tools.*" || true
    done
}

# may_install PACKAGE...: whether they can be installed here. If not, $why has the reason, and what to do.
may_install() {
    if [ "${KOMPUTE_GO_NO_INSTALL:-}" = 1 ]; then
        why="KOMPUTE_GO_NO_INSTALL=1 is set; install with: apt-get install $*"
    elif ! command -v apt-get >/dev/null; then
        why="these are Debian's names; install them with this system's package manager"
    elif [ "$(id -u)" = 0 ]; then
        return 0
    elif ! command -v sudo >/dev/null; then
        why="neither root nor sudo here; as root: apt-get install $*"
    elif ! sudo true; then # it asks for a password now, not beside the build
        why="sudo refused; as root: apt-get install $*"
    else
        sudo=sudo
        return 0
    fi
    return 1
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
    as_root apt-get update -q && as_root apt-get -o DPkg::Lock::Timeout=300 install -y -q --no-install-recommends "$@"
}

# as_root COMMAND... keeps the proxies, which sudo would remove.
as_root() {
    local name kept=(DEBIAN_FRONTEND=noninteractive)
    for name in http_proxy https_proxy no_proxy; do
        [ -z "${!name:-}" ] || kept+=("$name=${!name}")
    done
    $sudo env "${kept[@]}" "$@"
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
    # Finally, look where the user who called sudo has it.
    [ -n "$home" ] && [ "$(id -u)" = 0 ] || return 1
    dir=$(su - "$SUDO_USER" -c 'command -v go' 2>/dev/null | tail -n 1)
    [ -x "$dir" ] && PATH=$PATH:$(dirname "$dir")
}

go_wanted() { sed -n 's/^go //p' "$root/go.mod"; }

# deps installs what is missing: first what the build needs, and the rest during the build,
# which waits for it at its end. With want_tests=1 the rest is needed, too; otherwise the
# build goes on if it cannot be installed.
deps() {
    need_go
    local build_packages run_packages why='' sudo=''
    # In parallel with the installation of packages; the build reports modules that could not be downloaded.
    in_background download_modules
    build_packages=$(missing_to_build "$@")
    run_packages=$(missing_to_run)
    run_needed=${want_tests:-}
    # shellcheck disable=SC2086 # one word per package
    set -- $build_packages $run_packages
    [ $# -gt 0 ] || return 0
    # shellcheck disable=SC2086
    if may_install "$@"; then
        [ -z "$build_packages" ] || install_packages packages $build_packages
        [ -z "$run_packages" ] || { install_beside $run_packages & installing=$!; }
    elif [ -n "$build_packages" ] || [ "$run_needed" = 1 ]; then
        die "missing: $*; $why"
    else
        say "missing: $*; $why"
        say "$without_driver"
    fi
}
without_driver='going on: nothing but running programs on Vulkan needs it'
download_modules() { cd "$root" && go mod download; }

# install_beside PACKAGE... runs during the build, and finishes even if the build is interrupted.
install_beside() {
    trap '' INT HUP
    install_packages packages-to-run "$@"
}
installing='' run_needed=''
deps_caught_up() {
    local failed=0
    [ -z "$installing" ] || wait "$installing" || failed=1 # it has said why
    installing=''
    [ $failed = 1 ] || return 0
    [ "$run_needed" != 1 ] || exit 1
    say "$without_driver"
}

# in_background COMMAND... runs a command in a process group of its own, which end_background can end. $! is its id.
in_background() {
    set -m
    "$@" </dev/null >/dev/null 2>&1 &
    set +m
}

# end_background ends what was started in the background, which Ctrl-C does not reach, and waits
# for the installation of packages: otherwise the next run would find apt's database locked.
end_background() {
    local job
    for job in $(jobs -rp); do
        [ "$job" = "$installing" ] || kill -- "-$job" 2>/dev/null || true
    done
    if [ -n "$installing" ] && kill -0 "$installing" 2>/dev/null; then
        say 'waiting for the installation of packages'
        wait "$installing" || true
    fi
}
trap end_background EXIT
