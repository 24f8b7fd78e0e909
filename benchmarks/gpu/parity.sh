#!/usr/bin/env bash
# Five iterations of Dopamine's protocol for `lookrep parity`, a process for each game: nobody waits for another's
# emulator. Returns at once; look.sh says how far they are. The second variant goes into the same study.
#   usage: parity.sh STUDIES rainbow|lr      (SIZE=smoke GAMES="Breakout Freeway" JOBS=2 for a rehearsal)
source "$(dirname "$0")/common.sh"
studies=${1:?folder for the study}
variant=${2:?rainbow or lr}
games=${GAMES:-RoadRunner Breakout Boxing Freeway Krull Gopher CrazyClimber Assault}
study=$studies/atari-parity
mkdir -p "$studies"
start_mps
if [ ! -d "$study" ] && [ -e docs/results/atari-parity/study.tar.gz ]; then
  mkdir "$study"
  tar xzf docs/results/atari-parity/study.tar.gz -C "$study" --strip-components 1
fi
# Half of compiling is timing variants of matrix products; here they are not what takes the time.
quick=--xla_gpu_autotune_level=0
if XLA_FLAGS=$quick python3 -c "import jax; assert jax.default_backend() == 'gpu'" 2>/dev/null; then
  export XLA_FLAGS="$quick ${XLA_FLAGS:-}"
fi
# True float32: by its documentation, JAX's default for float32 products on a recent GPU is TensorFloat-32.
export JAX_DEFAULT_MATMUL_PRECISION=highest
background "$studies/$variant.log" 0.9 "$LOOKREP study run atari-parity --size ${SIZE:-gpu} --env $games --variant $variant \
  --out $study --jobs ${JOBS:-8} --memory-gb 8 --no-checkpoints --no-film --quiet"
