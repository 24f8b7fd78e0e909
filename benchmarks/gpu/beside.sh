#!/usr/bin/env bash
# Is today's code as fast as another version's, what do users' networks cost, and many variants in one program? All
# programs compile side by side; then each benchmark is timed while the others wait. A line of JSON for each case.
#   usage: beside.sh SOURCE_OF_THE_OLDER_VERSION      (AGENTS=4 SEEDS=1 STEPS=400 for a rehearsal without Atari)
source "$(dirname "$0")/common.sh"
before=${1:?folder of the older version\'s source, from git worktree add}
export XLA_PYTHON_CLIENT_PREALLOCATE=false
export LOOKREP_TURNS=$(mktemp -d)
names=()

# start NAME COMMAND
start() {
  names+=("$1")
  (LOOKREP_TURN=$1 timeout "${LIMIT:-560}" python3 "${@:2}" >"$LOOKREP_TURNS/$1.out" 2>"$LOOKREP_TURNS/$1.err" \
    || true; touch "$LOOKREP_TURNS/$1.ready" "$LOOKREP_TURNS/$1.over") &
}
start variants benchmarks/programs.py variants --precision bf16 --seeds "${SEEDS:-20}" --steps "${STEPS:-4000}"
start own benchmarks/programs.py own --precision bf16 --agents "${AGENTS:-512}" --steps "${STEPS:-4000}"
start minatar benchmarks/versions.py minatar "$before" src ${AGENTS:+--cases "c51 hard $AGENTS bf16"}
[ -n "${AGENTS:-}" ] || start atari benchmarks/versions.py atari "$before" src
for name in "${names[@]}"; do
  until [ -e "$LOOKREP_TURNS/$name.ready" ]; do sleep 0.2; done
  echo "# $name is compiled at $SECONDS s"
done
for name in "${names[@]}"; do
  touch "$LOOKREP_TURNS/$name.go"
  until [ -e "$LOOKREP_TURNS/$name.over" ]; do sleep 0.1; done
  cat "$LOOKREP_TURNS/$name.out"
  [ -s "$LOOKREP_TURNS/$name.out" ] || tail -5 "$LOOKREP_TURNS/$name.err"
  echo "# $name is timed at $SECONDS s"
done
