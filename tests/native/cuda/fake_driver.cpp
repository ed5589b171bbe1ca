// A stand-in for libcuda.so.1: memory of the device is that of the process, and kernels are the
// same text compiled for the CPU, run thread by thread when they are launched. Blocks, and the
// threads of a block between two barriers, run in an order that the test chooses: a missing barrier
// shows as a result that depends on this order. The memory that a
// block shares is a heap block of exactly its size, with garbage in it. With code from a real NVRTC
// (an ELF file) it checks that the kernels exist, and runs none.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "myops/dtype.h"

namespace {

using myops::BFloat16;
using myops::Half;

// A kernel for one element type.
struct Kernel {
  void (*run)(const void* arguments, int64_t i) = nullptr;  // thread, or block, i
  int threads = 0;                                          // of a block; 0: any number
};

// By name of the kernel, then of the element type.
std::map<std::string, std::map<std::string, Kernel>>& kernels() {
  static std::map<std::string, std::map<std::string, Kernel>> all;
  return all;
}

template <class T>
const char* element_name() {
  switch (myops::dtype_of<T>) {
    case myops::DType::Float16:
      return "Half";
    case myops::DType::BFloat16:
      return "BFloat16";
    case myops::DType::Float32:
      return "float32_t";
    case myops::DType::Float64:
      return "float64_t";
    case myops::DType::UInt8:
      return "uint8_t";
    case myops::DType::Int8:
      return "int8_t";
    case myops::DType::Int32:
      return "int32_t";
    default:
      return "int64_t";
  }
}

template <template <class> class Run, class... Ts>
bool add(const char* name, int threads) {
  ((kernels()[name][element_name<Ts>()] = Kernel{Run<Ts>::run, threads}), ...);
  return true;
}

int order = 0;  // of threads and blocks: 0 forward, 1 backward, otherwise mixed
uint64_t random_state = 1;

uint64_t random_below(uint64_t count) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (random_state >> 33) % count;
}

void shuffle(int* threads, int count) {
  if (order == 1) std::reverse(threads, threads + count);
  if (order < 2) return;
  for (int i = count; i-- > 1;) {
    std::swap(threads[i], threads[random_below(static_cast<uint64_t>(i) + 1)]);
  }
}

template <class Shared>
struct SharedMemory {
  SharedMemory() : bytes(new unsigned char[sizeof(Shared)]) {
    std::memset(bytes.get(), 0xff, sizeof(Shared));
  }
  Shared& get() { return *reinterpret_cast<Shared*>(bytes.get()); }
  std::unique_ptr<unsigned char[]> bytes;
};

}  // namespace

#define MYOPS_KERNEL(name, Arguments, body)                                                        \
  template <class T>                                                                               \
  struct Run_##name {                                                                              \
    static void run(const void* arguments, int64_t i) {                                            \
      ::myops::body<T, ::myops::Accumulate<T>>(*static_cast<const ::myops::Arguments*>(arguments), \
                                               i);                                                 \
    }                                                                                              \
  };                                                                                               \
  static const bool added_##name = add<Run_##name, MYOPS_FAKE_TYPES>(#name, 0);

#define MYOPS_BLOCK_KERNEL(name, Arguments, Shared, body)                               \
  template <class T>                                                                    \
  struct Run_##name {                                                                   \
    static void run(const void* arguments, int64_t i) {                                 \
      using A = ::myops::Accumulate<T>;                                                 \
      SharedMemory<::myops::Shared<A>> shared;                                          \
      static_assert(sizeof(::myops::Shared<A>) <= 48 << 10, "as on a device");          \
      ::myops::Block<::myops::Arguments::kThreads> block;                               \
      block.shuffle = shuffle;                                                          \
      ::myops::body<T, A>(*static_cast<const ::myops::Arguments*>(arguments), block, i, \
                          shared.get());                                                \
    }                                                                                   \
  };                                                                                    \
  static const bool added_##name =                                                      \
      add<Run_##name, MYOPS_FAKE_TYPES>(#name, ::myops::Arguments::kThreads);

