// The fuzz target, for libFuzzer or driver.cpp. The bytes become a call of any op; it goes through
// the ONNX Runtime library as a session would (fake_ort.h), and through invoke() with tensors whose
// memory is not in order, as torch and NumPy pass them.
//
// Beside the sanitizers' findings these are failures: a result that depends on the order in which
// the pieces of work run, on what the output's memory held before, or on the strides of an input;
// an output that is not of the shape that was inferred; a message that is empty or endless; a
// status that nobody releases.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "calls.h"

namespace {

using namespace myops;
using fuzz::Argument;
using fuzz::Bytes;
using fuzz::Call;

void expect(bool condition, const Call& call, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "FAILED: %s: %s\n", call.op->name.c_str(), what);
  std::abort();
}

void expect_message(const Call& call, const std::string& text) {
  expect(!text.empty() && text.size() < 4000, call, "a message of a reasonable length");
}

// ---- Through the library.

constexpr ort::ElementType kElementTypes[kDTypeCount] = {
    ort::ElementType::Float16, ort::ElementType::BFloat16, ort::ElementType::Float32,
    ort::ElementType::Float64, ort::ElementType::UInt8,    ort::ElementType::Int32,
    ort::ElementType::Int64};

// What the model says about an input: lengths, names, nothing.
ort::TypeAndShape declare(Bytes& bytes, const Argument& argument) {
  ort::TypeAndShape declared{kElementTypes[static_cast<int>(argument.dtype)],
                             {argument.shape.begin(), argument.shape.end()},
                             {}};
  if (bytes.one_in(8)) declared.dims.clear();  // unknown rank
  declared.symbols.resize(declared.dims.size());
  for (size_t axis = 0; axis < declared.dims.size(); ++axis) {
    const size_t kind = bytes.below(8);
    if (kind < 6) continue;
    declared.dims[axis] = -1;
    if (kind == 6) declared.symbols[axis] = std::string(1, static_cast<char>('a' + axis));
  }
  return declared;
}

void expect_inferred(const Call& call, const std::optional<ort::TypeAndShape>& inferred,
                     const ort::Value& output) {
  if (!inferred) return;
  expect(inferred->type == output.type, call, "the inferred type");
  bool fits = inferred->dims.size() == output.dims.size();
  for (size_t axis = 0; fits && axis < output.dims.size(); ++axis) {
    fits = inferred->dims[axis] < 0 || inferred->dims[axis] == output.dims[axis];
  }
  expect(fits, call, "the inferred shape");
}

void through_the_library(Bytes& bytes, const Call& call) {
  fake_ort::Node node{call.op->onnx_type, {call.attributes.begin(), call.attributes.end()}, {}};
  for (const std::optional<Argument>& argument : call.inputs) {
    if (!argument) {
      node.inputs.push_back(std::nullopt);
      continue;
    }
    fake_ort::Input input;
    input.declared = declare(bytes, *argument);
    input.value = {
        input.declared.type, {argument->shape.begin(), argument->shape.end()}, argument->bytes};
    input.is_constant = bytes.one_in(4);
    node.inputs.push_back(std::move(input));
  }
  while (!node.inputs.empty() && !node.inputs.back()) node.inputs.pop_back();
  {
    const fake_ort::Session session(node);
    if (!session.refusal().empty()) {
      expect_message(call, session.refusal());
    } else {
      const auto forward = session.run(node, fake_ort::Order::Forward, 0xa5);
      const auto backward = session.run(node, fake_ort::Order::Backward, 0x5a);
      expect(forward.refusal == backward.refusal, call, "the same refusal again");
      if (!forward.refusal.empty()) {
        expect_message(call, forward.refusal);
      } else {
        for (size_t i = 0; i < forward.outputs.size(); ++i) {
          expect(forward.outputs[i].bytes == backward.outputs[i].bytes, call,
                 "equal bits in any order, every element written");
          expect_inferred(call, session.inferred()[i], forward.outputs[i]);
        }
      }
    }
  }
  expect(fake_ort::live_statuses() == 0, call, "every status released");
}

// ---- Through invoke().

class Direct final : public Runtime {
 public:
  Direct(bool reversed, uint8_t fill) : reversed_(reversed), fill_(fill) {}

  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    memory.emplace_back(static_cast<size_t>(element_count(shape)) * dtype_size(dtype), fill_);
    outputs.emplace_back(memory.back().data(), dtype, shape, layout);
    return outputs.back();
  }

  void run(int64_t count, Task task, void* argument) override {
    for (int64_t i = 0; i < count; ++i) task(argument, reversed_ ? count - 1 - i : i);
  }

  std::vector<std::vector<uint8_t>> memory;
  Tensors outputs;

 private:
  bool reversed_;
  uint8_t fill_;
};

// Calls body(offset in elements, index in row-major order) for every element.
template <class Body>
void walk(const Tensor& tensor, const Body& body) {
  const int64_t count = tensor.elements();
  for (int64_t index = 0; index < count; ++index) {
    int64_t rest = index, at = 0;
    for (size_t axis = tensor.shape.size(); axis-- > 0; rest /= tensor.shape[axis]) {
      at += rest % tensor.shape[axis] * tensor.strides[axis];
    }
    body(at, index);
  }
}

// Memory that holds exactly the elements that the strides reach, from the lowest to the highest.
struct Spread {
  std::vector<uint8_t> bytes;
  Tensor tensor;

