#!/bin/sh
# The demo again and again on one lab: N runs with the planted fault, then N without (default 10). Prints
# a line for each run; succeeds only if every run named exactly what was planted. The records and reports
# of runs that did not are kept.
#   tests/lab/soak.sh [N]        FAULT=half:node03:0:rx tests/lab/soak.sh 20
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-${RUNS:-10}}
case $runs in
    '' | *[!0-9]* | 0*) echo "soak: $runs is no number of runs" >&2; exit 2 ;;
esac
FAULT=${FAULT:-half:node02:1:tx}
CARGO=${CARGO:-cargo}
command -v "$CARGO" >/dev/null || PATH=$HOME/.cargo/bin:$PATH

"$CARGO" build --release --workspace --bins
lab=target/release/linerate-lab
dir=$(mktemp -d "${TMPDIR:-/tmp}/linerate-soak.XXXXXX")
bad=0
cleanup() {
    "$lab" --dir "$dir/lab" down >/dev/null 2>&1 || true
    if [ "$bad" = 0 ]; then rm -rf "$dir"; else echo "soak: what went wrong is in $dir" >&2; fi
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

"$lab" --dir "$dir/lab" up --base-port 0 >/dev/null

# One run, and what the lab says of it: soak_run NAME NUMBER
soak_run() {
    out=$dir/$1-$2
    start=$(date +%s)
    status=0
    target/release/linerate report --config "$dir/lab/cluster.toml" --record "$out.jsonl" \
        --format "text=$out.txt" --format "json=$out.json" 2>"$out.err" || status=$?
    took=$(($(date +%s) - start))
    if said=$("$lab" --dir "$dir/lab" judge "$out.json" --exit-code "$status" 2>&1); then
        good=$((good + 1))
        rm -f "$out".*
    else
        bad=$((bad + 1))
    fi
    printf '%s %2d of %d  exit %d  %3d s  %s\n' "$1" "$2" "$runs" "$status" "$took" "${said#lab: }"
}

# soak NAME: sets good
soak() {
    good=0
    run=1
    while [ "$run" -le "$runs" ]; do
        soak_run "$1" "$run"
        run=$((run + 1))
    done
}

"$lab" --dir "$dir/lab" fault "$FAULT"
soak faulty
faulty=$good
"$lab" --dir "$dir/lab" heal
soak healthy
echo "with $FAULT: exactly it was named in $faulty of $runs runs"
echo "without a fault: nothing was named in $good of $runs runs"
[ "$bad" = 0 ]