#define MYOPS_FAKE_TYPES Half, BFloat16, float, double, int32_t, int64_t
#include "my_add/cuda/kernels.h"
#undef MYOPS_FAKE_TYPES
#define MYOPS_FAKE_TYPES Half, BFloat16, float, double, uint8_t
#include "resize/cuda/any_taps.h"
#include "resize/cuda/copy.h"
#include "resize/cuda/four_or_more_taps.h"
#include "resize/cuda/four_taps.h"
#include "resize/cuda/make_tables.h"
#include "resize/cuda/one_or_more_taps.h"
#include "resize/cuda/two_or_more_taps.h"
#include "resize/cuda/two_taps.h"
#include "resize/cuda/wide.h"
#undef MYOPS_FAKE_TYPES
#define MYOPS_FAKE_TYPES Half, BFloat16, float, double
#include "deform_conv2d/cuda/few_outputs.h"
#include "deform_conv2d/cuda/forward.h"
#include "deform_conv2d/cuda/gradients.h"
#include "deform_conv2d/cuda/packing.h"
#include "deform_conv2d/cuda/tile_gradients.h"
#include "deform_conv2d/cuda/transposed.h"
#include "deform_conv2d/cuda/weights.h"
// After the files that also have kernels of other variants.
#include "deform_conv2d/cuda/forward_narrow.h"
#undef MYOPS_FAKE_TYPES
#define MYOPS_FAKE_TYPES Half, BFloat16, float
#include "deform_conv2d/cuda/forward_tensor.h"
#include "deform_conv2d/cuda/transposed_tensor.h"
#include "deform_conv2d/cuda/weights_tensor.h"
#undef MYOPS_FAKE_TYPES
#define MYOPS_FAKE_TYPES uint8_t, int8_t
#include "deform_conv2d_int8/cuda/kernels.h"
#undef MYOPS_FAKE_TYPES
#define MYOPS_FAKE_TYPES float
#include "probe/kernels.h"

