#!/usr/bin/env bash
# Tests build.sh's own rules: for which tree it configures, when it does so again, and what
# must not change that. It uses copies of build.sh, with small programs in place of CMake,
# ninja and Go that only note how they were called, so it takes seconds.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT

fail() { printf 'test_build: %s\n' "$*" >&2; [ ! -e "$work/out" ] || cat "$work/out" >&2; exit 1; }

mkdir "$work/bin" "$work/kompute"
cat >"$work/bin/cmake" <<'EOF'
#!/usr/bin/env bash
set -euo pipefail
[ ! -e /proc/self/fd/9 ] || { echo 'the lock was passed on'; exit 1; }
[ "$PWD" = "$(pwd -P)" ] || { echo 'CMake would keep a symbolic link'; exit 1; }
case $1 in
-S)
    source=$2 build=$4
    echo "configure $source" >>"$CALLS"
    if [ -e "$build/CMakeCache.txt" ]; then # as CMake does
        grep -qxF "CMAKE_HOME_DIRECTORY:INTERNAL=$source" "$build/CMakeCache.txt" || { echo 'of another source'; exit 1; }
        grep -qxF "CMAKE_CACHEFILE_DIR:INTERNAL=$build" "$build/CMakeCache.txt" || { echo 'of another folder'; exit 1; }
    fi
    mkdir -p "$build/generated"
    printf '%s\n' "CMAKE_HOME_DIRECTORY:INTERNAL=$source" "CMAKE_CACHEFILE_DIR:INTERNAL=$build" \
        'CMAKE_PROJECT_NAME:STATIC=kompute-go' >"$build/CMakeCache.txt"
    echo "$source" >"$build/build.ninja"
    ;;
--build)
    build=$2
    mkdir "$build/busy" || { echo 'two builds at once'; exit 1; }
    sleep "${COMPILING:-0}"
    echo "compile $(cat "$build/build.ninja")" >>"$CALLS"
    echo '#define KPX_BUILD_ID "1"' >"$build/generated/build_id.h"
    touch "$build/libkompute-go.a"
    rmdir "$build/busy"
    ;;
