// The functions of the table, by what ONNX Runtime does in each.
#include "fake_ort_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace fake_ort {

using namespace myops::ort;

size_t element_size(ElementType type) {
  switch (type) {
    case ElementType::UInt8:
    case ElementType::Int8:
    case ElementType::Bool:
    case ElementType::Float8E4M3FN:
    case ElementType::Float8E5M2:
      return 1;
    case ElementType::Float16:
    case ElementType::BFloat16:
    case ElementType::Int16:
    case ElementType::UInt16:
      return 2;
    case ElementType::Float32:
    case ElementType::Int32:
    case ElementType::UInt32:
      return 4;
    case ElementType::Float64:
    case ElementType::Int64:
    case ElementType::UInt64:
    case ElementType::Complex64:
      return 8;
    case ElementType::Complex128:
      return 16;
    case ElementType::String:  // whose memory the library does not see
    case ElementType::Undefined:
      break;
  }
  return 0;
}

std::atomic<int> statuses{0};
std::atomic<int> values{0};

Status* refuse(const std::string& text, ErrorCode code) {
  ++statuses;
  return new Status{code, text};
}

namespace {

void run_tasks(const ComputeContext* context, void (*task)(void*, size_t), size_t count,
               void* argument) {
  if (context->order == Order::Forward) {
    for (size_t i = 0; i < count; ++i) task(argument, i);
  } else if (context->order == Order::Backward) {
    for (size_t i = count; i-- > 0;) task(argument, i);
  } else {
    constexpr size_t kThreads = 3;
    std::vector<std::thread> threads;
    for (size_t first = 0; first < kThreads; ++first) {
      threads.emplace_back([=] {
        for (size_t i = first; i < count; i += kThreads) task(argument, i);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

Status* make_output(ComputeContext* context, size_t index, const int64_t* dims, size_t count,
                    Value** out) {
  if (context->meanwhile) context->meanwhile();
  if (index >= context->outputs.size()) context->outputs.resize(index + 1);
  auto value = std::make_unique<Value>();
  value->type = context->op->get_output_type(context->op, index);
  value->dims.assign(dims, dims + count);
  value->on_device = context->node->on_cuda;
  const auto elements = static_cast<size_t>(myops::element_count(value->dims));
  value->bytes.assign(elements * element_size(value->type), context->fill);
  if (value->type == ElementType::String) value->texts.resize(elements);
  context->outputs[index] = std::move(value);
  *out = context->outputs[index].get();
  return nullptr;
}

#define FAKE_ORT_PLACE(name, place, result, ...) \
  places[place] = reinterpret_cast<void (*)()>(functions.name);

Functions make_functions() {
  Functions f;
  f.CreateStatus = [](ErrorCode code, const char* text) { return refuse(text, code); };
  f.GetErrorCode = [](const Status* status) { return status->code; };
  f.GetErrorMessage = [](const Status* status) { return status->text.c_str(); };
  f.ReleaseStatus = [](Status* status) {
    --statuses;
    delete status;
  };
  f.CreateCustomOpDomain = [](const char*, CustomOpDomain** out) -> Status* {
    *out = new CustomOpDomain;
    return nullptr;
  };
  f.CustomOpDomain_Add = [](CustomOpDomain* domain, const CustomOp* op) -> Status* {
    domain->ops.push_back(op);
    return nullptr;
  };
  f.AddCustomOpDomain = [](SessionOptions* options, CustomOpDomain* domain) -> Status* {
    options->domains.push_back(domain);
    return nullptr;
  };
  f.ReleaseCustomOpDomain = [](CustomOpDomain* domain) { delete domain; };

  f.GetStringTensorDataLength = [](const Value* value, size_t* bytes) -> Status* {
    *bytes = 0;
    for (const std::string& text : value->texts) *bytes += text.size();
    return nullptr;
  };
  f.GetStringTensorContent = [](const Value* value, void* characters, size_t bytes, size_t* begins,
                                size_t count) -> Status* {
    size_t at = 0;
    if (count != value->texts.size()) return refuse("another number of strings");
    for (size_t i = 0; i < count; ++i) {
      const std::string& text = value->texts[i];
      begins[i] = at;
      if (text.size() > bytes - at) return refuse("too small");
      std::memcpy(static_cast<char*>(characters) + at, text.data(), text.size());
      at += text.size();
    }
    return nullptr;
  };
  f.GetResizedStringTensorElementBuffer = [](Value* value, size_t index, size_t bytes,
                                             char** out) -> Status* {
    if (index >= value->texts.size()) return refuse("out of range");
    value->texts[index].resize(bytes);
    *out = value->texts[index].data();
    return nullptr;
  };
  f.GetTensorMutableData = [](Value* value, void** out) -> Status* {
    *out = value->bytes.data();
    return nullptr;
  };
  f.GetTensorTypeAndShape = [](const Value* value, TypeAndShape** out) -> Status* {
    *out = new TypeAndShape{value->type, value->dims, {}};
    return nullptr;
  };
  f.GetTensorMemoryInfo = [](const Value* value, const MemoryInfo** out) -> Status* {
    static const MemoryInfo cpu{DeviceType::Cpu}, gpu{DeviceType::Gpu};
    *out = value->on_device ? &gpu : &cpu;
    return nullptr;
  };
  f.MemoryInfoGetMemType = [](const MemoryInfo*, MemoryType* out) -> Status* {
    *out = MemoryType::Default;
    return nullptr;
  };
  f.MemoryInfoGetDeviceType = [](const MemoryInfo* memory, DeviceType* out) {
    *out = memory->device;
  };

  f.CreateTensorTypeAndShapeInfo = [](TypeAndShape** out) -> Status* {
    *out = new TypeAndShape;
    return nullptr;
  };
  f.SetTensorElementType = [](TypeAndShape* info, ElementType type) -> Status* {
    info->type = type;
    return nullptr;
  };
  f.SetDimensions = [](TypeAndShape* info, const int64_t* dims, size_t count) -> Status* {
    info->dims.assign(dims, dims + count);
    return nullptr;
  };
  f.SetSymbolicDimensions = [](TypeAndShape* info, const char** names, size_t count) -> Status* {
    info->symbols.assign(names, names + count);
    return nullptr;
  };
  f.GetTensorElementType = [](const TypeAndShape* info, ElementType* out) -> Status* {
    *out = info->type;
    return nullptr;
  };
  f.GetDimensionsCount = [](const TypeAndShape* info, size_t* out) -> Status* {
    *out = info->dims.size();
    return nullptr;
  };
  f.GetDimensions = [](const TypeAndShape* info, int64_t* out, size_t count) -> Status* {
    std::copy_n(info->dims.begin(), count, out);
    return nullptr;
  };
  f.GetSymbolicDimensions = [](const TypeAndShape* info, const char** out,
                               size_t count) -> Status* {
    for (size_t i = 0; i < count; ++i) {
      out[i] = i < info->symbols.size() ? info->symbols[i].c_str() : "";
    }
    return nullptr;
  };
  f.ReleaseTensorTypeAndShapeInfo = [](TypeAndShape* info) { delete info; };

  f.GetAllocatorWithDefaultOptions = [](Allocator** out) -> Status* {
    static Allocator allocator;
    *out = &allocator;
    return nullptr;
  };
  f.AllocatorFree = [](Allocator*, void* memory) -> Status* {
    --values;
    std::free(memory);
    return nullptr;
  };
  f.ReleaseValue = [](Value* value) {
    --values;
    delete value;
  };
  f.KernelInfo_GetInputCount = [](const KernelInfo* info, size_t* out) -> Status* {
    *out = info->node->inputs.size();
    return nullptr;
  };
  f.KernelInfo_GetNodeName = [](const KernelInfo* info, char* out, size_t* size) -> Status* {
    const std::string name = "a node of " + info->node->type;
    if (out != nullptr && *size < name.size() + 1) return refuse("too small");
    if (out != nullptr) std::memcpy(out, name.c_str(), name.size() + 1);
    *size = name.size() + 1;
    return nullptr;
  };
  f.KernelInfoGetConstantInput_tensor = [](const KernelInfo* info, size_t index, int* is_constant,
                                           const Value** out) -> Status* {
    const std::optional<Input>& input = info->node->inputs[index];
    *is_constant = input && input->is_constant;
    *out = *is_constant ? &input->value : nullptr;
    return nullptr;
  };

  f.KernelContext_GetInputCount = [](const ComputeContext* context, size_t* out) -> Status* {
    *out = context->node->inputs.size();
    return nullptr;
  };
  f.KernelContext_GetInput = [](const ComputeContext* context, size_t index,
                                const Value** out) -> Status* {
    const std::optional<Input>& input = context->node->inputs[index];
    *out = input ? &input->value : nullptr;
    return nullptr;
  };
  f.KernelContext_GetOutputCount = [](const ComputeContext* context, size_t* out) -> Status* {
    *out = context->op->get_output_count(context->op);
    return nullptr;
  };
  f.KernelContext_GetOutput = make_output;
  f.KernelContext_ParallelFor = [](const ComputeContext* context, void (*task)(void*, size_t),
                                   size_t count, size_t, void* argument) -> Status* {
    run_tasks(context, task, count, argument);
    return nullptr;
  };

  f.ShapeInferContext_GetInputCount = [](const ShapeInferContext* context, size_t* out) -> Status* {
    *out = context->inputs.size();
    return nullptr;
  };
  f.ShapeInferContext_GetInputTypeShape = [](const ShapeInferContext* context, size_t index,
                                             TypeAndShape** out) -> Status* {
    *out = context->inputs[index].get();
    return nullptr;
  };
  f.ShapeInferContext_SetOutputTypeShape = [](const ShapeInferContext* context, size_t index,
                                              const TypeAndShape* info) -> Status* {
    auto& inference = const_cast<ShapeInferContext&>(*context);
    const std::vector<size_t>& left_out = context->node->left_out;
    if (std::find(left_out.begin(), left_out.end(), index) != left_out.end()) {
      inference.fault = "a shape for output " + std::to_string(index) + ", which is left out";
    }
    inference.outputs[index] = *info;
    return nullptr;
  };
  f.GetTensorElementTypeAndShapeDataReference = [](const Value* value, ElementType* type,
                                                   const int64_t** dims, size_t* rank) -> Status* {
    *type = value->type;
    *dims = value->dims.empty() ? nullptr : value->dims.data();
    *rank = value->dims.size();
    return nullptr;
  };
  add_attribute_functions(f);
  add_cuda_functions(f);
  return f;
}

}  // namespace

const Table* table(uint32_t version) {
  // The older table ends as that of its version does: AddressSanitizer detects a read beyond its
  // end.
  static const Functions functions = make_functions();
  static const auto older = [] {
    std::array<void (*)(), 275> places{};
    MYOPS_ORT_CALLS(FAKE_ORT_PLACE)
    return places;
  }();
  static const auto newer = [] {
    std::array<void (*)(), 418> places{};
    MYOPS_ORT_CALLS(FAKE_ORT_PLACE)
    MYOPS_ORT_NEWER_CALLS(FAKE_ORT_PLACE)
    MYOPS_ORT_GPU_CALLS(FAKE_ORT_PLACE)
    MYOPS_ORT_NEWEST_CALLS(FAKE_ORT_PLACE)
    return places;
  }();
  const auto* places = version < kNewerApiVersion ? older.data() : newer.data();
  return reinterpret_cast<const Table*>(places);
}

std::string text_of(Status* status) {
  if (status == nullptr) return "";
  const std::string text = status->text.empty() ? "an empty message" : status->text;
  --statuses;
  delete status;
  return text;
}

int live_statuses() { return statuses; }
int live_values() { return values; }

}  // namespace fake_ort
