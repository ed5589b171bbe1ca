// Loads CUDA sources as modules of the driver, and queues their kernels.
#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tuple>

#include "compiler.h"
#include "driver.h"
#include "myops/cuda.h"

namespace myops::cuda {
namespace {

constexpr int64_t kThreads = 256;         // of a block
constexpr int64_t kMostBlocks = 1 << 20;  // a thread takes several elements beyond that

// A source compiled for one element type, in one context of the driver.
struct Loaded {
  std::atomic<Module> module{nullptr};
  std::mutex mutex;  // held while the module is loaded, and for `functions`
  std::map<std::string, Function, std::less<>> functions;
};

using Key = std::tuple<Context, const char*, DType>;

// Never destroyed: the driver may be gone before this library is.
std::map<Key, std::unique_ptr<Loaded>>& modules() {
  static auto* all = new std::map<Key, std::unique_ptr<Loaded>>;
  return *all;
}

const char* element_name(const std::string& op, DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return "Half";
    case DType::BFloat16:
      return "BFloat16";
    case DType::Float32:
      return "float32_t";
    case DType::Float64:
      return "float64_t";
    case DType::UInt8:
      return "uint8_t";
    case DType::Int8:
      return "int8_t";
    case DType::Int16:
      return "int16_t";
    case DType::UInt16:
      return "uint16_t";
    case DType::Int32:
      return "int32_t";
    case DType::UInt32:
      return "uint32_t";
    case DType::Int64:
      return "int64_t";
    case DType::UInt64:
      return "uint64_t";
    case DType::Float8E4M3FN:
      return "Float8E4M3FN";
    case DType::Float8E5M2:
      return "Float8E5M2";
    case DType::Bool:
      return "bool_t";
    default:
      break;
  }
  throw Error(str(op, ": CUDA: got dtype ", dtype_name(dtype),
                  ", expected one that device.h has a type for"));
}

Loaded& entry_of(const Key& key) {
  static std::mutex mutex;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<Loaded>& entry = modules()[key];
  if (!entry) entry = std::make_unique<Loaded>();
  return *entry;
}

// One thread compiles a source, others that need it wait. Calls of loaded kernels do not wait.
Loaded& load(const std::string& op, const Source& source, DType dtype, const Device& device,
             Context context) {
  Loaded& entry = entry_of({context, source.main.begin, dtype});
  if (entry.module.load() != nullptr) return entry;
  const Driver& loaded_driver = driver();
  const std::lock_guard<std::mutex> lock(entry.mutex);
  if (entry.module.load() != nullptr) return entry;
  if (is_captured(loaded_driver, op, static_cast<Stream>(device.stream()))) {
    throw Error(str(op, ": CUDA: got the first call for ", dtype_name(dtype),
                    " while a CUDA graph is captured, expected one before, which loads ",
                    source.main.name, ": call the op once with such tensors, then capture"));
  }
  const Request request{source, element_name(op, dtype),
                        properties(loaded_driver, op, device.index()).architecture};
  const std::string code = compiled(op, request, loaded_driver.version);
  const OutsideCaptures outside(loaded_driver, op);
  Module module = nullptr;
  check(loaded_driver, op, "loading ", loaded_driver.cuModuleLoadData(&module, code.data()),
        source.main.name);
  entry.module = module;
  return entry;
}

Function function_of(const std::string& op, Loaded& loaded, const char* name) {
  const std::lock_guard<std::mutex> lock(loaded.mutex);
  const auto known = loaded.functions.find(std::string_view(name));
  if (known != loaded.functions.end()) return known->second;
  const Driver& loaded_driver = driver();
  const OutsideCaptures outside(loaded_driver, op);
  Function function = nullptr;
  check(loaded_driver, op, "looking for kernel ",
        loaded_driver.cuModuleGetFunction(&function, loaded.module, name), name);
  return loaded.functions.emplace(name, function).first->second;
}

DevicePointer pointer(const void* memory) {
  return static_cast<DevicePointer>(reinterpret_cast<uintptr_t>(memory));
}

}  // namespace

const Op& on_device(const Op& op) {
  static std::mutex mutex;
  static auto* ops = new std::map<const Op*, std::unique_ptr<const Op>>;
  const std::lock_guard<std::mutex> lock(mutex);
  std::unique_ptr<const Op>& entry = (*ops)[&op];
  if (!entry) {
    Op made = op;
    made.compute = op.compute_cuda;
    entry = std::make_unique<const Op>(std::move(made));
  }
  return *entry;
}

Properties properties(const KernelContext& context) {
  const std::string& op = context.op_name();
  return properties(driver_for(op), op, context.cuda_device()->index());
}

bool on_tensor_cores(const KernelContext& context, DType dtype) {
  constexpr int kOldest = 80;
  const bool narrow = dtype == DType::Float16 || dtype == DType::BFloat16;
  if (!narrow && (dtype != DType::Float32 || !context.cuda_device()->allow_tf32())) return false;
  return properties(context).architecture >= kOldest;
}

Gpu::Gpu(const KernelContext& context, const Source& source, DType dtype)
    : context_(context), device_(*context.cuda_device()) {
  const std::string& op = context.op_name();
  current_ = std::make_unique<CurrentContext>(driver_for(op), op, device_.index());
  module_ = &load(op, source, dtype, device_, current_->get());
}

Gpu::~Gpu() = default;

void Gpu::launch_with(const char* name, int64_t count, int64_t threads, const void* arguments) {
  const std::string& op = context_.op_name();
  const Driver& loaded_driver = driver();
  const Function function = function_of(op, *static_cast<Loaded*>(module_), name);
  const int64_t wanted = threads == 0 ? (count - 1) / kThreads + 1 : count;
  const auto blocks = static_cast<unsigned>(std::min(wanted, kMostBlocks));
  const auto each = static_cast<unsigned>(threads == 0 ? std::min(count, kThreads) : threads);
  long long all = count;
  void* parameters[] = {const_cast<void*>(arguments), &all};
  check(loaded_driver, op, "launching kernel ",
        loaded_driver.cuLaunchKernel(function, blocks, 1, 1, each, 1, 1, 0,
                                     static_cast<Stream>(device_.stream()), parameters, nullptr),
        name);
}

void* Gpu::scratch_bytes(size_t bytes) {
  context_.take("scratch memory on the device", bytes);
  return device_.scratch(std::max<size_t>(bytes, 1));
}

void Gpu::zero_bytes(void* memory, size_t bytes) {
  if (bytes == 0) return;
  const Driver& loaded = driver();
  check(loaded, context_.op_name(), "cuMemsetD8Async",
        loaded.cuMemsetD8Async(pointer(memory), 0, bytes, static_cast<Stream>(device_.stream())));
}

void Gpu::copy(const void* from, size_t bytes, void* to) {
  if (bytes == 0) return;
  const Driver& loaded = driver();
  check(loaded, context_.op_name(), "cuMemcpyDtoDAsync",
        loaded.cuMemcpyDtoDAsync_v2(pointer(to), pointer(from), bytes,
                                    static_cast<Stream>(device_.stream())));
}

}  // namespace myops::cuda
