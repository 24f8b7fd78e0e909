#!/usr/bin/env bash
# The Atari figures of docs/performance.md, one JSON object a line, each with the emulators' own speed in the seconds
# between. Parts of at most ten minutes.
#   usage: speed.sh A|B|C|D|E|F|G, or options of `lookrep bench atari`      (CASE="--replay-capacity-steps 2000" for a rehearsal)
source "$(dirname "$0")/common.sh"
start_mps
export XLA_PYTHON_CLIENT_PREALLOCATE=false XLA_PYTHON_CLIENT_MEM_FRACTION=0.93 # 16 full replays are 114 GB
export JAX_COMPILATION_CACHE_DIR=${JAX_COMPILATION_CACHE_DIR:-$(mktemp -d)}
bench() {
  echo "# $* (at $SECONDS s)"
  nvidia-smi --query-gpu=utilization.gpu --format=csv,noheader,nounits --loop=1 >"$busy" 2>/dev/null &
  timeout "${LIMIT:-180}" $LOOKREP bench atari --json "$@" ${CASE:-} >/dev/null 2>"$said" || tail -5 "$said"
  kill $! 2>/dev/null || true
  grep '^{"' "$said" || true
  if [ -s "$busy" ]; then echo "# the GPU was busy in the last seconds for $(tail -12 "$busy" | tr '\n' ' ')% of the time"; fi
}
said=$(mktemp) busy=$(mktemp)
case ${1:?A, B, C, D, E, F, G or options} in
  -*) bench "$@" ;;
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
  C) # what parity.sh can expect: float32 as JAX does it here, four agents in a process
    python3 benchmarks/gpu/check.py
    bench --agents 4 --groups 1 --replay-capacity-steps 100000
    ;;
  D) # what launching costs, under settings of XLA that might make it less
    case=(--precision bf16 --agents 4 --groups 1 --replay-capacity-steps 100000)
    bench "${case[@]}"
    for set in XLA_PYTHON_CLIENT_USE_TFRT_GPU_CLIENT=1 XLA_FLAGS=--xla_gpu_require_exclusive_lock=true \
      XLA_FLAGS=--xla_gpu_command_buffer_update_mode=SKIP_TEMP XLA_FLAGS=--xla_gpu_enable_command_buffer=; do
      echo "# $set"
      (export "${set?}" && bench "${case[@]}")
    done
    echo "# how many commands of CUDA graphs are written anew"
    TF_CPP_MIN_LOG_LEVEL=0 TF_CPP_MAX_VLOG_LEVEL=0 TF_CPP_VMODULE=command_executor=5,command_buffer_thunk=5 bench "${case[@]}"
    grep -oE "Record (update|create) [0-9]+ commands|[Nn]o (need to )?update[^:]*" "$said" | sort | uniq -c | sort -rn | head -5
    ;;
  E) # emulators that wait less: more groups
    bench --precision bf16 --agents 48 --groups 4 --replay-capacity-steps 270000
    bench --precision bf16 --agents 72 --groups 6 --replay-capacity-steps 180000
    bench --precision bf16 --agents 96 --groups 8 --replay-capacity-steps 130000
    bench --precision bf16 --agents 96 --groups 6 --replay-capacity-steps 130000
    ;;
  F) # more groups still, and larger ones
    bench --precision bf16 --agents 256 --groups 16 --replay-capacity-steps 45000
    bench --precision bf16 --agents 256 --groups 16 --replay-capacity-steps 45000 --workers 32
    bench --precision bf16 --agents 384 --groups 16 --replay-capacity-steps 30000 --workers 32
    bench --precision bf16 --agents 384 --groups 16 --replay-capacity-steps 30000 --workers 32 --game Freeway
    ;;
  G) # the emulators' part of it, without a GPU: how many workers, and how many for each group
    python3 benchmarks/atari_workers.py --cases 256/16/16 192/12/16 96/8/16 --groups-a-worker 2 3 99 --repeats 3
    python3 benchmarks/atari_workers.py --cases 256/16/32 256/8/16 --repeats 3
    ;;
esac
