// Calls on the device of the stand-in for the driver.
#pragma once

#include <dlfcn.h>

#include <string>
#include <vector>

#include "cases.h"

namespace fake_cuda {

// A function of the stand-in for the driver.
template <class F>
F* control(const char* name) {
  void* library = dlopen(FAKE_DRIVER, RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<F*>(dlsym(library, name));
}

inline std::vector<Tensor> run_on_device(const Case& made, DeviceRuntime& runtime, int order) {
  control<void(int)>("fake_order")(order);
  invoke(cuda::on_device(*made.op), made.inputs, made.attributes, runtime);
  return runtime.outputs;
}

// The message with which a call is refused; empty if it is not.
inline std::string refusal_of(const Op& op, const Tensors& inputs, const Attributes& attributes) {
  DeviceRuntime runtime;
  try {
    invoke(cuda::on_device(op), inputs, attributes, runtime);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace fake_cuda