  Spread(const Argument& argument, const Shape& strides) {
    const size_t width = dtype_size(argument.dtype);
    int64_t low = 0, high = element_count(argument.shape) > 0 ? 0 : -1;
    for (size_t axis = 0; high >= 0 && axis < strides.size(); ++axis) {
      const int64_t reach = (argument.shape[axis] - 1) * strides[axis];
      (reach < 0 ? low : high) += reach;
    }
    bytes.resize(static_cast<size_t>(high - low + 1) * width);
    uint8_t* first = bytes.data() - low * static_cast<int64_t>(width);
    tensor = Tensor(first, argument.dtype, argument.shape, strides);
    walk(tensor, [&](int64_t at, int64_t index) {
      std::memcpy(first + at * static_cast<int64_t>(width),
                  argument.bytes.data() + static_cast<size_t>(index) * width, width);
    });
  }
};

Shape any_strides(Bytes& bytes, const Shape& shape, Access access) {
  const Shape rows = strides_for(shape, Layout::Contiguous);
  const bool pictures = shape.size() == 4 || shape.size() == 5;
  if (access == Access::Contiguous || element_count(shape) == 0) return rows;
  if (pictures && bytes.one_in(2)) return strides_for(shape, Layout::ChannelsLast);
  if (access != Access::Strided) return rows;
  // The axes in another order in memory, some backwards, some with gaps.
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[bytes.below(i)]);
  Shape strides(shape.size());
  int64_t step = 1;
  for (const size_t axis : order) {
    step *= bytes.one_in(4) ? 2 : 1;
    strides[axis] = bytes.one_in(4) ? -step : step;
    step *= shape[axis];
  }
  return strides;
}

AttributeValue attribute_value(AttributeType type, const fake_ort::NodeAttribute& given,
                               const AttributeValue& otherwise) {
  const auto& value = given.value;
  if (const auto* held = std::get_if<int64_t>(&value)) {
    if (type == AttributeType::Bool) return *held != 0;
    if (type == AttributeType::Int) return *held;
  }
  if (const auto* held = std::get_if<float>(&value); held && type == AttributeType::Float) {
    return static_cast<double>(*held);
  }
  if (const auto* held = std::get_if<std::string>(&value); held && type == AttributeType::String) {
    return *held;
  }
  if (const auto* held = std::get_if<std::vector<int64_t>>(&value);
      held && type == AttributeType::Ints) {
    return *held;
  }
  return otherwise;  // the adapters refuse other types, and so never call invoke() with them
}

// Empty when the call was accepted.
std::string direct_call(const Call& call, const Tensors& inputs, Direct& runtime) {
  Attributes attributes(call.op->attributes);
  for (size_t i = 0; i < call.op->attributes.size(); ++i) {
    const Attribute& declared = call.op->attributes[i];
    for (const auto& [name, value] : call.attributes) {
      if (name != declared.name) continue;
      attributes.set(i, attribute_value(declared.type(), value, declared.default_value));
    }
  }
  try {
    invoke(*call.op, inputs, attributes, runtime);
  } catch (const Error& error) {
    expect_message(call, error.what());
    return error.what();
  }
  return "";
}

// NaNs are equal: which of two NaNs a sum keeps is the compiler's choice.
bool same(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape || a.dtype != b.dtype) return false;
  const size_t width = dtype_size(a.dtype);
  std::vector<const uint8_t*> left, right;
  walk(a, [&](int64_t at, int64_t) { left.push_back(a.as<uint8_t>() + at * int64_t(width)); });
  walk(b, [&](int64_t at, int64_t) { right.push_back(b.as<uint8_t>() + at * int64_t(width)); });
  const auto is_nan = [&](const uint8_t* element) {
    const double value = read_values(Tensor(const_cast<uint8_t*>(element), a.dtype, Shape{}))[0];
    return value != value;
  };
  for (size_t i = 0; i < left.size(); ++i) {
    if (std::memcmp(left[i], right[i], width) == 0) continue;
    if (!is_nan(left[i]) || !is_nan(right[i])) return false;
  }
  return true;
}

void through_invoke(Bytes& bytes, const Call& call) {
  std::vector<Spread> plain, spread;
  Tensors plain_inputs, spread_inputs;
  plain.reserve(call.inputs.size());
  spread.reserve(call.inputs.size());
  for (size_t i = 0; i < call.inputs.size(); ++i) {
    const std::optional<Argument>& argument = call.inputs[i];
    plain_inputs.emplace_back();
    spread_inputs.emplace_back();
    if (!argument) continue;
    plain.emplace_back(*argument, strides_for(argument->shape, Layout::Contiguous));
    plain_inputs.back() = plain.back().tensor;
    spread.emplace_back(*argument,
                        any_strides(bytes, argument->shape, call.op->inputs[i].access_mode));
    spread_inputs.back() = spread.back().tensor;
  }
  Direct forward(false, 0xa5), backward(true, 0x5a);
  const std::string refusal = direct_call(call, plain_inputs, forward);
  const std::string other = direct_call(call, spread_inputs, backward);
  // A layout that must be copied takes more memory, perhaps too much.
  const bool too_much = (refusal + other).find("MYOPS_MAX_BYTES") != std::string::npos;
  expect(other == refusal || too_much, call, "the same refusal");
  if (!refusal.empty() || !other.empty()) return;
  for (size_t i = 0; i < forward.outputs.size(); ++i) {
    expect(same(forward.outputs[i], backward.outputs[i]), call,
           "equal bits for any strides and order, every element written");
  }
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  setenv("MYOPS_MAX_BYTES", "500000", 0);  // a call takes milliseconds, not the machine's memory
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Bytes bytes(data, size);
  const bool library = bytes.one_in(2);
  const Call call = fuzz::make_call(bytes);
  if (library && !call.op->onnx_type.empty()) {
    through_the_library(bytes, call);
  } else {
    through_invoke(bytes, call);
  }
  return 0;
}
