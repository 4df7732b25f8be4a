# shellcheck shell=bash
# Steps of the build: their logs, and their progress on the terminal. Sourced by build.sh.
: "${build:?}" "${archive:?}"

logs=$build/logs # the output of each step, shown if it fails

# logged NAME COMMAND... runs a command, whose output goes into $logs/NAME.log, and
# through $meter to the terminal if there is one. If the command fails, the last lines
# of its output are shown.
logged() {
    local log=$logs/$1.log
    shift
    mkdir -p "$logs"
    # The readers of the output hold the lock until all writers are gone. The writers do not inherit it: one may stay,
    # such as the server of a compiler cache.
    if ! "$@" 9<&- 2>&1 | tee "$log" | "${meter:-nothing}" >&2; then
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
        printf '\r    %s\033[K' "${shown:0:$(($(columns) - 5))}" >&2
    elif [ $((SECONDS - shown_at)) -ge 10 ]; then
        shown_at=$SECONDS
        printf '    %s\n' "$shown" >&2
    fi
}
# columns prints how wide the terminal is now: a longer line could not be redrawn.
columns() {
    local size
    size=$(stty size <&2 2>/dev/null) || size=''
    size=${size#* }
    [ "${size:-0}" -gt 5 ] || size=80 # 0 where it does not say
    echo "$size"
}
show_end() { [ -z "$shown" ] || if [ -t 2 ]; then echo >&2; else printf '    %s\n' "$shown" >&2; fi; }
