// The kernel of one node: its attributes, read once, and the conversion between ONNX Runtime's
// tensors and invoke(). A session may run it from several threads at once.
#include <memory>

#include "../../core/checks.h"
#include "../../core/report.h"
#include "../../core/shape_cache.h"
#include "cuda.h"
#include "status.h"
#include "strings.h"
#include "typed_op.h"
#include "values.h"

namespace myops::ort {
namespace {

struct Kernel {
  const TypedOp& typed;
  const Op& op;  // the version that the node means
  const Attributes attributes;
  const std::unique_ptr<const Strings> strings;  // those among the constants
  const Tensors constants;                       // constant inputs; others are not `present`
  const Prepared prepared;                       // from the constants
  const std::string node;                        // its name, for reports of calls
  mutable ShapeCache last;                       // any thread may use it
};

const MemoryInfo* memory_of(const Api& api, const Value* value) {
  const MemoryInfo* memory = nullptr;
  check(api, api.GetTensorMemoryInfo(value, &memory));
  return memory;
}

// Memory of a GPU that the CPU can read (pinned memory) counts as the CPU's.
void check_on_cpu(const Op& op, const Api& api, size_t input, const Value* value) {
  const MemoryInfo* memory = memory_of(api, value);
  DeviceType device;
  api.MemoryInfoGetDeviceType(memory, &device);
  if (device == DeviceType::Cpu) return;
  MemoryType type;
  check(api, api.MemoryInfoGetMemType(memory, &type));
  if (type == MemoryType::Default) {
    fail(op.name, op.input_name(input), "a tensor on another device", "a tensor on the CPU");
  }
}

void* data_of(const Api& api, const Value* value) {
  void* data = nullptr;  // the C API has one accessor for both; inputs are only read
  check(api, api.GetTensorMutableData(const_cast<Value*>(value), &data));
  return data;
}

Tensor view(const Op& op, const Api& api, size_t input, const Value* value, Strings& strings,
            Budget& budget) {
  check_on_cpu(op, api, input, value);
  const auto [dtype, shape] = describe(api, value);
  if (dtype != DType::String) return Tensor(data_of(api, value), dtype, shape);
  const int64_t count = element_count(shape);
  return Tensor(strings.read(op, op.input_name(input), api, value, count, budget), dtype, shape);
}

Tensors views(const Kernel& kernel, const ComputeContext* context, Strings& strings,
              Budget& budget) {
  const Op& op = kernel.op;
  const Api& api = *kernel.typed.api;
  size_t count = 0;
  check(api, api.KernelContext_GetInputCount(context, &count));
  // Constants are described already; describing an input takes 0.3 us.
  Tensors inputs = kernel.constants;
  for (size_t i = 0; i < inputs.size() && i < count; ++i) {
    const Value* value = nullptr;
    check(api, api.KernelContext_GetInput(context, i, &value));
    if (inputs[i].present && value != nullptr) {
      if (inputs[i].dtype != DType::String) inputs[i].data = data_of(api, value);
    } else {
      inputs[i] = value == nullptr ? Tensor() : view(op, api, i, value, strings, budget);
    }
  }
  return inputs;
}

class OrtRuntime : public Runtime {
 public:
  OrtRuntime(const Kernel& kernel, ComputeContext* context)
      : typed_(kernel.typed),
        op_(kernel.op),
        api_(*typed_.api),
        node_(kernel.node),
        context_(context) {}

  const char* name() const override { return "onnxruntime"; }
  std::string node() const override { return node_; }
  cuda::Device* cuda_device() override { return device; }

  Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout) override {
    if (dtype != typed_.outputs[output]) {
      fail(op_.name, op_.outputs[output].name, str("dtype ", dtype_name(dtype)),
           str(dtype_name(typed_.outputs[output]), ", which the model was loaded with"));
    }
    if (!typed_.op->outputs[output].condition.empty() && !has_output(output)) return Tensor();
    Value* value = nullptr;
    check(api_, api_.KernelContext_GetOutput(context_, output, shape.data(), shape.size(), &value));
    if (value == nullptr) return Tensor();  // the node leaves it out
    Tensor tensor(nullptr, dtype, shape);
    if (dtype == DType::String) {
      tensor.data = strings.make(value, tensor.elements());
    } else {
      check(api_, api_.GetTensorMutableData(value, &tensor.data));
    }
    return tensor;
  }

  // A node that has the output anyway gets an empty tensor, as a caller of torch.ops does.
  void leave_out(size_t output, DType dtype) override {
    (void)allocate(output, dtype, {0}, Layout::Contiguous);
  }

  void run(int64_t count, Task task, void* argument) override {
    struct Call {
      Task task;
      void* argument;
    } call{task, argument};
    const auto forward = [](void* erased, size_t index) {
      const Call& call = *static_cast<const Call*>(erased);
      call.task(call.argument, static_cast<int64_t>(index));
    };
    // 0 batches: each index is a task of its own that any thread of the session's pool may take.
    check(api_,
          api_.KernelContext_ParallelFor(context_, forward, static_cast<size_t>(count), 0, &call));
  }

