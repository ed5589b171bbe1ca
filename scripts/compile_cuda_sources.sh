#!/bin/sh
# Compiles the CUDA sources of all ops with NVRTC, for each architecture and element type, as calls do
# it: make test-cuda-sources. No GPU is needed; NVRTC comes from the package index, into an environment
# of its own.
#
#   scripts/compile_cuda_sources.sh <the program myops_cuda_tests> [architecture...]
set -eu

program=$1
shift
[ $# -gt 0 ] || set -- 75 80 90 100 120
root=$(CDPATH='' cd -- "$(dirname -- "$0")/.." && pwd)
environment=$root/build/cuda-environment
nvrtc() { find "$environment" -name 'libnvrtc.so.1*' 2>/dev/null | head -n 1; }

if [ -z "$(nvrtc)" ]; then
  "${PYTHON:-python3}" -m venv "$environment"
  "$environment/bin/pip" install --quiet "nvidia-cuda-nvrtc==13.*"
fi
MYOPS_NVRTC=$(nvrtc)
export MYOPS_NVRTC MYOPS_CUDA_CACHE=
for architecture in "$@"; do
  echo "sm_$architecture"
  FAKE_CUDA_ARCHITECTURE=$architecture "$program" compile
done
