#!/usr/bin/env bash
# Say once a minute how far the studies and runs in a folder are; then pack what is there. Ends when nothing is running.
#   usage: look.sh FOLDER SECONDS ARCHIVES
source "$(dirname "$0")/common.sh"
folder=${1:?folder of studies} seconds=${2:?how long} archives=${3:?where archives go}
until=$((SECONDS + seconds))

say() {
  echo "== ${SECONDS} s $(nvidia-smi --query-gpu=utilization.gpu,memory.used --format=csv,noheader 2>/dev/null || true)"
  for study in "$folder"/*/study.toml; do
    [ -e "$study" ] && { $LOOKREP study status "$(dirname "$study")" | head -1; }
  done
  for metrics in "$folder"/*/populations/atari*/metrics.jsonl "$folder"/*/metrics.jsonl; do # few, and slow enough to be looked at one by one
    [ -e "$metrics" ] && echo "$(basename "$(dirname "$metrics")")" \
      "$(tail -1 "$metrics" | grep -oE '"(agent_steps|episodes|return_mean|loss|steps_per_second)": [0-9.-]+' | tr -d '"\n' | sed 's/[a-z_]*:/  &/g')"
  done
  grep -lE "Traceback|^lookrep: " "$folder"/*.log "$folder"/*/logs/*.log 2>/dev/null | head -5 || true
}

say
while [ $SECONDS -lt $until ]; do
  sleep 5
  pgrep -f "lookrep.cli (study run|train) " >/dev/null || { echo "nothing is running"; break; }
  [ $((SECONDS / 60)) != "${minute:-}" ] && { minute=$((SECONDS / 60)); say; }
done
say
mkdir -p "$archives"
tar cz -C "$folder" --exclude 'events.*' --exclude checkpoints . | split -b 15M - "$archives/$(basename "$folder").tgz."
ls -l "$archives"