namespace {

int setting(const char* name, int fallback) {
  const char* value = std::getenv(name);
  return value != nullptr ? std::atoi(value) : fallback;
}

struct FakeModule {
  std::string element;
  std::string elf;  // of a real NVRTC; otherwise empty
  bool real() const { return !elf.empty(); }
};
struct FakeFunction {
  Kernel kernel;  // without run: of a real NVRTC
};

// The size of an ELF file, if it is complete.
size_t elf_size(const char* image) {
  uint64_t sections = 0;
  uint16_t size = 0, count = 0;
  std::memcpy(&sections, image + 40, 8);
  std::memcpy(&size, image + 58, 2);
  std::memcpy(&count, image + 60, 2);
  return sections + uint64_t{size} * count;
}

int contexts[4];  // the primary context of each device
thread_local void* current = nullptr;
int launches = 0;
void* last_stream = nullptr;
int last_device = -1;
int capturing = 0;                  // 1: the streams of calls; 2: a stream of another thread
thread_local int capture_mode = 0;  // 0: global; 2: relaxed
int contexts_retained = 0;

// Whether a call that is not allowed during a capture fails, and ends the capture.
bool breaks_a_capture() { return capturing != 0 && capture_mode != 2; }

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

// ---- Functions for tests.

FAKE void fake_order(int wanted) {
  order = wanted;
  random_state = static_cast<uint64_t>(wanted) + 1;
}
FAKE int fake_device_of_last_launch() { return last_device; }
FAKE void fake_capture(int wanted) { capturing = wanted; }
FAKE int fake_capture_mode() { return capture_mode; }
FAKE int fake_contexts_retained() { return contexts_retained; }
FAKE int fake_launches() { return launches; }
FAKE void* fake_last_stream() { return last_stream; }

// ---- Functions that the loader needs.

FAKE int cuInit(unsigned) { return setting("FAKE_CUDA_INIT", 0); }
FAKE int cuDriverGetVersion(int* version) {
  *version = setting("FAKE_CUDA_VERSION", 13000);
  return 0;
}
FAKE int cuGetErrorName(int error, const char** text) {
  *text = error == 100 ? "CUDA_ERROR_NO_DEVICE" : "CUDA_ERROR_OTHER";
  return 0;
}
FAKE int cuGetErrorString(int, const char** text) {
  *text = "a fault that the test wants";
  return 0;
}
FAKE int cuDeviceGet(int* device, int index) {
  *device = index;
  return 0;
}
FAKE int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int architecture = device == 3 ? 75 : setting("FAKE_CUDA_ARCHITECTURE", 90);
  const int multiprocessors = device == 3 ? 2 : 132;
  *value = attribute == 16   ? multiprocessors
           : attribute == 75 ? architecture / 10
                             : architecture % 10;
  return 0;
}
FAKE int cuCtxGetCurrent(void** context) {
  *context = current;
  return 0;
}
FAKE int cuCtxGetDevice(int* device) {
  if (current == nullptr) return 201;
  *device = static_cast<int>(static_cast<int*>(current) - contexts);
  return 0;
}
FAKE int cuCtxSetCurrent(void* context) {
  current = context;
  return 0;
}
FAKE int cuDevicePrimaryCtxRetain(void** context, int device) {
  ++contexts_retained;
  *context = &contexts[device];
  return 0;
}
FAKE int cuStreamIsCapturing(void*, int* status) {
  *status = capturing == 1;
  return 0;
}
FAKE int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return 0;
}
FAKE int cuModuleLoadData(void** module, const void* image) {
  if (current == nullptr) return 201;
  if (breaks_a_capture()) return 900;
  const char* text = static_cast<const char*>(image);
  auto* made = new FakeModule;  // never freed: modules live as long as the process
  if (std::memcmp(text, "\177ELF", 4) == 0) {
    made->elf.assign(text, elf_size(text));
  } else if (std::strncmp(text, "fake ", 5) == 0) {
    made->element = text + 5;
  } else {
    delete made;
    return 200;
  }
  static auto* all = new std::vector<FakeModule*>;
  all->push_back(made);
  *module = made;
  return 0;
}
FAKE int cuModuleGetFunction(void** function, void* module, const char* name) {
  if (breaks_a_capture()) return 900;
  const auto& from = *static_cast<const FakeModule*>(module);
  Kernel made;
  if (from.real()) {
    const std::string section = std::string(".text.") + name + '\0';
    if (from.elf.find(section) == std::string::npos) return 500;
  } else {
    const auto kernel = kernels().find(name);
    if (kernel == kernels().end()) return 500;
    const auto typed = kernel->second.find(from.element);
    if (typed == kernel->second.end()) return 500;
    made = typed->second;
  }
  static auto* all = new std::vector<FakeFunction*>;
  all->push_back(new FakeFunction{made});
  *function = all->back();
  return 0;
}
FAKE int cuLaunchKernel(void* function, unsigned grid, unsigned grid_y, unsigned grid_z,
                        unsigned block, unsigned block_y, unsigned block_z, unsigned shared,
                        void* stream, void** parameters, void** extra) {
  const bool one_axis = grid_y == 1 && grid_z == 1 && block_y == 1 && block_z == 1;
  if (!one_axis || shared != 0 || extra != nullptr || grid == 0 || block == 0) return 1;
  if (grid > 0x7fffffffu || block > 1024) return 1;
  if (current == nullptr) return 201;
  if (const int fault = setting("FAKE_CUDA_LAUNCH", 0)) return fault;
  ++launches;
  last_stream = stream;
  last_device = static_cast<int>(static_cast<int*>(current) - contexts);
  const Kernel& kernel = static_cast<const FakeFunction*>(function)->kernel;
  if (kernel.run == nullptr) return 0;
  if (kernel.threads != 0 && static_cast<unsigned>(kernel.threads) != block) return 1;
  const int64_t count = *static_cast<const long long*>(parameters[1]);
  const int64_t step = kernel.threads != 0 ? int64_t{grid} : int64_t{grid} * block;
  // As on a device, arguments are copied when the kernel is queued.
  for (int64_t thread = 0; thread < step; ++thread) {
    // 7919 is a prime: every one once, unless it divides their number.
    const int64_t mixed = step % 7919 != 0 ? thread * 7919 % step : thread;
    const int64_t first = order == 0 ? thread : order == 1 ? step - 1 - thread : mixed;
    for (int64_t i = first; i < count; i += step) kernel.run(parameters[0], i);
  }
  return 0;
}
FAKE int cuMemsetD8Async(unsigned long long memory, unsigned char value, size_t bytes,
                         void* stream) {
  last_stream = stream;
  std::memset(reinterpret_cast<void*>(memory), value, bytes);
  return 0;
}
FAKE int cuMemcpyDtoDAsync_v2(unsigned long long to, unsigned long long from, size_t bytes,
                              void* stream) {
  last_stream = stream;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
  return 0;
}