  Strings strings;                 // of this call
  cuda::Device* device = nullptr;  // of a call there

 private:
  bool has_output(size_t output) const {
    size_t count = 0;
    check(api_, api_.KernelContext_GetOutputCount(context_, &count));
    return output < count;
  }

  const TypedOp& typed_;
  const Op& op_;
  const Api& api_;
  const std::string& node_;
  ComputeContext* context_;
};

Tensors read_constants(const Op& op, const Api& api, const KernelInfo* info, Strings& strings) {
  size_t count = 0;
  check(api, api.KernelInfo_GetInputCount(info, &count));
  Tensors constants(op.is_variadic() ? count : op.inputs.size());
  for (size_t i = 0; i < constants.size() && i < count; ++i) {
    int is_constant = 0;
    const Value* value = nullptr;
    check(api, api.KernelInfoGetConstantInput_tensor(info, i, &is_constant, &value));
    if (is_constant != 0 && value != nullptr) {
      Budget budget;
      constants[i] = view(op, api, i, value, strings, budget);
    }
  }
  return constants;
}

std::string node_name(const Api& api, const KernelInfo* info) {
  size_t size = 0;
  if (!succeeded(api, api.KernelInfo_GetNodeName(info, nullptr, &size)) || size == 0) return {};
  std::string name(size, '\0');
  check(api, api.KernelInfo_GetNodeName(info, name.data(), &size));
  name.resize(size - 1);  // without the zero at its end
  return name;
}

}  // namespace

Status* create_kernel(const CustomOp* self, const Table*, const KernelInfo* info,
                      void** kernel) noexcept {
  const TypedOp& typed = TypedOp::of(self);
  return guard(*typed.api, [&] {
    (void)max_bytes();  // an invalid setting is refused when a model is loaded
    (void)calls_are_reported();
    const Op& op = typed.of_version(read_version(typed, info));
    Attributes attributes = read_attributes(op, *typed.api, info);
    auto strings = std::make_unique<Strings>();
    // A constant may be on the device, where nothing here can read it.
    Tensors constants =
        typed.on_cuda ? Tensors(op.inputs.size()) : read_constants(op, *typed.api, info, *strings);
    Prepared prepared = typed.on_cuda ? nullptr : prepare(op, constants, attributes);
    *kernel = new Kernel{typed,
                         op,
                         std::move(attributes),
                         std::move(strings),
                         std::move(constants),
                         std::move(prepared),
                         node_name(*typed.api, info),
                         {}};
  });
}

void destroy_kernel(void* kernel) noexcept { delete static_cast<Kernel*>(kernel); }

Status* compute(void* kernel, ComputeContext* context) noexcept {
  const Kernel& self = *static_cast<const Kernel*>(kernel);
  const TypedOp& typed = self.typed;
  return guard(*typed.api, [&] {
    OrtRuntime runtime(self, context);
    const Tensors inputs = views(self, context, runtime.strings, runtime.budget());
    invoke(self.op, inputs, self.attributes, runtime, self.prepared.get(), &self.last);
    runtime.strings.write(*typed.api);
  });
}

// The same where the provider of CUDA runs the node: tensors are on its device, except those that
// are read before the kernel runs.
Status* compute_on_cuda(void* kernel, ComputeContext* context) noexcept {
  const Kernel& self = *static_cast<const Kernel*>(kernel);
  const Api& api = *self.typed.api;
  return guard(api, [&] {
    OrtRuntime runtime(self, context);
    const MemoryInfo* memory = nullptr;
    size_t count = 0;
    check(api, api.KernelContext_GetInputCount(context, &count));
    Tensors inputs(self.op.is_variadic() ? count : self.op.inputs.size());
    for (size_t i = 0; i < inputs.size() && i < count; ++i) {
      const Value* value = nullptr;
      check(api, api.KernelContext_GetInput(context, i, &value));
      if (value == nullptr) continue;
      if (is_read_early(self.op, i)) {
        inputs[i] = view(self.op, api, i, value, runtime.strings, runtime.budget());
        continue;
      }
      const auto [dtype, shape] = describe(api, value);
      inputs[i] = Tensor(data_of(api, value), dtype, shape);
      DeviceType device;
      api.MemoryInfoGetDeviceType(memory_of(api, value), &device);
      if (device != DeviceType::Gpu) {
        fail(self.op.name, self.op.input_name(i), "a tensor on the CPU", "one on the CUDA device");
      }
      memory = memory_of(api, value);
    }
    if (memory == nullptr) {
      fail(self.op.name, "inputs", "none on the CUDA device", "at least one there");
    }
    CudaDevice device(api, context, memory);
    runtime.device = &device;
    invoke(cuda::on_device(self.op), inputs, self.attributes, runtime, nullptr, &self.last);
  });
}

}  // namespace myops::ort
