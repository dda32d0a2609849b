#!/bin/bash
# linerate beside ib_write_bw on one pair of an unshaped lab: the same message size, depth and
# duration, both busy-polling, runs taken in turns so that what else the machine does hits both.
# Prints every run, the medians and their ratio, and fails below 0.95.
# RUNS (default 8), SIZE (bytes), DEPTH, SECONDS_EACH may be set.
set -euo pipefail
cd "$(dirname "$0")/../.."
RUNS=${RUNS:-8} SIZE=${SIZE:-65536} DEPTH=${DEPTH:-128} SECONDS_EACH=${SECONDS_EACH:-3}
CARGO=${CARGO:-cargo}

"$CARGO" build -q --release --workspace --bins
dir=$(mktemp -d "${TMPDIR:-/tmp}/linerate-perftest.XXXXXX")
lab=(target/release/linerate-lab --dir "$dir/lab")
cleanup() {
    "${lab[@]}" down >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"${lab[@]}" up --nodes 2 --rails 1 --rate none --base-port 0
sed -e "s/^message_size.*/message_size = \"$SIZE B\"/" -e "s/^depth.*/depth = $DEPTH/" \
    -e "s/^duration.*/duration = \"${SECONDS_EACH}s\"/" -e 's/^completion.*/completion = "poll"/' \
    "$dir/lab/cluster.toml" >"$dir/cluster.toml"

ours() { # Mb/s from node01 to node02
    target/release/linerate report --config "$dir/cluster.toml" --record "$dir/run-$1.jsonl" \
        --format json="$dir/report.json" || true # unshaped, no line rate is known: exit code 3
    python3 - "$dir/report.json" <<'P'
import json, sys
pairs = json.load(open(sys.argv[1]))["pairs"]
pair = next(p for p in pairs if p["from"]["node"] == "node01")
print(f'{pair["gbps"] * 1000:.1f}' if "gbps" in pair else sys.exit(f"not measured: {pair}"))
P
}

theirs() {
    local options=(-d rxe0 -x 1 -s "$SIZE" -t "$DEPTH" -D "$SECONDS_EACH" -q 1 -m 4096 -F)
    timeout 90 "${lab[@]}" ssh node02 timeout 60 ib_write_bw "${options[@]}" >/dev/null 2>&1 &
    sleep 3
    timeout 90 "${lab[@]}" ssh node01 timeout 60 ib_write_bw "${options[@]}" 10.100.0.2 |
        # It says MB and means MiB; a rate of 0.00 is its word for a clock that it could not calibrate.
        awk -v size="$SIZE" '$1 == size && $4 > 0 { printf "%.1f\n", $4 * 8.388608 }'
    wait $! || true
}

median() { sort -n | awk '{ v[NR] = $1 } END { if (!NR) exit 1; print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'; }

echo "run  linerate  ib_write_bw   (Mb/s, RDMA write, $SIZE B x $DEPTH, $SECONDS_EACH s)"
for run in $(seq "$RUNS"); do
    # Who goes first changes with every run: what is left warm, or busy, by one would favour the other.
    if [ $((run % 2)) = 1 ]; then
        a=$(ours "$run") b=$(theirs)
    else
        b=$(theirs) a=$(ours "$run")
    fi
    printf '%3d  %8s  %11s\n' "$run" "$a" "${b:-failed}"
    echo "$a" >>"$dir/ours"
    [ -z "$b" ] || echo "$b" >>"$dir/theirs"
done
a=$(median <"$dir/ours") b=$(median <"$dir/theirs")
awk -v a="$a" -v b="$b" 'BEGIN {
    printf "median linerate %.1f, ib_write_bw %.1f, ratio %.2f (at least 0.95 wanted)\n", a, b, a / b
    exit a / b < 0.95
}'
