// The functions of a host with the execution provider of CUDA. Its memory is that of the process,
// filled with garbage.
#include <cstdlib>
#include <cstring>

#include "fake_ort.h"
#include "fake_ort_table.h"

namespace fake_ort {
namespace {

bool tf32 = true;  // as by default

}  // namespace

void add_cuda_functions(Functions& f) {
  f.MemoryInfoGetId = [](const MemoryInfo* memory, int* out) -> Status* {
    if (memory->device != DeviceType::Gpu) return refuse("no device");
    *out = 0;
    return nullptr;
  };
  f.KernelContext_GetGPUComputeStream = [](const ComputeContext* context, void** out) -> Status* {
    if (!context->node->on_cuda) return refuse("no stream");
    *out = cuda_stream();
    return nullptr;
  };
  f.KernelContext_GetScratchBuffer = [](const ComputeContext*, const MemoryInfo* memory,
                                        size_t bytes, void** out) -> Status* {
    if (memory->device != DeviceType::Gpu || bytes == 0) return refuse("no such memory");
    ++values;
    *out = std::malloc(bytes);
    std::memset(*out, 0xff, bytes);
    return nullptr;
  };
  f.KernelContext_GetAllocator = [](const ComputeContext*, const MemoryInfo*,
                                    Allocator** out) -> Status* {
    ++values;
    *out = new Allocator;
    return nullptr;
  };
  f.KernelContext_GetResource = [](const ComputeContext* context, int version, int resource,
                                   void** out) -> Status* {
    *out = nullptr;
    if (!context->node->on_cuda || version != 3 || resource != 10011) return refuse("no resource");
    std::memcpy(out, &tf32, sizeof tf32);
    return nullptr;
  };
  f.ReleaseAllocator = [](Allocator* allocator) {
    --values;
    delete allocator;
  };
}

void use_tf32(bool wanted) { tf32 = wanted; }
void* cuda_stream() {
  static int stream = 0;
  return &stream;
}

}  // namespace fake_ort
