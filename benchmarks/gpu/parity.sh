#!/usr/bin/env bash
# Five iterations of Dopamine's protocol on eight games for `lookrep parity`, with one of the study's variants. Agents that share a
# program wait for the slowest emulator among them: four games with quick emulators share one, the others have one each.
# (A process for every game would be slower: each keeps the GPU waiting for its small kernels.) Returns at once; look.sh says
# how far they are. What an earlier part has left in docs/results is gone on with: every variant goes into the same study.
#   usage: parity.sh STUDIES rainbow|lr|lr-summed|lr-steps|lr-epsilon|recipe      (SIZE=smoke QUICK=Breakout SLOW=Freeway for
#          a rehearsal; QUICK= for none; QUICK_SHARE=0.15 of the GPU's memory, for two of them)
source "$(dirname "$0")/common.sh"
studies=${1:?folder for the study}
variant=${2:?rainbow, lr, lr-summed, lr-steps, lr-epsilon or recipe}
study=$studies/atari-parity
mkdir -p "$studies"
start_mps
if [ ! -d "$study" ] && [ -e docs/results/atari-parity/study.tar.gz ]; then
  mkdir "$study"
  tar xzf docs/results/atari-parity/study.tar.gz -C "$study" --strip-components 1
fi
# part NAME SHARE GAMES OPTIONS: of the GPU's memory, of the games
part() {
  [ -n "$3" ] || return 0
  background "$studies/$variant-$1.log" "$2" "$LOOKREP study run atari-parity --size ${SIZE:-gpu} --variant $variant --env $3 \
    --out $study $4 --no-checkpoints --no-film --quiet"
}
part slow 0.5 "${SLOW-Krull Boxing Enduro RoadRunner}" "--jobs 4 --memory-gb 8"
[ -z "${SLOW-.}" ] || for _ in {1..150}; do [ -e "$study/study.toml" ] && break || sleep 0.2; done
sleep 4 # one writes there at a time
part quick "${QUICK_SHARE:-0.3}" "${QUICK-Breakout Gopher CrazyClimber Assault}" "--jobs 1 --memory-gb 32"
