#!/bin/sh
# Everything that needs an NVIDIA GPU: make test-cuda. Tests, the tools of compute-sanitizer over a
# short list of calls, and measurements, which go to docs/performance_cuda.md.
set -eu

python=${PYTHON:-python3}
if ! "$python" -c "import torch; raise SystemExit(not torch.cuda.is_available())"; then
  echo "no GPU that this PyTorch can use: the tests on CUDA are left out"
  exit 0
fi
# shellcheck disable=SC2086 # the flags are words
"$python" -m pytest ${PYTEST_FLAGS:-} tests/cuda

if command -v compute-sanitizer >/dev/null; then
  for tool in memcheck racecheck initcheck synccheck; do
    echo "compute-sanitizer: $tool"
    # torch's allocator gives memory away in parts of larger blocks, of which no tool sees the ends.
    PYTORCH_NO_CUDA_MEMORY_CACHING=1 \
      compute-sanitizer --tool "$tool" --error-exitcode 1 "$python" tests/cuda/short_calls.py
  done
else
  echo "no compute-sanitizer (it comes with CUDA's toolkit): its four tools are left out"
fi

"$python" -m benchmarks.on_gpu --markdown docs/performance_cuda.md
