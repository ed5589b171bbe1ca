// Calls on several devices and streams, and what the kernels for CUDA learn of them; ops and calls
// that are refused.
#include <functional>

#include "../checking.h"
#include "cuda_tests.h"
#include "on_device.h"

using namespace fake_cuda;

namespace {

// Features that a kernel on a device lacks are refused when the library is loaded, or in a call.
void test_unsupported_ops_and_calls_are_refused() {
  const auto refusal = [](const std::function<void(Op&)>& change) {
    Op op = *find_op("noise_probe");
    change(op);
    try {
      check_description(op);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  expect(refusal([](Op&) {}).empty(), "a description that is right");
  expect(refusal([](Op& op) {
           op.onnx_type.clear();
           op.inputs[0].is_written = true;
         }) ==
             "noise_probe: cuda: got a kernel for CUDA in an op that writes into its inputs, "
             "expected none: describe an op with outputs alone",
         "an op that writes");
  expect(refusal([](Op& op) { op.types[0].dtypes.push_back(DType::String); }) ==
             "noise_probe: x: got dtype string in an op with a kernel for CUDA, expected none: a "
             "device has no strings",
         "an op of strings");
  Op decided = *find_op("list_probe");
  decided.shape_rule = [](ShapeContext& context) {
    context.set_output(0, {Dim::at_most(context.dims(0)[0], "K")});
    context.set_output(1, context.dims(0));
  };
  Random random(1);
  Case made("list_probe");
  made.add_numbers(random, DType::Float32, {4});
  expect(refusal_of(decided, made.inputs, made.attributes) ==
             "list_probe: CUDA: got a length that the kernel decides, expected lengths that the "
             "shape rule knows: the CPU would have to wait for the device. Call the op on the CPU",
         "a length that the kernel decides");
}

// Each device has a context and modules of its own; the current context is restored after a call.
void test_several_devices() {
  const auto get = control<int(void**)>("cuCtxGetCurrent");
  const auto set = control<int(void*)>("cuCtxSetCurrent");
  const auto retain = control<int(void**, int)>("cuDevicePrimaryCtxRetain");
  Random random(3);
  const std::unique_ptr<Case> made = random_deform(random, 1);
  void *first = nullptr, *found = nullptr;
  retain(&first, 0);
  for (void* before : {static_cast<void*>(nullptr), first}) {
    for (const int device : {1, 0, 2}) {
      set(before);
      DeviceRuntime runtime;
      runtime.device = device;
      run_on_device(*made, runtime, 0);
      expect(control<int()>("fake_device_of_last_launch")() == device, "the device of the call");
      get(&found);
      expect(found == before, "the context that was current");
    }
  }
  const auto retained = control<int()>("fake_contexts_retained");
  const int before = retained();
  for (int call = 0; call < 3; ++call) {
    set(nullptr);
    DeviceRuntime runtime;
    run_on_device(*made, runtime, 0);
  }
  expect(retained() == before, "a context is retained once");
}

void test_properties() {
  static cuda::Properties found;
  static Op op = *find_op("my_add");
  op.compute_cuda = [](KernelContext& context) { found = cuda::properties(context); };
  Random random(1);
  Case made("my_add");
  for (int i = 0; i < 2; ++i) made.add_numbers(random, DType::Float32, {4});
  for (const auto& [device, architecture] : {std::pair(0, 90), std::pair(3, 75)}) {
    DeviceRuntime runtime;
    runtime.device = device;
    invoke(cuda::on_device(op), made.inputs, made.attributes, runtime);
    expect(found.architecture == architecture, "the architecture");
    expect(found.multiprocessors == (device == 3 ? 2 : 132), "multiprocessors");
  }
}

void test_stream() {
  Random random(3);
  const std::unique_ptr<Case> made = random_deform(random, 1);
  DeviceRuntime runtime;
  run_on_device(*made, runtime, 0);
  expect(control<void*()>("fake_last_stream")() == runtime.stream(), "the stream of the call");
}

}  // namespace

void test_devices() {
  test_unsupported_ops_and_calls_are_refused();
  test_several_devices();
  test_properties();
  test_stream();
}
