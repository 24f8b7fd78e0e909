#!/usr/bin/env bash
# The Atari figures of docs/performance.md, one JSON object a line. Three parts, at most ten minutes each.
#   usage: speed.sh A|B|C      (CASE="--replay-capacity-steps 2000" for a rehearsal)
source "$(dirname "$0")/common.sh"
start_mps
export XLA_PYTHON_CLIENT_PREALLOCATE=false XLA_PYTHON_CLIENT_MEM_FRACTION=0.93 # 16 full replays are 114 GB
bench() {
  echo "# $*"
  timeout "${LIMIT:-150}" $LOOKREP bench atari --precision bf16 "$@" ${CASE:-} >/dev/null 2>"$said" || tail -5 "$said"
  grep '^{"' "$said" || true
}
said=$(mktemp)
case ${1:?A, B or C} in
  A) # full replays; the emulators' own speed is measured in each of them
    bench --agents 1
    bench --agents 8 --groups 1 --processes 2
    bench --agents 16 --groups 2
    bench --agents 16 --groups 2 --target replicate
    ;;
  B) # a game with long episodes, more agents than full replays fit for, and what a checkpoint costs
    bench --agents 8 --groups 1 --processes 2 --game Freeway
    bench --agents 8 --groups 1 --processes 4 --replay-capacity-steps 40000
    bench --agents 16 --groups 2 --processes 3 --replay-capacity-steps 40000
    timeout "${LIMIT:-150}" python3 benchmarks/atari_checkpoint.py --agents "${AGENTS:-16}" --steps "${STEPS:-8000}" --checkpoints 3
    ;;
  C) # how to divide 16 agents, and 24; many processes compile at once, so without timing variants of products
    export XLA_FLAGS="--xla_gpu_autotune_level=0 ${XLA_FLAGS:-}"
    bench --agents 4 --groups 1 --processes 4
    bench --agents 2 --groups 1 --processes 8
    bench --agents 1 --processes 16
    bench --agents 3 --groups 1 --processes 8 --replay-capacity-steps 40000
    ;;
esac
