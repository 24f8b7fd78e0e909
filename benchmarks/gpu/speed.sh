#!/usr/bin/env bash
# The Atari figures of docs/performance.md, one JSON object a line, each with the emulators' own speed in the same
# minute before it. Parts of at most ten minutes.
#   usage: speed.sh A|B|C      (CASE="--replay-capacity-steps 2000" for a rehearsal)
source "$(dirname "$0")/common.sh"
start_mps
export XLA_PYTHON_CLIENT_PREALLOCATE=false XLA_PYTHON_CLIENT_MEM_FRACTION=0.93 # 16 full replays are 114 GB
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$(mktemp -d)}
bench() {
  echo "# $* (at $SECONDS s)"
  timeout "${LIMIT:-120}" $LOOKREP bench atari "$@" ${CASE:-} >/dev/null 2>"$said" || tail -5 "$said"
  grep '^{"' "$said" || true
}
said=$(mktemp)
case ${1:?A, B or C} in
  A) # how many agents, in how many groups
    bench --precision bf16 --agents 1
    bench --precision bf16 --agents 16 --groups 2
    bench --precision bf16 --agents 16 --groups 4
    bench --precision bf16 --agents 32 --groups 4 --replay-capacity-steps 400000
    bench --precision bf16 --agents 36 --groups 3 --replay-capacity-steps 300000
    bench --precision bf16 --agents 48 --groups 4 --replay-capacity-steps 270000
    bench --precision bf16 --agents 64 --groups 4 --replay-capacity-steps 200000
    ;;
  B) # a game with long episodes, Replicate, and what a checkpoint costs
    bench --precision bf16 --agents 16 --groups 2 --game Freeway
    bench --precision bf16 --agents 48 --groups 4 --game Freeway --replay-capacity-steps 270000
    bench --precision bf16 --agents 16 --groups 2
    bench --precision bf16 --agents 16 --groups 2 --target replicate
    timeout "${LIMIT:-120}" python3 benchmarks/atari_checkpoint.py --agents "${AGENTS:-16}" --steps "${STEPS:-4000}" --checkpoints 3
    ;;
  C) # what parity.sh can expect: float32 as JAX does it here, four agents in a process, or one in each of four
    python3 benchmarks/gpu/check.py
    bench --agents 4 --groups 1 --replay-capacity-steps 100000
    bench --agents 1 --processes 4 --replay-capacity-steps 100000 --game Krull
    ;;
esac
