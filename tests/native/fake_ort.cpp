#include "fake_ort.h"

#include <algorithm>

#include "fake_ort_types.h"

extern "C" myops::ort::Status* RegisterCustomOps(myops::ort::SessionOptions*,
                                                 const myops::ort::ApiBase*);

namespace fake_ort {
namespace {

using namespace myops::ort;

constexpr ApiBase kBase{table, [] { return "1.32.0"; }};
constexpr ApiBase kOlderBase{table, [] { return "1.23.2"; }};

// ONNX Runtime takes the op whose types are those of the node.
const CustomOp* choose(const SessionOptions& options, const Node& node) {
  for (const CustomOpDomain* domain : options.domains) {
    for (const CustomOp* op : domain->ops) {
      const size_t count = op->get_input_count(op);
      const bool list =
          count > 0 && op->get_input_characteristic(op, count - 1) == Characteristic::Variadic;
      bool fits = op->get_name(op) == node.type && (list || node.inputs.size() <= count);
      const char* provider = op->get_execution_provider(op);
      fits = fits &&
             (provider != nullptr ? std::string(provider) == "CUDAExecutionProvider" && node.on_cuda
                                  : !node.on_cuda);
      for (size_t i = 0; fits && i < std::max(count, node.inputs.size()); ++i) {
        const size_t declared = std::min(i, count - 1);
        const bool given = i < node.inputs.size() && node.inputs[i];
        fits = given ? op->get_input_type(op, declared) == node.inputs[i]->value.type
                     : op->get_input_characteristic(op, declared) == Characteristic::Optional;
      }
      if (fits) return op;
    }
  }
  return nullptr;
}

}  // namespace

Session::Session(std::initializer_list<Node> nodes, Release release) {
  SessionOptions options;
  const ApiBase* base = release == Release::Older ? &kOlderBase : &kBase;
  refusal_ = text_of(RegisterCustomOps(&options, base));
  for (const auto step : {&Session::infer, &Session::create_kernel}) {
    for (const Node& node : nodes) {
      if (!refusal_.empty()) return;
      op_ = choose(options, node);
      if (op_ == nullptr) {
        refusal_ = "no op of this name and these types";
        return;
      }
      (this->*step)(node);
    }
  }
}

void Session::infer(const Node& node) {
  ShapeInferContext inference{&node, {}, {}, {}};
  inference.outputs.resize(op_->get_output_count(op_));
  for (const std::optional<Input>& input : node.inputs) {
    inference.inputs.push_back(
        std::make_unique<TypeAndShape>(input ? input->declared : TypeAndShape{}));
  }
  if (op_->infer_output_shape != nullptr) {
    refusal_ = text_of(op_->infer_output_shape(op_, &inference));
    if (!inference.fault.empty()) refusal_ = inference.fault;
  }
  inferred_ = std::move(inference.outputs);
}

void Session::create_kernel(const Node& node) {
  if (kernel_ != nullptr) op_->destroy_kernel(kernel_);
  kernel_ = nullptr;
  const KernelInfo info{&node};
  refusal_ = text_of(op_->create_kernel_v2(op_, table(kApiVersion), &info, &kernel_));
}

Session::~Session() {
  if (kernel_ != nullptr) op_->destroy_kernel(kernel_);
}

std::vector<int> Session::overwritten() const {
  if (op_->version < kOverwritingVersion) return {};
  int* inputs = nullptr;
  int* outputs = nullptr;
  const size_t count = op_->get_may_inplace(&inputs, &outputs);
  std::vector<int> found;
  for (size_t i = 0; i < count; ++i) {
    if (outputs[i] == 0) found.push_back(inputs[i]);
  }
  op_->release_may_inplace(inputs, outputs);
  return found;
}

Session::Result Session::run(const Node& node, Order order, uint8_t fill,
                             const std::function<void()>& meanwhile) const {
  // Inputs are where the op wants them.
  Node placed = node;
  for (size_t i = 0; node.on_cuda && i < placed.inputs.size(); ++i) {
    if (!placed.inputs[i]) continue;
    placed.inputs[i]->value.on_device = op_->get_input_memory(op_, i) == MemoryType::Default;
  }
  ComputeContext context{&placed, op_, order, fill, {}, meanwhile};
  Result result;
  result.refusal = text_of(op_->compute_v2(kernel_, &context));
  for (std::unique_ptr<Value>& value : context.outputs) {
    result.outputs.push_back(value ? std::move(*value) : Value());  // none where memory ran out
  }
  return result;
}

}  // namespace fake_ort
