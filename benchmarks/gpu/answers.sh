#!/usr/bin/env bash
# Sittings of at most half an hour of one H200 for the questions of docs/studies.md that nobody has answered yet. Each
# returns at once and goes on in the background; look.sh says how far it is and packs the numbers. README.md has the
# order and the times. A study's sittings share a folder: what is finished is not repeated.
#   usage: answers.sh STUDIES readings VARIANT
#          answers.sh STUDIES lag|small-targets
#          answers.sh STUDIES horizon|tuning|scaling-tuning|scaling|trust|distilled GAME
#          answers.sh STUDIES methods GAME rules|first|second
#          answers.sh STUDIES resets GAME 4|8      (SIZE=smoke for a rehearsal, SIZE=full for fresh seeds)
source "$(dirname "$0")/common.sh"
studies=${1:?folder for the studies} part=${2:?which part: readings, lag, horizon, …}
mkdir -p "$studies"
start_mps

# study NAME JOBS OPTIONS: runs it, `JOBS` programs at a time
study() {
  background "$studies/$1${3:+-$(tr -c 'a-z0-9\n' - <<<"$3" | tr -s -)}.log" 0.9 "$LOOKREP study run $1 --size ${SIZE:-gpu} --out $studies/$1 \
    --jobs $2 --no-checkpoints --no-film --quiet $3"
}
variant() { echo "--variant ${1:?which variant}"; }
game() { echo "--env ${1:?which game}"; }

case $part in
  readings) study paper-readings 3 "$(variant "${3:-}") --memory-gb 30" ;; # three programs of two games, two seeds each
  lag) study minatar-lag 5 "" ;;
  horizon) study minatar-horizon 1 "$(game "${3:-}")" ;;
  tuning) study minatar-methods-tuning 5 "$(game "${3:-}")" ;;
  methods)
    # Six that share one program of 120 agents, then those that have one each.
    case ${4:-all} in
      rules) some="hard polyak replicate paper-replicate growing asymmetric" ;;
      first) some="symmetric averaged distilled shared-trunk renewed minto no-target" ;;
      second) some="functional value-proximal dqn-pro chain reset-optimizer relative-adam" ;;
      all) some="" ;;
    esac
    study minatar-methods 4 "$(game "${3:-}") ${some:+--variant $some}"
    ;;
  scaling-tuning) study minatar-scaling-tuning 4 "$(game "${3:-}")" ;;
  scaling) study minatar-scaling 4 "$(game "${3:-}")" ;;
  resets)
    ratio=${4:?4 or 8 updates a step}
    study minatar-resets 4 "$(game "${3:-}") --variant hard-$ratio hard-reset-$ratio recipe-$ratio recipe-reset-$ratio"
    ;;
  trust) study minatar-trust 3 "$(game "${3:-}")" ;;
  small-targets) study minatar-small-targets 4 "" ;;
  distilled) study minatar-distilled 4 "$(game "${3:-}")" ;;
  *) echo "answers.sh: unknown part $part" >&2; exit 2 ;;
esac
