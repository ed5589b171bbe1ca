// For kernels on NVIDIA GPUs, given to Op::cuda(): source files of CUDA C++ inside this binary, and
// the launch of their kernels.
//
//   MYOPS_CUDA_FILE(my_op_source, "my_op/cuda/kernels.h")   // below a folder of include_dirs
//
//   void compute_cuda(KernelContext& context) {
//     const Tensor& x = context.input(0);                   // on the device: never read it here
//     cuda::Gpu gpu(context, {my_op_source}, x.dtype);
//     gpu.launch("my_kernel", x.elements(), Arguments{x.data, context.output(0).data});
//   }
//
// NVRTC compiles a source when it is first needed, for the GPU of the machine; the result is stored
// on disk. Nothing of CUDA is needed to build or to load this binary. docs/cuda.md describes it
// all; the source includes myops/device.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "myops/op.h"

namespace myops::cuda {

// A file that is part of this binary. `name`: its path in #include lines of other files.
struct File {
  const char* name;
  const char* begin;
  const char* end;
};

// The file that is compiled, and the files beside myops/device.h that it includes. All of them must
// exist as long as the process.
struct Source {
  File main;
  std::vector<File> headers = {};
};

// What a runtime provides to a call on a device. Implemented once per adapter.
class Device {
 public:
  virtual ~Device() = default;
  virtual int index() const = 0;     // CUDA's number of the device
  virtual void* stream() const = 0;  // the CUstream for all work of the call
  // Memory of the device, which exists until the call and the work that it has queued have ended.
  virtual void* scratch(size_t bytes) = 0;
  // Whether the runtime's user accepts products of float32 whose factors are rounded to TF32.
  virtual bool allow_tf32() const { return false; }
};

// Of the GPU that a call runs on.
struct Properties {
  int architecture;     // 90 for compute capability 9.0
  int multiprocessors;  // each runs one or several blocks at a time
};
Properties properties(const KernelContext& context);

// Whether products of tensors of this dtype should be computed on tensor cores
// (myops/tensor_cores.h): Half and BFloat16 if the GPU has them, float32 if TF32 is allowed, too.
bool on_tensor_cores(const KernelContext& context, DType dtype);

// For adapters: the op with its kernel for CUDA instead of that for the CPU, for invoke(). The
// object is never destroyed; every call with the same op returns the same one.
const Op& on_device(const Op& op);

class CurrentContext;  // cuda/driver.h

// The device of one call, with a source compiled for it.
class Gpu {
 public:
  // In the source, MYOPS_T is the C++ type of `dtype`, and MYOPS_A the type in which its elements
  // are summed (Accumulate). Throws if there is no driver, no compiler, or an error in the source.
  Gpu(const KernelContext& context, const Source& source, DType dtype);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  // Queues the kernel `name`, declared with MYOPS_KERNEL, with a thread for each number below
  // `count`. The arguments are copied. Does not wait.
  template <class Arguments>
  void launch(const char* name, int64_t count, const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments>, "arguments are copied to the device");
    static_assert(sizeof(Arguments) <= kMostArguments, "CUDA passes at most 4 KB to a kernel");
    if (count > 0) launch_with(name, count, 0, &arguments);
  }
  // The same for a kernel declared with MYOPS_BLOCK_KERNEL: a block for each number below `count`.
  // Arguments::kThreads is the number of threads that it was declared with.
  template <class Arguments>
  void launch_blocks(const char* name, int64_t count, const Arguments& arguments) {
    static_assert(std::is_trivially_copyable_v<Arguments>, "arguments are copied to the device");
    static_assert(sizeof(Arguments) <= kMostArguments, "CUDA passes at most 4 KB to a kernel");
    static_assert(Arguments::kThreads >= 1 && Arguments::kThreads <= 1024, "a block has as many");
    if (count > 0) launch_with(name, count, Arguments::kThreads, &arguments);
  }

  // Device memory for as many elements as the product of `counts`, until the call ends; not
  // initialised, counted in the memory budget of the call.
  template <class T, class... Counts>
  T* scratch(Counts... counts) {
    return static_cast<T*>(scratch_bytes(bytes_of<T>(counts...)));
  }
  // Queues an operation that sets all bytes to 0.
  template <class T>
  void fill_zero(T* memory, int64_t count) {
    zero_bytes(memory, bytes_of<T>(count));
  }
  // Queues a copy from the device to the device.
  void copy(const void* from, size_t bytes, void* to);

 private:
  static constexpr size_t kMostArguments = 4000;
  // `threads`: the number in each of `count` blocks; 0: `count` threads in blocks of a fixed size.
  void launch_with(const char* name, int64_t count, int64_t threads, const void* arguments);
  void* scratch_bytes(size_t bytes);
  void zero_bytes(void* memory, size_t bytes);

  const KernelContext& context_;
  Device& device_;
  std::unique_ptr<CurrentContext> current_;  // the driver's context of the device
  void* module_;
};

}  // namespace myops::cuda

// Puts the bytes of a file into this binary, as `variable`, a myops::cuda::File. `path` is a
// string, relative to one of the compiler's include folders; other files include the file by this
// path.
#define MYOPS_CUDA_FILE(variable, path)                                                  \
  extern "C" {                                                                           \
  extern __attribute__((visibility("hidden"))) const char variable##_begin[];            \
  extern __attribute__((visibility("hidden"))) const char variable##_end[];              \
  }                                                                                      \
  __asm__(".pushsection .rodata\n" #variable "_begin:\n.incbin \"" path "\"\n" #variable \
          "_end:\n.byte 0\n.popsection\n");                                              \
  static const ::myops::cuda::File variable{path, variable##_begin, variable##_end};
