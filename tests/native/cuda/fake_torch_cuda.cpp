// A stand-in for the part of libtorch_cuda.so that the adapter for torch calls.
#include <cstdint>

#define FAKE extern "C" __attribute__((visibility("default")))

namespace {

struct Guard {
  int32_t before;
};

int guards = 0, made = 0;
int streams[4];  // of each device
thread_local int32_t current = 0;

}  // namespace

// ---- Functions for tests.

FAKE int fake_guards() { return guards; }  // that exist
FAKE int fake_guards_made() { return made; }
FAKE void* fake_torch_stream(int32_t device) { return &streams[device]; }
FAKE int32_t fake_current_device() { return current; }

// ---- Functions that the adapter needs.

FAKE int32_t aoti_torch_get_current_cuda_stream(int32_t device, void** out) {
  *out = &streams[device];
  return 0;
}
FAKE int32_t aoti_torch_create_cuda_guard(int32_t device, void** guard) {
  ++guards, ++made;
  *guard = new Guard{current};
  current = device;
  return 0;
}
FAKE int32_t aoti_torch_delete_cuda_guard(void* guard) {
  --guards;
  current = static_cast<Guard*>(guard)->before;
  delete static_cast<Guard*>(guard);
  return 0;
}
