#!/bin/sh
# The cases of the lab again and again: each N times (default 5) on one lab, with a table at the end: how
# often the verdict was right, and what was named where it was not. Records and reports of runs that went
# wrong are kept. CASE is part of the names of the cases to run (default: all those on four nodes).
#   tests/lab/soak.sh [N [CASE]]            tests/lab/soak.sh 20 four::a_slow_receiver_and
# PROFILE: the one of Cargo to build with (default: release).
# KILLS: at how many random moments a_run_goes_on_wherever_it_was_killed kills the controller, in all its
# runs together (default 20).
set -eu
cd "$(dirname "$0")/../.."
runs=${1:-${RUNS:-5}}
case $runs in
    '' | *[!0-9]* | 0*) echo "soak: $runs is no number of runs" >&2; exit 2 ;;
esac
CARGO=${CARGO:-cargo}
command -v "$CARGO" >/dev/null || PATH=$HOME/.cargo/bin:$PATH

kept=$(mktemp -d "${TMPDIR:-/tmp}/linerate-soak.XXXXXX")
status=0
LINERATE_LAB=require LINERATE_LAB_RUNS=$runs LINERATE_LAB_KEEP=$kept \
    LINERATE_LAB_KILLS=$(((${KILLS:-20} + runs - 1) / runs)) \
    "$CARGO" test --profile "${PROFILE:-release}" --test lab -- "${2:-four::}" || status=$?
rmdir "$kept" 2>/dev/null || echo "soak: what went wrong is in $kept" >&2
exit "$status"
