#!/usr/bin/env bash
# Tests bin/serve with OpenAI's clients as they are published today: for Python, for
# JavaScript and for Go; and with Anthropic's for Python. It downloads them from the package registries that pip, npm
# and go are set up for, into a folder that it removes. Without arguments it tests all
# three; `python`, `npm` or `go` selects one. It is not a part of `./build.sh test`, which
# runs a pinned version of the client for Go.
set -euo pipefail
unset CDPATH # cd would look there first, and print what it found
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$work"' EXIT

key=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
"$root/bin/serve" --listen 127.0.0.1:0 --device cpu --api-key "$key" 2>"$work/log" &
server=$!
for _ in $(seq 300); do
    address=$(sed -n 's/.*msg=serving .*address=\([^ ]*\).*/\1/p' "$work/log")
    [ -z "$address" ] || break
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
done
[ -n "$address" ] || { echo 'test_clients: bin/serve names no address after 30 s' >&2; cat "$work/log" >&2; exit 1; }
export OPENAI_API_KEY=$key OPENAI_BASE_URL=http://$address/v1 ANTHROPIC_API_KEY=$key ANTHROPIC_BASE_URL=http://$address

test_python() {
    python3 -m venv "$work/python"
    "$work/python/bin/pip" install -q --disable-pip-version-check openai anthropic
    "$work/python/bin/python" "$root/scripts/testdata/openai_client.py"
    "$work/python/bin/python" "$root/scripts/testdata/anthropic_client.py"
}

test_npm() {
    mkdir "$work/npm"
    cp "$root/scripts/testdata/openai_client.mjs" "$work/npm/"
    (cd "$work/npm" && npm install --silent --no-audit --no-fund openai && node openai_client.mjs)
}

# The test of the pinned version, with the newest one in its place.
test_go() {
    cp -r "$root/examples/serve/clients" "$work/go"
    (
        cd "$work/go"
        sed -i 's|github.com/openai/openai-go"|github.com/openai/openai-go/v3"|; s|openai-go/option"|openai-go/v3/option"|; s|openai-go/responses"|openai-go/v3/responses"|' ./*_test.go
        go get github.com/openai/openai-go/v3@latest
        go mod tidy
        go list -m github.com/openai/openai-go/v3
        CGO_ENABLED=0 go test -vet=off -run OpenAI . -args -serve "$root/bin/serve"
    )
}

[ $# -gt 0 ] || set -- python npm go
for client; do
    printf '==> %s\n' "$client"
    "test_$client"
done
