#include "cuda_runtime.h"

#include <dlfcn.h>
#include <torch/csrc/stable/ops.h>

#include <type_traits>
#include <utility>

#include "scalar_types.h"
#include "services.h"

namespace myops::torch_adapter {
namespace {

// Whether torch.matmul of float32 uses TF32 on CUDA (torch.backends.cuda.matmul.fp32_precision and
// allow_tf32, torch.set_float32_matmul_precision): deform_conv2d is a matrix product. The stable
// interface has no function for this, so torch's own function is looked up by its name or, in older
// versions, by another one. Without either, products are computed in float32, which is exact.
bool matmul_uses_tf32() {
  constexpr int kCuda = 1, kMatmul = 3, kTf32 = 2;  // enumerators of ATen/Context.h
  struct Functions {
    void* (*context)();
    int (*precision)(const void* context, int backend, int op);
    bool (*allows)(const void* context);
  };
  static const Functions found = [] {
    Functions functions{};
    void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) return functions;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    find(functions.context, "_ZN2at13globalContextEv");
    find(functions.precision,
         "_ZNK2at7Context16float32PrecisionENS_14Float32BackendENS_9Float32OpE");
    find(functions.allows, "_ZNK2at7Context15allowTF32CuBLASEv");
    return functions;
  }();
  if (found.context == nullptr) return false;
  if (found.precision != nullptr) {
    return found.precision(found.context(), kCuda, kMatmul) == kTf32;
  }
  return found.allows != nullptr && found.allows(found.context());
}

}  // namespace

const TorchCuda& torch_cuda(const Op& op) {
  static const TorchCuda found = [] {
    void* library = dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_NOLOAD);
    TorchCuda functions{};
    if (library == nullptr) return functions;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::decay_t<decltype(function)>>(dlsym(library, name));
    };
    find(functions.get_current_stream, "aoti_torch_get_current_cuda_stream");
    find(functions.create_guard, "aoti_torch_create_cuda_guard");
    find(functions.delete_guard, "aoti_torch_delete_cuda_guard");
    return functions;
  }();
  if (found.get_current_stream == nullptr || found.create_guard == nullptr ||
      found.delete_guard == nullptr) {
    throw Error(str(op.name,
                    ": CUDA: got a PyTorch without CUDA, expected a build of PyTorch 2.10 or later "
                    "with libtorch_cuda.so"));
  }
  return found;
}

DeviceGuard::DeviceGuard(const TorchCuda& functions, int32_t index) : functions_(functions) {
  TORCH_ERROR_CODE_CHECK(functions.create_guard(index, &handle_));
}

CudaRuntime::CudaRuntime(const Op& op, int32_t index, bool has_out)
    : op_(op), index_(index), has_out_(has_out) {
  TORCH_ERROR_CODE_CHECK(torch_cuda(op).get_current_stream(index, &stream_));
}

CudaRuntime::~CudaRuntime() {
  for (const auto& tensors : {&outputs_, &scratch_}) {
    for (AtenTensorHandle tensor : *tensors) {
      if (tensor != nullptr) (void)aoti_torch_delete_tensor_object(tensor);
    }
  }
}

Tensor CudaRuntime::allocate_strided(size_t output, DType dtype, const Shape& shape,
                                     const Shape& strides) {
  if (has_out_) return accept(dtype, shape, strides);
  if (output >= outputs_.size()) outputs_.resize(output + 1, nullptr);
  outputs_[output] = new_tensor(dtype, shape, strides);
  return Tensor(data_of(outputs_[output]), dtype, shape, strides);
}

void CudaRuntime::run(int64_t, Task, void*) {
  throw Error(str(op_.name,
                  ": parallel_for: got a call on a CUDA device, expected none: it runs "
                  "on the CPU"));
}

void* CudaRuntime::scratch(size_t bytes) {
  scratch_.push_back(nullptr);
  scratch_.back() = new_tensor(DType::UInt8, {static_cast<int64_t>(bytes)}, {1});
  return data_of(scratch_.back());
}

bool CudaRuntime::allow_tf32() const { return matmul_uses_tf32(); }

AtenTensorHandle CudaRuntime::take(size_t output) {
  return std::exchange(outputs_[output], nullptr);
}

// Programs that try again with a smaller batch look for the text "CUDA out of memory."
AtenTensorHandle CudaRuntime::new_tensor(DType dtype, const Shape& shape,
                                         const Shape& strides) const {
  AtenTensorHandle tensor = nullptr;
  if (aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(), strides.data(),
                               dtype_code(dtype), aoti_torch_device_type_cuda(), index_,
                               &tensor) != 0) {
    throw Error(str(op_.name, ": CUDA: got no memory from torch for ", dtype_name(dtype),
                    " of shape ", shape, " on cuda:", index_, ", expected ",
                    byte_count(shape, dtype),
                    " bytes: CUDA out of memory. What torch's allocator "
                    "says is on the standard error"));
  }
  return tensor;
}

}  // namespace myops::torch_adapter
