#include "last_answer.h"

#include <cstring>

namespace myops {
namespace {

constexpr int64_t kMaxNumbers = 64;  // longer lists are not worth remembering

bool decides(const Op& op, const Tensors& inputs, size_t index) {
  return op.inputs[index].has_values && inputs[index].present;
}

bool can_be_kept(const Op& op, const Tensors& inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!decides(op, inputs, i)) continue;
    if (inputs[i].elements() > kMaxNumbers || !inputs[i].is(Layout::Contiguous)) return false;
  }
  return true;
}

}  // namespace

bool LastAnswer::is(const Op& op, const Tensors& inputs, const Attributes& attributes) const {
  if (!known_ || inputs.size() != inputs_.size()) return false;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Tensor& now = inputs[i];
    const Asked& then = inputs_[i];
    if (now.present != then.present) return false;
    if (!now.present) continue;
    if (now.dtype != then.dtype || now.shape != then.shape) return false;
    if (!decides(op, inputs, i) || then.numbers.empty()) continue;
    if (!now.is(Layout::Contiguous)) return false;
    if (std::memcmp(now.data, then.numbers.data(), then.numbers.size()) != 0) return false;
  }
  return attributes.values() == attributes_;
}

bool LastAnswer::recall(const Op& op, const Tensors& inputs, const Attributes& attributes,
                        OutputDescriptions& outputs) {
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock || !is(op, inputs, attributes)) return false;
  outputs = outputs_;
  return true;
}

void LastAnswer::keep(const Op& op, const Tensors& inputs, const Attributes& attributes,
                      const OutputDescriptions& outputs) {
  if (!can_be_kept(op, inputs)) return;
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock) return;
  known_ = false;  // should memory run out on the way
  inputs_.clear();
  for (size_t i = 0; i < inputs.size(); ++i) {
    Asked& asked = inputs_.emplace_back();
    if (!inputs[i].present) continue;
    asked.present = true;
    asked.dtype = inputs[i].dtype;
    asked.shape = inputs[i].shape;
    if (!decides(op, inputs, i)) continue;
    const auto* bytes = inputs[i].as<const unsigned char>();
    asked.numbers.assign(bytes, bytes + byte_count(inputs[i].shape, inputs[i].dtype));
  }
  attributes_ = attributes.values();
  outputs_ = outputs;
  known_ = true;
}

}  // namespace myops
