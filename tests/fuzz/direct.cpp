#include "direct.h"

#include <cstring>
#include <thread>

#include "reference.h"

namespace fuzz {
namespace {

using namespace myops;

// Calls body(offset in elements, index in row-major order) for every element.
template <class Body>
void for_each_element(const Tensor& tensor, const Body& body) {
  const int64_t count = tensor.elements();
  const size_t rank = tensor.shape.size();
  Shape at_axis(rank, 0);
  for (int64_t index = 0, at = 0; index < count; ++index) {
    body(at, index);
    for (size_t axis = rank; axis-- > 0;) {
      at += tensor.strides[axis];
      if (++at_axis[axis] < tensor.shape[axis]) break;
      at -= tensor.strides[axis] * tensor.shape[axis];
      at_axis[axis] = 0;
    }
  }
}

std::vector<uint8_t> in_row_major_order(const Tensor& tensor) {
  std::vector<uint8_t> ordered(byte_count(tensor.shape, tensor.dtype));
  if (tensor.is(Layout::Contiguous)) {
    if (!ordered.empty()) std::memcpy(ordered.data(), tensor.data, ordered.size());
    return ordered;
  }
  const auto width = static_cast<int64_t>(dtype_size(tensor.dtype));
  for_each_element(tensor, [&](int64_t at, int64_t index) {
    std::memcpy(ordered.data() + index * width, tensor.as<uint8_t>() + at * width,
                static_cast<size_t>(width));
  });
  return ordered;
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

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return 65000;
    case DType::BFloat16:
    case DType::Float32:
      return 1e38;
    case DType::Float64:
      return 1e300;
    case DType::UInt8:
      return 1e6;
    default:
      return dtype == DType::Int32 ? 2147483647.0 : 4503599627370496.0;
  }
}

double least_of(DType dtype) {  // of the numbers that are not rounded to 0
  switch (dtype) {
    case DType::Float16:
      return 6e-8;
    case DType::Float64:
      return 1e-300;
    default:
      return 1e-37;
  }
}

}  // namespace

std::vector<double> elements_of(const Tensor& tensor) {
  std::vector<double> values(static_cast<size_t>(tensor.elements()));
  const std::vector<uint8_t> ordered = in_row_major_order(tensor);
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t, int8_t>(
      tensor.dtype, [&](auto tag) {
        using T = typename decltype(tag)::type;
        for (size_t i = 0; i < values.size(); ++i) {
          T element;
          std::memcpy(&element, ordered.data() + i * sizeof(T), sizeof(T));
          if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
            values[i] = static_cast<double>(static_cast<float>(element));
          } else {
            values[i] = static_cast<double>(element);
          }
        }
      });
  return values;
}

double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::Float16:
      return 1.0 / 2048;
    case DType::BFloat16:
      return 1.0 / 256;
    case DType::Float32:
      return 6.0e-8;
    case DType::Float64:
      return 1.2e-16;
    default:
      return 0;
  }
}
double arithmetic_of(DType dtype) { return dtype == DType::Float64 ? 1.2e-16 : 6.0e-8; }

Tensor Direct::allocate(size_t, DType dtype, const Shape& shape, Layout layout) {
  memory.emplace_back(static_cast<size_t>(element_count(shape)) * dtype_size(dtype), fill_);
  outputs.emplace_back(memory.back().data(), dtype, shape, layout);
  return outputs.back();
}

