#!/usr/bin/env bash
# Five iterations of Dopamine's protocol for `lookrep parity`, Rainbow and LR side by side: two processes with four games
# each, which share a program. (A process for each game would be slower: the GPU's time goes into small kernels, one after
# the other.) Games that are emulated equally fast belong together, since four wait for the slowest. Returns at once;
# look.sh says how far they are. What an earlier part has left in docs/results is gone on with.
#   usage: parity.sh STUDIES quick|slow      (SIZE=smoke GAMES="Breakout Freeway" for a rehearsal)
source "$(dirname "$0")/common.sh"
studies=${1:?folder for the study}
case ${2:?quick or slow} in
  quick) games=${GAMES:-Breakout Gopher CrazyClimber Assault} ;;
  slow) games=${GAMES:-RoadRunner Boxing Freeway Krull} ;;
esac
study=$studies/atari-parity
mkdir -p "$studies"
start_mps
if [ ! -d "$study" ] && [ -e docs/results/atari-parity/study.tar.gz ]; then
  mkdir "$study"
  tar xzf docs/results/atari-parity/study.tar.gz -C "$study" --strip-components 1
fi
background "$studies/$2.log" 0.9 "$LOOKREP study run atari-parity --size ${SIZE:-gpu} --env $games \
  --out $study --jobs ${JOBS:-2} --memory-gb ${MEMORY_GB:-32} --no-checkpoints --no-film --quiet"
