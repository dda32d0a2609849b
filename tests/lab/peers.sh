#!/bin/bash
# linerate beside the tools that are known for each way of moving data, on one pair of an unshaped lab:
# TCP beside iperf3, RDMA beside ib_write_bw, ib_read_bw, ib_send_bw, ib_write_lat and ib_send_lat. The
# same message sizes, depth and duration, runs taken in turns so that what else the machine does hits
# both. Prints every run, the medians and their ratios; fails where a bandwidth is below 0.95 of the
# other tool's, or a latency above 1.05 of it.
# RUNS (default 5), SIZE and TCP_SIZE (bytes), DEPTH, LATENCY_SIZE (bytes), SECONDS_EACH, and STEPS, the
# ones to be compared, may be set.
set -euo pipefail
cd "$(dirname "$0")/../.."
RUNS=${RUNS:-5} SIZE=${SIZE:-65536} DEPTH=${DEPTH:-128} SECONDS_EACH=${SECONDS_EACH:-3}
TCP_SIZE=${TCP_SIZE:-131072} LATENCY_SIZE=${LATENCY_SIZE:-64}
STEPS=${STEPS:-tcp write-poll read send latency-write latency-send}
CARGO=${CARGO:-cargo}

if [ -z "${BIN:-}" ]; then
    "$CARGO" build -q --release --workspace --bins
    BIN=target/release
fi
dir=$(mktemp -d "${TMPDIR:-/tmp}/linerate-peers.XXXXXX")
lab=("$BIN/linerate-lab" --dir "$dir/lab")
cleanup() {
    "${lab[@]}" down >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"${lab[@]}" up --nodes 2 --rails 1 --rate none --base-port 0
{
    sed -e "s/^message_size.*/message_size = \"$SIZE B\"/" -e "s/^depth.*/depth = $DEPTH/" "$dir/lab/cluster.toml"
    printf '\n[probe.tcp]\nmessage_size = "%s B"\n' "$TCP_SIZE"
    printf '\n[probe.cost]\nduration = "%ss"\nlatency_sizes = ["%s B"]\n' "$SECONDS_EACH" "$LATENCY_SIZE"
} >"$dir/cluster.toml"

# What a tool needs to be started with at both ends, and how its figure is read: Mb/s, or microseconds.
bandwidth_options=(-d rxe0 -x 1 -s "$SIZE" -t "$DEPTH" -D "$SECONDS_EACH" -q 1 -m 4096 -F)
latency_options=(-d rxe0 -x 1 -s "$LATENCY_SIZE" -n 5000 -F)

ours() { # STEP RUN: from node01 to node02
    "$BIN/linerate" cost --config "$dir/cluster.toml" --only "$1" --record "$dir/$1-$2.jsonl" \
        --format json="$dir/report.json" >/dev/null || true # unshaped, no line rate is known
    python3 - "$dir/report.json" "$1" <<'P'
import json, sys
step = sys.argv[2]
cost = json.load(open(sys.argv[1]))["cost"]
pair = next(p for p in cost["pairs"] if p["from"]["node"] == "node01")
if step.startswith("latency"):
    told = next(l["half_way"] for l in pair["latency"] if l["step"] == step)
    print(f'{told["median_ns"] / 1e3:.2f}')
else:
    print(f'{next(s["gbps"] for s in pair["steps"] if s["step"] == step) * 1e3:.1f}')
P
}

pair() { # the same command at both nodes, the client's output to stdout
    timeout 90 "${lab[@]}" ssh node02 timeout 60 "$@" >/dev/null 2>&1 &
    sleep 3
    timeout 90 "${lab[@]}" ssh node01 timeout 60 "$@" 10.100.0.2
    wait $! || true
}

# It says MB and means MiB; a rate of 0.00 is its word for a clock that it could not calibrate.
rate() { awk -v size="$SIZE" '$1 == size && $4 > 0 { printf "%.1f\n", $4 * 8.388608 }'; }
typical() { awk -v size="$LATENCY_SIZE" '$1 == size && $5 > 0 { printf "%.2f\n", $5 }'; }

theirs() { # STEP
    case $1 in
        tcp)
            timeout 90 "${lab[@]}" ssh node02 timeout 60 iperf3 -s -1 >/dev/null 2>&1 &
            sleep 3
            timeout 90 "${lab[@]}" ssh node01 timeout 60 \
                iperf3 -c 10.100.0.2 -l "$TCP_SIZE" -t "$SECONDS_EACH" -J |
                python3 -c 'import json, sys; print("%.1f" % (json.load(sys.stdin)["end"]["sum_received"]["bits_per_second"] / 1e6))'
            wait $! || true
            ;;
        write-poll) pair ib_write_bw "${bandwidth_options[@]}" | rate ;;
        # linerate waits for events here; these cannot for a given time, and poll.
        read) pair ib_read_bw "${bandwidth_options[@]}" | rate ;;
        send) pair ib_send_bw "${bandwidth_options[@]}" | rate ;;
        latency-write) pair ib_write_lat "${latency_options[@]}" | typical ;;
        latency-send) pair ib_send_lat "${latency_options[@]}" | typical ;;
        *) echo "no tool is known for $1" >&2 && exit 2 ;;
    esac
}

peer() {
    case $1 in
        tcp) echo iperf3 ;;
        write-poll) echo ib_write_bw ;;
        read) echo ib_read_bw ;;
        send) echo ib_send_bw ;;
        latency-write) echo ib_write_lat ;;
        latency-send) echo ib_send_lat ;;
    esac
}

median() { sort -n | awk '{ v[NR] = $1 } END { if (!NR) exit 1; print (v[int((NR + 1) / 2)] + v[int((NR + 2) / 2)]) / 2 }'; }

for step in $STEPS; do
    case $step in
        latency-*) what="us, half of the way to and fro, $LATENCY_SIZE B" ;;
        tcp) what="Mb/s, $TCP_SIZE B, $SECONDS_EACH s" ;;
        *) what="Mb/s, $SIZE B x $DEPTH, $SECONDS_EACH s" ;;
    esac
    printf '\nrun  linerate  %12s   (%s)\n' "$(peer "$step")" "$what"
    for run in $(seq "$RUNS"); do
        # Who goes first changes with every run: what is left warm, or busy, by one would favour the other.
        if [ $((run % 2)) = 1 ]; then
            a=$(ours "$step" "$run" || true) b=$(theirs "$step" || true)
        else
            b=$(theirs "$step" || true) a=$(ours "$step" "$run" || true)
        fi
        printf '%3d  %8s  %12s\n' "$run" "${a:-failed}" "${b:-failed}"
        [ -z "$a" ] || echo "$a" >>"$dir/ours-$step"
        [ -z "$b" ] || echo "$b" >>"$dir/theirs-$step"
    done
done

echo
failed=0
for step in $STEPS; do
    if [ ! -s "$dir/ours-$step" ] || [ ! -s "$dir/theirs-$step" ]; then
        echo "$step: not compared, one of the two never had a result"
        failed=1
        continue
    fi
    a=$(median <"$dir/ours-$step") b=$(median <"$dir/theirs-$step")
    awk -v step="$step" -v peer="$(peer "$step")" -v a="$a" -v b="$b" 'BEGIN {
        latency = step ~ /^latency/
        printf "%-14s median linerate %9.2f, %-12s %9.2f, ratio %.2f (at %s wanted)\n", step, a, peer, b, a / b,
            latency ? "most 1.05" : "least 0.95"
        exit latency ? a / b > 1.05 : a / b < 0.95
    }' || failed=1
done
exit $failed
