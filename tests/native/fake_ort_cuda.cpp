// What the library asks a host with the execution provider of CUDA for. Its memory is that of the
// process, with garbage in it.
#include <cstdlib>
#include <cstring>

#include "fake_ort.h"
#include "fake_ort_table.h"

namespace fake_ort {
namespace {

bool cuda_is_there = false;

}  // namespace

void add_cuda_functions(Functions& f) {
  f.GetAvailableProviders = [](char*** out, int* count) -> Status* {
    *count = cuda_is_there ? 2 : 1;
    values += *count;
    *out = static_cast<char**>(std::malloc(2 * sizeof(char*)));
    (*out)[0] = strdup("CPUExecutionProvider");
    (*out)[1] = cuda_is_there ? strdup("CUDAExecutionProvider") : nullptr;
    return nullptr;
  };
  f.ReleaseAvailableProviders = [](char** names, int count) -> Status* {
    values -= count;
    for (int i = 0; i < count; ++i) std::free(names[i]);
    std::free(names);
    return nullptr;
  };
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
  f.ReleaseAllocator = [](Allocator* allocator) {
    --values;
    delete allocator;
  };
}

void provide_cuda() { cuda_is_there = true; }
void* cuda_stream() {
  static int stream = 0;
  return &stream;
}

}  // namespace fake_ort