esac
EOF
cat >"$work/bin/go" <<'EOF'
#!/usr/bin/env bash
[ ! -e /proc/self/fd/9 ] || { echo 'the lock was passed on'; exit 1; }
[ "$GOWORK" = off ] || { echo 'a go.work would count'; exit 1; }
[ "$1" != env ] || echo go99.0
EOF
printf '#!/bin/sh\n' >"$work/bin/ninja"
chmod +x "$work"/bin/*

export CALLS=$work/calls KOMPUTE_SOURCE=$work/kompute KOMPUTE_GO_NO_INSTALL=1 VK_DRIVER_FILES=none
export PATH=$work/bin:$PATH
unset KOMPUTE_GO_BUILD KOMPUTE_CACHE CMAKE_PREFIX_PATH GOWORK PKG_CONFIG_PATH

new_tree() { mkdir -p "$1/examples/serve" && cp -r "$root/build.sh" "$root/scripts" "$root/go.mod" "$1"; }
# run COMMAND...: it must succeed, and the calls must be those on stdin.
run() {
    : >"$CALLS"
    "$@" >"$work/out" 2>&1 || fail "failed: $*"
    diff - "$CALLS" >"$work/diff" || fail "other calls than expected: $* $(cat "$work/diff")"
}
# refused MESSAGE COMMAND...: it must fail with that message.
refused() {
    if "${@:2}" >"$work/out" 2>&1; then fail "was not refused: ${*:2}"; fi
    grep -qF -- "$1" "$work/out" || fail "no '$1': ${*:2}"
}
both() { printf 'configure %s\ncompile %s\n' "$1" "$1"; }
compiled() { printf 'compile %s\n' "$1"; }

# A tree is configured once; in a copy, after a move, and in turn with another one that uses the same build folder,
# again, for the tree that build.sh is in.
a=$work/a b=$work/b c="$work/c c"
new_tree "$a"
refused 'nothing is built yet' "$a/build.sh" env
refused 'build.sh: install: --prefix needs a directory' "$a/build.sh" install --prefix
both "$a" | run "$a/build.sh" build
compiled "$a" | run "$a/build.sh" build
env=$("$a/build.sh" env) # not in a pipe, which grep would close before all is written
[[ $env == *"PKG_CONFIG_PATH=$a/build/pkgconfig"* ]] || fail 'env names another folder'
[[ $env != *GOWORK* ]] || fail 'env sets GOWORK'
cp -r "$a" "$b"
refused 'for another tree' "$b/build.sh" env
both "$b" | run "$b/build.sh" build
run "$b/build.sh" env </dev/null
mv "$b" "$c"
refused 'for another tree' "$c/build.sh" env
both "$c" | run "$c/build.sh" build
both "$a" | KOMPUTE_GO_BUILD=$c/build run "$a/build.sh" build
refused 'for another tree' "$c/build.sh" env
both "$c" | run "$c/build.sh" build

# Another project's build folder stays as it is.
mkdir "$work/other"
printf 'CMAKE_PROJECT_NAME:STATIC=other\nCMAKE_HOME_DIRECTORY:INTERNAL=/other\n' >"$work/other/CMakeCache.txt"
KOMPUTE_GO_BUILD=$work/other refused 'of another source' "$a/build.sh" build
grep -q other "$work/other/CMakeCache.txt" || fail "another project's folder was changed"

# A symbolic link is the same tree, and CMake is not led by it.
ln -s "$a" "$work/link"
compiled "$a" | run "$work/link/build.sh" build
(cd "$work/link" && rm build/configured-for && both "$a" | run ./build.sh build)

# CMake looks for spirv-tools again once its files have come or gone.
prefix=$work/prefix
mkdir -p "$prefix/include/spirv-tools" "$prefix/lib/x"
export CMAKE_PREFIX_PATH=$work/nothing:$prefix
both "$a" | run "$a/build.sh" build
touch "$prefix/include/spirv-tools/libspirv.h" "$prefix/lib/x/libSPIRV-Tools.a"
both "$a" | run "$a/build.sh" build
compiled "$a" | run "$a/build.sh" build
rm "$prefix/lib/x/libSPIRV-Tools.a"
both "$a" | run "$a/build.sh" build
unset CMAKE_PREFIX_PATH
both "$a" | run "$a/build.sh" build

# A build waits for another one, but not for what runs after it.
compiled "$a" | run "$a/build.sh" microbench
if command -v flock >/dev/null; then
    COMPILING=1 "$a/build.sh" build >"$work/first" 2>&1 &
    until [ -e "$a/build/busy" ]; do sleep 0.05; done
    { compiled "$a"; compiled "$a"; } | run "$a/build.sh" build
    grep -q 'waiting for another build' "$work/out" || fail 'did not say that it waits'
    wait $! || { cat "$work/first"; fail 'the first of two builds failed'; }
fi

# What surrounds a tree does not lead to another one.
mkdir -p "$work/elsewhere/a"
(cd "$work" && compiled "$a" | CDPATH=$work/elsewhere:$work run bash a/build.sh build)

# Where the tools would fail somewhere in the build, it is refused at once.
new_tree "$work/(d)"
refused 'the path may not contain' "$work/(d)/build.sh" build
"$work/(d)/build.sh" help >/dev/null || fail 'no help'
KOMPUTE_GO_BUILD="$work/it's" refused 'the path may not contain' "$a/build.sh" build

# The line of progress fits the terminal.
if command -v script >/dev/null; then
    cat >"$work/show.sh" <<EOF
build=$work archive=$work/none
. "$root/scripts/steps.sh"
stty cols 40
show "\$(printf '%0100d' 0)"
EOF
    script -qec "bash $work/show.sh" /dev/null </dev/null >"$work/shown"
    [ "$(tr -cd 0 <"$work/shown" | wc -c)" = 35 ] || fail "a line of progress does not fit: $(cat -v "$work/shown")"
fi
echo 'build.sh keeps its rules'
