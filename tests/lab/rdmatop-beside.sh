#!/bin/bash
# `linerate watch` beside rdmatop (crates.io) on a node of the lab, one after the other, each on a terminal
# of 120 x 40 for a while: processor time of each thread, and resident memory. Emulated, a second of
# processor time does far less than on a server: the two are compared, nothing else.
# RDMATOP is a built one (`cargo install rdmatop --root target/rdmatop`), in a folder that nodes see: not
# below /tmp or a home. SECONDS_EACH (default 60), LINERATE and LAB, built ones, may be set.
set -euo pipefail
cd "$(dirname "$0")/../.."
SECONDS_EACH=${SECONDS_EACH:-60} CARGO=${CARGO:-cargo}
RDMATOP=$(realpath "${RDMATOP:-target/rdmatop/bin/rdmatop}")
[ -n "${LINERATE:-}" ] && [ -n "${LAB:-}" ] || "$CARGO" build -q --release --workspace --bins
LINERATE=$(realpath "${LINERATE:-target/release/linerate}")
dir=$(mktemp -d "${TMPDIR:-/tmp}/linerate-rdmatop.XXXXXX")
lab=("${LAB:-target/release/linerate-lab}" --dir "$dir/lab")
cleanup() {
    "${lab[@]}" down >/dev/null 2>&1 || true
    rm -rf "$dir"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

"${lab[@]}" up --nodes 2 --rails 2 --base-port 0

# On the node: what the program takes from ten seconds after its start on.
measure() {
    local seconds=$1 program=$2
    shift 2
    {
        sleep $((seconds + 30)) | TERM=xterm-256color LANG=C.UTF-8 \
            script -qc "stty cols 120 rows 40; exec $program $*" /dev/null
    } >/tmp/screen 2>&1 </dev/null &
    sleep 10
    local pid
    pid=$(pgrep -n -x "${program##*/}") || { cat /tmp/screen && exit 1; }
    # Nanoseconds on a processor: ticks miss what is short.
    threads() {
        for task in /proc/"$pid"/task/*; do
            echo "${task##*/} $(cut -d' ' -f1 "$task/schedstat") $(cat "$task/comm")"
        done
    }
    threads >/tmp/before
    sleep "$seconds"
    threads >/tmp/after
    awk -v seconds="$seconds" 'NR == FNR { was[$1] = $2; next }
        { spent = ($2 - was[$1]) / 1e9; all += spent; printf "  thread %s %.2f s\n", $3, spent }
        END { printf "  all %.2f s of %d s, %.2f %% of a core\n", all, seconds, all / seconds * 100 }' \
        /tmp/before /tmp/after
    awk '/^VmRSS/ { printf "  resident %.1f MiB\n", $2 / 1024 }' /proc/"$pid"/status
    echo "  drawn $(wc -c </tmp/screen) bytes"
    kill "$pid"
}

for program in "$LINERATE watch" "$RDMATOP"; do
    echo "${program##*/}"
    "${lab[@]}" ssh node01 "$(declare -f measure); measure $SECONDS_EACH $program"
done
