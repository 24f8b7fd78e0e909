#!/usr/bin/env bash
# Five iterations of Dopamine's protocol for `lookrep parity`: two processes with four games each, which share a program.
# (A process for each game would be slower: the GPU's time goes into small kernels, one after the other.) Returns at once;
# look.sh says how far they are. The second variant goes into the same study.
#   usage: parity.sh STUDIES rainbow|lr      (SIZE=smoke GAMES="Breakout Freeway" for a rehearsal)
source "$(dirname "$0")/common.sh"
studies=${1:?folder for the study}
variant=${2:?rainbow or lr}
games=${GAMES:-RoadRunner Boxing Freeway Krull Breakout Gopher CrazyClimber Assault}
study=$studies/atari-parity
mkdir -p "$studies"
start_mps
if [ ! -d "$study" ] && [ -e docs/results/atari-parity/study.tar.gz ]; then
  mkdir "$study"
  tar xzf docs/results/atari-parity/study.tar.gz -C "$study" --strip-components 1
fi
background "$studies/$variant.log" 0.9 "$LOOKREP study run atari-parity --size ${SIZE:-gpu} --env $games --variant $variant \
  --out $study --jobs ${JOBS:-2} --memory-gb ${MEMORY_GB:-32} --no-checkpoints --no-film --quiet"
