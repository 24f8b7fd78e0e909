#!/usr/bin/env bash
# What docs/results/minatar.md still misses, side by side on one GPU: where the curves end (two games, 10 M steps), and
# targets of another shape on the third game. Returns at once; look.sh says how far they are.
#   usage: minatar.sh STUDIES      (SIZE=smoke for a rehearsal)
source "$(dirname "$0")/common.sh"
studies=${1:?folder for the studies}
size=${SIZE:-gpu}
mkdir -p "$studies"
start_mps
flags="--no-checkpoints --no-film --quiet"
long="$LOOKREP study run minatar-targets --size $size --out $studies/minatar-long $flags"
pairs="$LOOKREP study run network-pairs --size $size --out $studies/network-pairs $flags"
if [ "$size" = gpu ]; then
  long="$long --env breakout seaquest --variant hard replicate-all recipe --steps ${STEPS:-10_240_000} --jobs 2"
  if [ ! -d "$studies/network-pairs" ]; then # what is finished is not repeated
    mkdir "$studies/network-pairs"
    tar xzf docs/results/network-pairs/study.tar.gz -C "$studies/network-pairs" --strip-components 1
  fi
  pairs="$LOOKREP study run $studies/network-pairs --jobs 2 $flags"
fi
background "$studies/long.log" 0.40 "$long"
background "$studies/pairs.log" 0.20 "$pairs"
