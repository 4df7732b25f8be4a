#!/usr/bin/env bash
# Runs examples/batch on a Flink cluster on this machine: a job manager, two task managers
# with a worker process each, and Beam's job server. One worker is killed half-way; every
# line must still be answered exactly once. It needs Java 11 or 17, Maven and some 160 MB of
# jars, which are kept in the cache folder.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${KOMPUTE_CACHE:-$root/build/kompute-cache}/flink
work=$(mktemp -d)
pids=()
# Workers are the programs that Beam's boot programs have unpacked. Those that run already
# are not ours.
all_workers() { pgrep -f '^/tmp/bin[0-9]*/worker --worker=true' | sort; }
others=$(all_workers || true)
workers() { comm -13 <(printf '%s\n' "$others") <(all_workers); }
cleanup() {
    [ ${#pids[@]} = 0 ] || kill "${pids[@]}" 2>/dev/null || true
    workers | xargs -r kill 2>/dev/null || true
    pkill -f -- "$work/" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap cleanup EXIT

if ! [ -d "$cache/lib" ]; then
    rm -rf "$cache/new"
    mvn -q -B -f "$root/examples/batch/flink/pom.xml" dependency:copy-dependencies "-DoutputDirectory=$cache/new"
    mv "$cache/new" "$cache/lib"
fi
(cd "$root/examples/batch" && go build -o "$work/batch" . && go build -o "$work/boot" github.com/apache/beam/sdks/v2/go/container)

cd "$work" # workers write where their task manager was started
mkdir conf tmp
cp "$root/examples/batch/flink/config.yaml" "$work/conf/"
printf 'io.tmp.dirs: %s/tmp\n' "$work" >>"$work/conf/config.yaml"
opens=()
for package in java.lang java.util java.net java.io java.nio java.time sun.nio.ch java.util.concurrent; do
    opens+=(--add-opens "java.base/$package=ALL-UNNAMED")
done
# start NAME CLASS ARGUMENTS... starts a Java program that writes to a log of that name.
start() {
    local name=$1
    shift
    TMPDIR=$work/tmp java -Xmx400m "${opens[@]}" -cp "$cache/lib/*" "$@" >"$work/$name.log" 2>&1 &
    pids+=($!)
}
# await WHAT COMMAND... waits until a command succeeds, as long as all programs run.
await() {
    local what=$1
    shift
    for _ in $(seq 240); do
        if "$@" >/dev/null 2>&1; then return; fi
        for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || break 2; done
        sleep 0.5
    done
    printf 'no %s\n' "$what" >&2
    tail -n 20 "$work"/*.log >&2
    exit 1
}
start jobmanager org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint --configDir "$work/conf"
for i in 1 2; do
    start "taskmanager-$i" org.apache.flink.runtime.taskexecutor.TaskManagerRunner --configDir "$work/conf"
done
start jobserver org.apache.beam.runners.flink.FlinkJobServerDriver --flink-master localhost:8081 --flink-conf-dir "$work/conf" \
    --job-port 8099 --artifact-port 8098 --expansion-port -1 --artifacts-dir "$work/artifacts"
slots() { curl -s localhost:8081/overview | grep -q '"slots-total":2'; }
await 'task managers' slots
await 'job server' bash -c '</dev/tcp/localhost/8099'

lines=${LINES_TO_ANSWER:-3000}
for i in $(seq "$lines"); do
    printf '{"id": "%d", "messages": [{"role": "user", "content": "Tell me a story about %d foxes."}], "max_tokens": 64}\n' "$i" "$i"
done >"$work/in.jsonl"
"$work/batch" --runner flink --endpoint localhost:8099 --environment_type PROCESS \
    --environment_config "{\"command\": \"$work/boot\"}" --parallelism 2 \
    --input "$work/in.jsonl" --output "$work/out.jsonl" --device cpu --sequences 8 >"$work/batch.log" 2>&1 &
job=$!
pids+=("$job")

two() { [ "$(workers | wc -l)" -ge 2 ]; }
await 'two workers' two
sleep "${KILL_AFTER:-8}"
before=$(workers | tr '\n' ' ')
victim=${before%% *}
kill -KILL "$victim"
printf 'workers %swere at work when %s was killed\n' "$before" "$victim"
[ ! -e "$work/out.jsonl" ] || { printf 'the job was over before; set LINES_TO_ANSWER higher\n' >&2; exit 1; }
wait "$job" || { tail -n 60 "$work/batch.log" "$work/jobserver.log" >&2; exit 1; }
unset 'pids[-1]' # the job, which has ended
grep -o 'answered.*' "$work/batch.log" || true

ids() { sed -E 's/^\{"id":"([0-9]+)".*/\1/' "$work/out.jsonl"; }
diff <(seq "$lines") <(ids | sort -n) || { printf 'lines are lost or twice there\n' >&2; exit 1; }
failed=$(grep -c 'switched from RUNNING to FAILED' "$work/jobmanager.log" || true)
[ "$failed" -gt 0 ] || { printf 'no task noticed that its worker was killed\n' >&2; exit 1; }
printf 'all %d lines were answered once; tasks that failed and were repeated: %d\n' "$lines" "$failed"
