#!/usr/bin/env bash
# Five iterations of Dopamine's protocol for `lookrep parity`, a process for each game: nobody waits for another's
# emulator. Returns at once; look.sh says how far they are.
#   usage: parity.sh RUNS dopamine-rainbow|paper-lr      (STEPS=… and FLAGS=… for a rehearsal)
source "$(dirname "$0")/common.sh"
runs=${1:?folder for the runs}
agent=${2:?dopamine-rainbow or paper-lr}
games=${GAMES:-RoadRunner Breakout Boxing Freeway Krull Gopher CrazyClimber Assault}
mkdir -p "$runs"
start_mps
# Half of compiling is timing variants of matrix products; here they are not what takes the time.
quick=--xla_gpu_autotune_level=0
if XLA_FLAGS=$quick python3 -c "import jax; assert jax.default_backend() == 'gpu'" 2>/dev/null; then
  export XLA_FLAGS="${XLA_FLAGS:-} $quick"
fi
# True float32: by its documentation, JAX's default for float32 products on a recent GPU is TensorFloat-32.
export JAX_DEFAULT_MATMUL_PRECISION=highest
for game in $games; do
  out="$runs/$agent-$game"
  background "$out.log" 0.11 "$LOOKREP train atari/$game --agent $agent --steps ${STEPS:-1_250_000} --workers 1 \
    --log-interval-steps ${LOG:-25_000} --checkpoint-interval-steps 0 ${FLAGS:-} --out $out --quiet"
done
