#!/bin/sh
# Compiles the CUDA sources of all ops with NVRTC, for each architecture and element type, as calls do
# it: make test-cuda-sources. No GPU is needed; NVRTC comes from the package index, into an environment
# of its own. What has not changed since an earlier run is taken from the cache that calls use too.
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
  if ! "$environment/bin/pip" install --quiet --constraint "$root/constraints.txt" nvidia-cuda-nvrtc; then
    echo "no NVRTC: nvidia-cuda-nvrtc cannot be downloaded, so the CUDA sources are not compiled" >&2
    exit 0
  fi
fi
MYOPS_NVRTC=$(nvrtc)
MYOPS_CUDA_CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/myops/cuda-sources
export MYOPS_NVRTC MYOPS_CUDA_CACHE
# Two at a time: a compilation uses one core. Then the kernels that take the place of others.
for disabled in '' deform_conv2d.cuda_tiles; do
  export MYOPS_DISABLE_KERNEL="$disabled"
  printf '%s\n' "$@" | xargs -P 2 -I @ sh -c 'FAKE_CUDA_ARCHITECTURE=@ "$0" compile' "$program"
done
