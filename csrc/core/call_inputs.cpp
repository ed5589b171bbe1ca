#include "call_inputs.h"

#include <cstring>

namespace myops {
namespace {

constexpr int64_t kMaxValues = 4096;  // a list of scales or sizes has one entry per axis

// Copies the numbers of a strided list into contiguous memory.
void copy_numbers(const Tensor& list, size_t count, size_t size, void* to) {
  const int64_t step = count > 1 ? list.strides[0] : 1;
  if (step == 1) {
    std::memcpy(to, list.data, count * size);
    return;
  }
  const auto* from = list.as<const char>();
  for (size_t i = 0; i < count; ++i, from += step * static_cast<int64_t>(size)) {
    std::memcpy(static_cast<char*>(to) + i * size, from, size);
  }
}

}  // namespace

CallInputs::CallInputs(const Op& op, const Tensors& given, Budget& budget) {
  tensors_.reserve(given.size());
  for (const Tensor& tensor : given) tensors_.push_back(&tensor);
  for (size_t i = 0; i < given.size(); ++i) {
    // An input that is not a list stays as it is: infer() refuses it with shape inference's text.
    if (op.declared(i).has_values && given[i].present && given[i].rank() <= 1) copy(op, i, budget);
  }
  if (!given.empty() && !given[0].present) tell_dtype(op, given);
}

void CallInputs::tell_dtype(const Op& op, const Tensors& given) {
  for (size_t i = 1; i < given.size(); ++i) {
    if (!given[i].present || op.declared(i).type != op.inputs[0].type) continue;
    first_.emplace(given[0]).dtype = given[i].dtype;
    tensors_[0] = &*first_;
    return;
  }
}

void CallInputs::copy(const Op& op, size_t input, Budget& budget) {
  const Tensor& given = *tensors_[input];
  const int64_t count = given.elements();
  if (count > kMaxValues) {
    fail(op.name, op.inputs[input].name, str(count, " numbers"),
         str("a list of at most ", kMaxValues));
  }
  const size_t size = dtype_size(given.dtype), bytes = static_cast<size_t>(count) * size;
  Tensor* list = nullptr;
  void* memory = nullptr;
  if (lists_used_ < lists_.size() && bytes <= memory_.size() - memory_used_) {
    list = &lists_[lists_used_++].emplace();
    memory = memory_.data() + memory_used_;
    memory_used_ += (bytes + 7) / 8 * 8;
  } else {
    budget.take(op.name, op.inputs[input].name, "a copy of its numbers", bytes);
    Larger& larger = more_.emplace_back();
    larger.memory.reset(new unsigned char[bytes]);
    list = &larger.list;
    memory = larger.memory.get();
  }
  list->data = memory;
  list->dtype = given.dtype;
  list->shape = given.shape;
  list->strides.resize(given.shape.size(), 1);
  list->present = true;
  if (count > 0) copy_numbers(given, static_cast<size_t>(count), size, memory);
  tensors_[input] = list;
}

}  // namespace myops
