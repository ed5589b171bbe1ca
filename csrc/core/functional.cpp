#include "functional.h"

#include <cstring>
#include <utility>

namespace myops {
namespace {

// Copies element by element, for any strides of both tensors.
void copy_elements(const Tensor& from, const Tensor& to) {
  const size_t size = dtype_size(from.dtype);
  const int64_t count = from.elements();
  if (from.strides == to.strides && from.is(Layout::Contiguous)) {
    if (count > 0) std::memcpy(to.data, from.data, static_cast<size_t>(count) * size);
    return;
  }
  Shape index(from.shape.size());
  for (int64_t i = 0; i < count; ++i) {
    int64_t source = 0, target = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) {
      source += index[axis] * from.strides[axis];
      target += index[axis] * to.strides[axis];
    }
    std::memcpy(to.as<char>() + target * static_cast<int64_t>(size),
                from.as<char>() + source * static_cast<int64_t>(size), size);
    for (size_t axis = index.size(); axis-- > 0;) {
      if (++index[axis] < from.shape[axis]) break;
      index[axis] = 0;
    }
  }
}

size_t written_count(const Op& op) {
  return static_cast<size_t>(std::count_if(op.inputs.begin(), op.inputs.end(),
                                           [](const Input& input) { return input.is_written; }));
}

}  // namespace

void replace_written(const Op& op, TensorPointers& inputs, Tensors& outputs, Tensors& copies) {
  const Op& in_place = *op.in_place;
  const size_t written = written_count(in_place);
  copies.assign(outputs.begin(), outputs.begin() + static_cast<std::ptrdiff_t>(written));
  size_t next = 0;
  for (size_t i = 0; i < in_place.inputs.size(); ++i) {
    if (!in_place.inputs[i].is_written) continue;
    copy_elements(*inputs[i], copies[next]);
    inputs[i] = &copies[next++];
  }
  outputs = Tensors(outputs.begin() + static_cast<std::ptrdiff_t>(written), outputs.end());
}

Op functional_of(const Op& op) {
  if (op.name.empty() || op.name.back() != '_' || !op.writes()) {
    throw Error(str(op.name,
                    ": functional_of: got an op of this name, expected one with an input that "
                    "is .written(), and a name that ends in \"_\""));
  }
  Op result = op;
  result.name.pop_back();
  result.summary = op.summary;
  result.in_place = std::make_shared<const Op>(op);
  std::vector<Output> outputs;
  std::vector<size_t> written;
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    if (!op.inputs[i].is_written) continue;
    const Input& input = op.inputs[i];
    outputs.push_back({input.name + "_out", input.type, "What the op writes into " + input.name});
    result.inputs[i].is_written = false;
    written.push_back(i);
  }
  outputs.insert(outputs.end(), op.outputs.begin(), op.outputs.end());
  result.outputs = std::move(outputs);
  result.shape_text.clear();
  auto called = std::make_shared<Op>(op);  // its refusals name the op that was called
  called->name = result.name;
  result.shape_rule = [in_place = std::shared_ptr<const Op>(std::move(called)),
                       written](ShapeContext& context) {
    ShapeContext inner(*in_place, context.attributes());
    inner.inputs_ = context.inputs_;
    inner.dtypes_ = context.dtypes_;
    inner.values_ = context.values_;
    inner.outputs_.resize(in_place->outputs.size());
    in_place->shape_rule(inner);
    for (size_t i = 0; i < written.size(); ++i) context.set_output(i, context.dims(written[i]));
    for (size_t i = 0; i < inner.outputs_.size(); ++i) {
      if (inner.output(i)) context.set_output(written.size() + i, *inner.output(i));
    }
  };
  return result;
}

}  // namespace myops
