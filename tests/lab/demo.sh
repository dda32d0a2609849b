#!/bin/sh
# The main job on the lab: starts it with the planted fault, runs linerate over it, and succeeds only
# if exactly that fault was named. FAULT=none: a healthy lab, in which nothing may be named.
set -eu
cd "$(dirname "$0")/../.."
FAULT=${FAULT:-half:node02:1:tx}
CARGO=${CARGO:-cargo}
command -v "$CARGO" >/dev/null || PATH=$HOME/.cargo/bin:$PATH

"$CARGO" build --release --workspace --bins
lab=target/release/linerate-lab
dir=$(mktemp -d "${TMPDIR:-/tmp}/linerate-demo.XXXXXX")
cleanup() {
    "$lab" --dir "$dir/lab" down >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

if [ "$FAULT" = none ]; then
    "$lab" --dir "$dir/lab" up --base-port 0
else
    "$lab" --dir "$dir/lab" up --base-port 0 --fault "$FAULT"
fi
status=0
target/release/linerate report --config "$dir/lab/cluster.toml" --record "$dir/run.jsonl" \
    --format text --format "json=$dir/report.json" || status=$?
echo
"$lab" --dir "$dir/lab" judge "$dir/report.json" --exit-code "$status"
