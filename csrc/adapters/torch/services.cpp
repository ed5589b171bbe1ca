#include "services.h"

#include <torch/csrc/stable/macros.h>
#include <torch/csrc/stable/ops.h>

#include <new>

#include "../../core/huge_pages.h"
#include "../../core/report.h"
#include "scalar_types.h"

namespace myops::torch_adapter {
AtenTensorHandle new_tensor(DType dtype, const Shape& shape, const Shape& strides) {
  const size_t bytes = byte_count(shape, dtype);
  AtenTensorHandle tensor = nullptr;
  const AOTITorchError failed =
      aoti_torch_empty_strided(static_cast<int64_t>(shape.size()), shape.data(), strides.data(),
                               dtype_code(dtype), aoti_torch_device_type_cpu(), 0, &tensor);
  if (failed != AOTI_TORCH_SUCCESS) throw std::bad_alloc();
  ask_for_huge_pages(data_of(tensor), bytes);
  return tensor;
}

void* data_of(AtenTensorHandle tensor) {
  void* data = nullptr;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_data_ptr(tensor, &data));
  return data;
}

void run_tasks(int64_t count, Runtime::Task task, void* argument) {
  torch::stable::parallel_for(0, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) task(argument, i);
  });
}

}  // namespace myops::torch_adapter

// The same as plain C functions, for calls from Python that do not go through the dispatcher (see
// adapters/fast_call/fast_call.h).
#define MYOPS_VISIBLE extern "C" __attribute__((visibility("default")))

MYOPS_VISIBLE void myops_run_tasks(int64_t count, myops::Runtime::Task task, void* argument) {
  myops::torch_adapter::run_tasks(count, task, argument);
}

// The tensor's handle, or null if torch cannot allocate it.
MYOPS_VISIBLE void* myops_new_tensor(myops::DType dtype, const myops::Shape& shape,
                                     const myops::Shape& strides, void** data) {
  try {
    const AtenTensorHandle tensor = myops::torch_adapter::new_tensor(dtype, shape, strides);
    *data = myops::torch_adapter::data_of(tensor);
    return tensor;
  } catch (const std::exception&) {
    return nullptr;
  }
}

MYOPS_VISIBLE void myops_delete_tensor(void* tensor) {
  (void)aoti_torch_delete_tensor_object(static_cast<AtenTensorHandle>(tensor));
}

// For myops.explain(): with 1, records the calls of this library from now on; with 0, ends that and
// returns what was recorded, which stays until the next call.
MYOPS_VISIBLE const char* myops_record_calls(int begin) {
  static std::string lines;
  if (begin != 0) {
    myops::record_calls();
  } else {
    lines = myops::recorded_calls();
  }
  return lines.c_str();
}

MYOPS_VISIBLE bool myops_grad_enabled() { return aoti_torch_grad_mode_is_enabled(); }
