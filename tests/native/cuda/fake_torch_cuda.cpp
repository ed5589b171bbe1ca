// A stand-in for the part of libtorch_cuda.so that the adapter for torch calls.
#include <cstdint>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {
int guards = 0, made = 0;
int stream = 0;
}  // namespace

// ---- Functions for tests.

FAKE int fake_guards() { return guards; }  // that exist
FAKE int fake_guards_made() { return made; }
FAKE void* fake_torch_stream() { return &stream; }

// ---- Functions that the adapter needs.

FAKE int32_t aoti_torch_get_current_cuda_stream(int32_t, void** out) {
  *out = &stream;
  return 0;
}
FAKE int32_t aoti_torch_create_cuda_guard(int32_t, void** guard) {
  ++guards, ++made;
  *guard = &guards;
  return 0;
}
FAKE int32_t aoti_torch_delete_cuda_guard(void*) {
  --guards;
  return 0;
}
