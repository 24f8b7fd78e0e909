#!/usr/bin/env bash
# The Atari figures of docs/performance.md, one JSON object a line. Parts of at most ten minutes each.
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
  A) # how to divide agents over processes; each row has the emulators' own speed in the same minute beside it
    bench --precision bf16 --agents 2 --groups 1 --processes 8
    bench --precision bf16 --agents 4 --groups 1 --processes 4
    bench --precision bf16 --agents 4 --groups 1 --processes 8 --replay-capacity-steps 400000
    bench --precision bf16 --agents 1
    bench --precision bf16 --agents 16 --groups 2
    bench --precision bf16 --agents 1 --processes 16
    bench --precision bf16 --agents 6 --groups 1 --processes 6 --replay-capacity-steps 400000
    ;;
  B) # a game with long episodes, Replicate, and what a checkpoint costs
    bench --precision bf16 --agents 2 --groups 1 --processes 8 --game Freeway
    bench --precision bf16 --agents 4 --groups 1 --processes 8 --game Freeway --replay-capacity-steps 400000
    bench --precision bf16 --agents 16 --groups 2 --target replicate
    timeout "${LIMIT:-120}" python3 benchmarks/atari_checkpoint.py --agents "${AGENTS:-16}" --steps "${STEPS:-8000}" --checkpoints 3
    ;;
  C) # what parity.sh can expect: float32, JAX's default and in full
    bench --agents 1 --processes 8
    export JAX_DEFAULT_MATMUL_PRECISION=highest
    bench --agents 1 --processes 8
    XLA_FLAGS="--xla_gpu_enable_triton_gemm=false ${XLA_FLAGS:-}" bench --agents 1 --processes 8
    ;;
esac
