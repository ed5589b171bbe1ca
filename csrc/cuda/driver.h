// The driver of NVIDIA GPUs, loaded when the first call needs it: nothing here is linked.
#pragma once

#include <cstddef>
#include <string>

#include "myops/cuda.h"

namespace myops::cuda {

// Types of CUDA's driver interface; handles are opaque pointers.
using Result = int;  // 0: success
using Context = struct ContextOpaque*;
using Module = struct ModuleOpaque*;
using Function = struct FunctionOpaque*;
using Stream = struct StreamOpaque*;
using DevicePointer = unsigned long long;

enum class DeviceAttribute : int { Multiprocessors = 16, ComputeMajor = 75, ComputeMinor = 76 };

// call(name, parameters...): the functions that are used, all of them in every driver since
// CUDA 11.
// clang-format off
#define MYOPS_CUDA_DRIVER_CALLS(call)                                                             \
  call(cuInit, unsigned flags)                                                                    \
  call(cuDriverGetVersion, int* version)                                                          \
  call(cuGetErrorName, Result, const char** text)                                                 \
  call(cuGetErrorString, Result, const char** text)                                               \
  call(cuDeviceGet, int* device, int index)                                                       \
  call(cuDeviceGetAttribute, int* value, DeviceAttribute, int device)                             \
  call(cuCtxGetCurrent, Context*)                                                                 \
  call(cuCtxGetDevice, int* device)                                                               \
  call(cuCtxSetCurrent, Context)                                                                  \
  call(cuDevicePrimaryCtxRetain, Context*, int device)                                            \
  call(cuModuleLoadData, Module*, const void* image)                                              \
  call(cuModuleGetFunction, Function*, Module, const char* name)                                  \
  call(cuLaunchKernel, Function, unsigned grid_x, unsigned grid_y, unsigned grid_z,               \
       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes, Stream,       \
       void** parameters, void** extra)                                                           \
  call(cuStreamIsCapturing, Stream, int* status)                                                  \
  call(cuThreadExchangeStreamCaptureMode, int* mode)                                              \
  call(cuMemsetD8Async, DevicePointer, unsigned char value, size_t bytes, Stream)                 \
  call(cuMemcpyDtoDAsync_v2, DevicePointer to, DevicePointer from, size_t bytes, Stream)
// clang-format on

struct Driver {
#define MYOPS_CUDA_MEMBER(name, ...) Result (*name)(__VA_ARGS__) = nullptr;
  MYOPS_CUDA_DRIVER_CALLS(MYOPS_CUDA_MEMBER)
#undef MYOPS_CUDA_MEMBER
  int version = 0;      // 12040: the driver has what CUDA 12.4 has
  std::string failure;  // why there is none; empty: there is one
};

// Loads libcuda.so.1, or what MYOPS_CUDA_DRIVER names, at the first call.
const Driver& driver();

// Throws "op: CUDA: got ..., expected ..." unless the driver could be loaded.
const Driver& driver_for(const std::string& op);

[[noreturn]] void refuse(const Driver& driver, const std::string& op, const char* tried,
                         const char* name, Result result);

// Throws, with what was tried ("launching kernel ") and the name of what it was tried with, if a
// call of the driver has failed.
inline void check(const Driver& driver, const std::string& op, const char* tried, Result result,
                  const char* name = "") {
  if (result != 0) refuse(driver, op, tried, name, result);
}

// While this object exists, a context of the device is current in this thread: the context that was
// current before, if it belongs to the device, or else the device's primary context, which PyTorch
// and ONNX Runtime use.
class CurrentContext {
 public:
  CurrentContext(const Driver& driver, const std::string& op, int index);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

  Context get() const { return current_; }

 private:
  const Driver& driver_;
  Context previous_ = nullptr, current_ = nullptr;
};

// While this exists, this thread may call functions that are forbidden during a capture, such as
// loading a module, without breaking the capture of a CUDA graph by another thread.
class OutsideCaptures {
 public:
  OutsideCaptures(const Driver& driver, const std::string& op);
  ~OutsideCaptures();
  OutsideCaptures(const OutsideCaptures&) = delete;
  OutsideCaptures& operator=(const OutsideCaptures&) = delete;

 private:
  const Driver& driver_;
  int mode_ = 2;  // relaxed; afterwards the previous mode
};

// Whether the stream is being captured: its work then becomes part of a CUDA graph instead of
// running.
bool is_captured(const Driver& driver, const std::string& op, Stream stream);

// What the driver says about a device, asked once.
const Properties& properties(const Driver& driver, const std::string& op, int index);

}  // namespace myops::cuda
