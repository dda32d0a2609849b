#!/bin/sh
# Repeats on a machine with NVIDIA GPUs what cannot be tested without: discovery, PCI addresses, attributes,
# allocation, export as dma-buf, copies, and registration with each NIC. With a cluster file of two nodes or
# more, data is moved as well: from GPU to GPU, the same by way of host memory, and from host memory.
#
#   tests/gpu/check.sh [CLUSTER_FILE]
#
# LINERATE names the binary [default: target/release/linerate, else the one in $PATH]. Everything is printed,
# and left in gpu-check-HOST-TIME/; send that directory along with what you make of it.
set -u

linerate=${LINERATE:-target/release/linerate}
[ -x "$linerate" ] || linerate=$(command -v linerate) || {
    echo "no linerate: build it (make release), or set LINERATE" >&2
    exit 2
}
out=gpu-check-$(uname -n)-$(date +%Y%m%dT%H%M%S)
mkdir "$out" || exit 2
worst=0

# try NAME COMMAND…: runs it, shows what it prints, and keeps that with its exit code.
try() {
    name=$1
    shift
    echo "== $name: $*"
    "$@" >"$out/$name.txt" 2>"$out/$name.err"
    code=$?
    cat "$out/$name.txt" "$out/$name.err"
    echo "$name $code" >>"$out/codes"
    echo "-- exit code $code"
    [ "$code" -le "$worst" ] || worst=$code
}

try version "$linerate" --version
# What the system says, to hold the rest against.
for command in "nvidia-smi -q" "nvidia-smi topo -m" "lspci -nn -d 10de:" "uname -a" "ibv_devinfo"; do
    name=$(echo "$command" | tr -c 'a-z\n' '-')
    if command -v "${command%% *}" >/dev/null 2>&1; then
        $command >"$out/$name.txt" 2>&1
    else
        echo "not installed" >"$out/$name.txt"
    fi
done
try inspect "$linerate" inspect
"$linerate" inspect --format json >"$out/inspect.json" 2>/dev/null
try gpu-check "$linerate" gpu-check
# Each NIC sends to itself, with each GPU in turn.
try gpu-transfer "$linerate" gpu-check --transfer
"$linerate" gpu-check --transfer --format json >"$out/gpu-check.json" 2>/dev/null

if [ $# -gt 0 ]; then
    for memory in gpu gpu-staged host; do
        try "report-$memory" "$linerate" report --config "$1" --memory "$memory" --quick \
            --record "$out/$memory.jsonl" --format text --format "json=$out/report-$memory.json"
    done
fi
echo "== all of it is in $out/"
exit "$worst"
