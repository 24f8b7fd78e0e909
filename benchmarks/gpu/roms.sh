#!/usr/bin/env bash
# Rainbow on four games whose ROMs differ between atari-py and ale-py: five iterations on atari-py's, and beside it on
# ale-py's, with seeds that parity.sh has not had. Returns at once; look.sh says how far they are.
#   usage: roms.sh FOLDER ATARI_PYS_ROMS      (CASE="--steps 25000 --replay-capacity-steps 25000" for a rehearsal)
source "$(dirname "$0")/common.sh"
folder=${1:?folder for the runs} roms=$(realpath "${2:?folder with the ROMs of atari-py 0.2.6}")
mkdir -p "$folder"
start_mps
train="$LOOKREP train atari/Gopher,Krull,Assault,RoadRunner --agent dopamine-rainbow --steps 1250000 --groups 1 \
  --log-interval-steps 25000 --checkpoint-interval-steps 0 --quiet ${CASE:-}"
ALE_ROMS_DIR=$roms background "$folder/atari-py.log" 0.3 "$train --first-agent 0 --out $folder/atari-py"
background "$folder/ale-py.log" 0.3 "$train --first-agent 1 --out $folder/ale-py"
