#!/usr/bin/env bash
# The studies behind docs/results/minatar.md that are not complete, in four queues on one GPU. Returns at once;
# look.sh says how far they are.
#   usage: minatar.sh STUDIES      (SIZE=smoke for a rehearsal)
source "$(dirname "$0")/common.sh"
studies=${1:?folder for the studies}
size=${SIZE:-gpu}
mkdir -p "$studies"
start_mps
flags="--no-checkpoints --no-film --quiet"

run() { echo "$LOOKREP study run $1 --size $size --out $studies/${2:-$1} $flags"; }

if [ "$size" = gpu ]; then
  for study in minatar-kr minatar-baselines; do # what is finished is not repeated
    [ -d "$studies/$study" ] && continue
    mkdir "$studies/$study"
    tar xzf "docs/results/$study/study.tar.gz" -C "$studies/$study" --strip-components 1
  done
  if ! grep -q polyak-0_1 "$studies/minatar-baselines/study.toml"; then # is τ = 0.05 best only because it was the last?
    printf '\n[variants.polyak-0_1]\nlabel = "Polyak, τ = 0.1"\ntarget = "polyak"\ntau = 0.1\n' >>"$studies/minatar-baselines/study.toml"
  fi
  main="$(run minatar-targets minatar-main) --steps ${STEPS:-3_072_000} --jobs 5"
  kr="$LOOKREP study run $studies/minatar-kr --jobs 2 $flags"
  baselines="$LOOKREP study run $studies/minatar-baselines --jobs 2 $flags"
else
  main=$(run minatar-targets minatar-main) kr=$(run minatar-kr) baselines=$(run minatar-baselines)
fi
background "$studies/main.log" 0.35 "$main"
background "$studies/kr.log" 0.15 "$kr"
background "$studies/width.log" 0.15 "$baselines; $(run minatar-width) --jobs 3"
background "$studies/pairs.log" 0.20 "$(run network-pairs) --jobs 4"
