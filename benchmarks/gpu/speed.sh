#!/usr/bin/env bash
# The Atari figures of docs/performance.md, one JSON object a line. Two parts, about ten minutes each.
#   usage: speed.sh A|B
source "$(dirname "$0")/common.sh"
start_mps
bench() { echo "# $*"; timeout "${LIMIT:-170}" $LOOKREP bench atari --precision bf16 "$@" || echo "# ended with $?"; }
case ${1:?A or B} in
  A) # one process, full replays, each game beside its emulators
    bench --agents 1 16 --game Breakout
    bench --agents 16 --game Freeway
    bench --agents 16 --target replicate
    ;;
  B) # several processes, small replays: which N is best when memory is no limit
    bench --agents 8 --groups 1 --processes 2 --replay-capacity-steps 40000
    bench --agents 8 --groups 1 --processes 4 --replay-capacity-steps 40000
    bench --agents 16 --groups 2 --processes 3 --replay-capacity-steps 40000
    bench --agents 16 --replay-memory host --replay-capacity-steps 40000
    python3 benchmarks/atari_checkpoint.py --agents 16 --steps 50000 --checkpoints 3
    ;;
esac