void Direct::run(int64_t count, Task task, void* argument) {
  if (order_ != Order::Threads) {
    const bool reversed = order_ == Order::Backward;
    for (int64_t i = 0; i < count; ++i) task(argument, reversed ? count - 1 - i : i);
    return;
  }
  std::vector<std::thread> threads;
  for (int64_t first = 0; first < 3; ++first) {
    threads.emplace_back([=] {
      for (int64_t i = first; i < count; i += 3) task(argument, i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

Spread::Spread(const Argument& argument, const Shape& strides) {
  const size_t width = dtype_size(argument.dtype);
  int64_t low = 0, high = element_count(argument.shape) > 0 ? 0 : -1;
  for (size_t axis = 0; high >= 0 && axis < strides.size(); ++axis) {
    const int64_t reach = (argument.shape[axis] - 1) * strides[axis];
    (reach < 0 ? low : high) += reach;
  }
  bytes.resize(static_cast<size_t>(high - low + 1) * width);
  uint8_t* first = bytes.data() - low * static_cast<int64_t>(width);
  tensor = Tensor(first, argument.dtype, argument.shape, strides);
  for_each_element(tensor, [&](int64_t at, int64_t index) {
    std::memcpy(first + at * static_cast<int64_t>(width),
                argument.bytes.data() + static_cast<size_t>(index) * width, width);
  });
}

std::vector<uint8_t> Spread::in_order() const { return in_row_major_order(tensor); }

Strides any_strides(Bytes& bytes, const Shape& shape, Access access) {
  const Shape rows = strides_for(shape, Layout::Contiguous);
  const bool pictures = shape.size() == 4 || shape.size() == 5;
  if (access == Access::Contiguous || element_count(shape) == 0) return {rows, "in order"};
  if (bytes.one_in(4)) return {rows, "in order"};
  if (pictures && bytes.one_in(2))
    return {strides_for(shape, Layout::ChannelsLast), "channels_last"};
  if (access != Access::Strided) return {rows, "in order"};
  // The axes in another order in memory, or in that of one of the layouts; some backwards, some
  // with gaps, some repeated.
  enum Kind {
    Permuted,
    Gapped,
    Reversed,
    Expanded,
    All
  } const kind = static_cast<Kind>(bytes.below(5));
  const char* const names[] = {"permuted", "gapped", "reversed", "expanded", "all of these"};
  std::vector<size_t> order(shape.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = order.size() - 1 - i;
  if (kind == Permuted || kind == All) {
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[bytes.below(i)]);
  } else if (pictures && bytes.one_in(2)) {
    order = {1};
    for (size_t axis = shape.size(); axis-- > 0;) {
      if (axis != 1) order.push_back(axis);
    }
  }
  Shape strides(shape.size());
  int64_t step = 1;
  for (const size_t axis : order) {
    if ((kind == Gapped || kind == All) && bytes.one_in(3)) step *= bytes.between(2, 3);
    strides[axis] = step;
    if ((kind == Reversed || kind == All) && bytes.one_in(3)) strides[axis] = -step;
    if ((kind == Expanded || kind == All) && bytes.one_in(3)) {
      strides[axis] = 0;
    } else {
      step *= shape[axis];
    }
  }
  return {strides, names[kind]};
}

Attributes attributes_of(const Call& call) {
  Attributes attributes(call.op->attributes);
  for (size_t i = 0; i < call.op->attributes.size(); ++i) {
    const Attribute& declared = call.op->attributes[i];
    for (const auto& [name, value] : call.attributes) {
      if (name != declared.name) continue;
      attributes.set(i, attribute_value(declared.type(), value, declared.default_value));
    }
  }
  return attributes;
}

std::string direct_call(const Call& call, const Tensors& inputs, Direct& runtime) {
  try {
    invoke(*call.op, inputs, attributes_of(call), runtime);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool same(const Tensor& a, const Tensor& b) {
  if (a.shape != b.shape || a.dtype != b.dtype) return false;
  std::vector<uint8_t> left = in_row_major_order(a), right = in_row_major_order(b);
  if (left == right) return true;
  const size_t width = dtype_size(a.dtype);
  const auto value = [&](std::vector<uint8_t>& bytes, size_t at) {
    return read_values(Tensor(bytes.data() + at, a.dtype, Shape{}))[0];
  };
  for (size_t at = 0; at < left.size(); at += width) {
    if (std::memcmp(left.data() + at, right.data() + at, width) == 0) continue;
    if (!std::isnan(value(left, at)) || !std::isnan(value(right, at))) return false;
  }
  return true;
}

std::string compare(const Tensor& got, const Expected& expected, int64_t& compared) {
  const auto text = [](const Shape& shape) {
    std::string all;
    for (const int64_t length : shape) all += str(all.empty() ? "" : " ", length);
    return "[" + all + "]";
  };
  if (got.shape != expected.shape) {
    return str("got shape ", text(got.shape), ", expected ", text(expected.shape));
  }
  const std::vector<double> values = elements_of(got);
  const double u = rounding_of(got.dtype), v = arithmetic_of(got.dtype) * expected.terms;
  const bool whole = got.dtype == DType::UInt8;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!expected.unsure.empty() && expected.unsure[i]) continue;
    const Number& wanted = expected.elements[i];
    bool good = false;
    const double exact = whole ? std::min(std::max(wanted.value, 0.0), 255.0) : wanted.value;
    if (expected.copies && !std::isfinite(wanted.value)) {
      if (whole && std::isnan(wanted.value)) continue;  // no integer stands for it
      good = std::isnan(wanted.value) ? std::isnan(values[i]) : values[i] == exact;
    } else {
      if (!(wanted.size + expected.slack < largest_of(got.dtype))) continue;
      const double limit = u * std::fabs(wanted.value) + v * wanted.size + expected.slack +
                           least_of(got.dtype) + (whole ? 0.5 : 0);
      good = std::fabs(values[i] - exact) <= limit;
    }
    ++compared;
    if (good) continue;
    return str("element ", i, " of shape ", text(got.shape), ": got ", values[i], ", expected ",
               wanted.value, " (terms of ", wanted.size, ", slack ", expected.slack, ")");
  }
  return "";
}

}  // namespace fuzz
