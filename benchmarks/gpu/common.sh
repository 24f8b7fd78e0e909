# Sourced by the scripts here: the environment they run in, and background jobs that outlive the shell.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONPATH="src:.wheels${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
export LOOKREP="python3 -m lookrep.cli"

# Several processes share the GPU well only under MPS.
start_mps() {
  if command -v nvidia-cuda-mps-control >/dev/null && ! pgrep -f nvidia-cuda-mps-control >/dev/null; then
    nvidia-cuda-mps-control -d && sleep 1 || echo "no MPS: processes will take turns on the GPU"
  fi
}

# background LOG SHARE COMMANDS: in a session of its own, with this share of the GPU's memory.
background() {
  XLA_PYTHON_CLIENT_MEM_FRACTION=$2 setsid nohup bash -c "set -x; $3" >"$1" 2>&1 </dev/null &
}
