#include "calls.h"

#include <algorithm>
#include <cstring>

namespace fuzz {
namespace {

using namespace myops;
using Attr = fake_ort::NodeAttribute;
using Ints = std::vector<int64_t>;
using Floats = std::vector<float>;

constexpr int64_t kMostElements = 1 << 11;  // of one input: a call takes milliseconds

// Shapes as plausible as the op needs, and values for its lists.
struct Plan {
  std::vector<std::optional<Shape>> shapes;
  std::vector<std::optional<std::vector<double>>> values;
  std::vector<std::pair<std::string, Attr>> attributes;
};

Shape random_shape(Bytes& bytes, size_t most_axes, int64_t longest) {
  Shape shape(bytes.below(most_axes + 1));
  for (int64_t& length : shape) length = bytes.one_in(16) ? 0 : bytes.between(1, longest);
  return shape;
}

void plan_add(Bytes& bytes, Plan& plan) {
  const Shape whole = random_shape(bytes, 5, 7);
  for (int operand = 0; operand < 2; ++operand) {
    Shape shape(whole.begin() + static_cast<long>(bytes.below(whole.size() + 1)), whole.end());
    for (int64_t& length : shape) length = bytes.one_in(4) ? 1 : length;
    plan.shapes.push_back(shape);
  }
}

// roi, scales, sizes behind the tensors of resize and resize_backward.
void plan_resize(Bytes& bytes, Plan& plan, bool backward) {
  Shape x = random_shape(bytes, 5, bytes.one_in(8) ? 100 : 9);
  if (x.empty()) x = {3};
  Ints axes;
  for (size_t axis = 0; axis < x.size(); ++axis) {
    if (bytes.one_in(2)) axes.push_back(static_cast<int64_t>(axis));
  }
  if (bytes.one_in(4)) axes.clear();
  const size_t count = axes.empty() ? x.size() : axes.size();
  const bool by_sizes = bytes.one_in(2);
  std::vector<double> roi, scales, sizes;
  Shape y = x;
  for (size_t i = 0; i < count; ++i) {
    int64_t& length = y[axes.empty() ? i : static_cast<size_t>(axes[i])];
    scales.push_back(bytes.one_in(8) ? 1.0 : static_cast<double>(bytes.between(6, 90)) / 32.0);
    sizes.push_back(static_cast<double>(length == 0 ? 0 : bytes.between(1, 15)));
    length =
        by_sizes
            ? static_cast<int64_t>(sizes.back())
            : static_cast<int64_t>(static_cast<float>(length) * static_cast<float>(scales.back()));
  }
  for (size_t i = 0; i < 2 * count; ++i) {
    roi.push_back(static_cast<double>(i >= count) + static_cast<double>(bytes.between(-8, 8)) / 16);
  }
  if (backward) plan.shapes.push_back(y);
  plan.shapes.push_back(x);
  plan.values.resize(plan.shapes.size());
  const auto list = [&](bool given, const std::vector<double>& values) {
    plan.shapes.push_back(given ? std::optional(Shape{static_cast<int64_t>(values.size())})
                                : std::nullopt);
    plan.values.push_back(values);
  };
  list(bytes.one_in(2), roi);
  list(!by_sizes, scales);
  list(by_sizes, sizes);
  if (!axes.empty()) plan.attributes.push_back({"axes", {axes}});
}

void plan_deform(Bytes& bytes, Plan& plan, const Op& op) {
  const int64_t groups = bytes.between(1, 3), fields = bytes.between(1, 2);
  const int64_t batch = bytes.between(0, 2), channels = groups * fields * bytes.between(1, 3);
  const int64_t outputs = groups * bytes.between(1, 5);
  const Ints kernel = {bytes.between(1, 3), bytes.between(1, 3)};
  const Ints size = {bytes.between(1, 7), bytes.between(1, 20)};
  const Ints strides = {bytes.between(1, 3), bytes.between(1, 3)};
  const Ints dilations = {bytes.between(1, 2), bytes.between(1, 2)};
  const Ints pads = {bytes.between(0, 2), bytes.between(0, 2), bytes.between(0, 2),
                     bytes.between(0, 2)};
  Ints out(2);
  for (size_t axis = 0; axis < 2; ++axis) {
    const int64_t padded = size[axis] + pads[axis] + pads[axis + 2];
    const int64_t extent = (kernel[axis] - 1) * dilations[axis] + 1;
    out[axis] = padded < extent ? 0 : (padded - extent) / strides[axis] + 1;
  }
  const int64_t taps = fields * kernel[0] * kernel[1];
  const Shape X = {batch, channels, size[0], size[1]};
  const Shape W = {outputs, channels / groups, kernel[0], kernel[1]};
  const Shape offset = {batch, 2 * taps, out[0], out[1]}, mask = {batch, taps, out[0], out[1]};
  const Shape Y = {batch, outputs, out[0], out[1]};
  const bool masked = bytes.one_in(2);
  for (const myops::Input& input : op.inputs) {
    const std::string& name = input.name;
    const bool left_out =
        input.is_optional && (name.find("mask") != std::string::npos ? !masked : bytes.one_in(4));
    const bool of = name.rfind("grad_grad_", 0) == 0;
    const std::string base = of ? name.substr(10) : name;
    plan.shapes.push_back(left_out           ? std::nullopt
                          : base == "X"      ? std::optional(X)
                          : base == "W"      ? std::optional(W)
                          : base == "offset" ? std::optional(offset)
                          : base == "mask"   ? std::optional(mask)
                          : base == "B"      ? std::optional(Shape{outputs})
                                             : std::optional(Y));
  }
  plan.attributes = {{"group", {groups}},
                     {"offset_group", {fields}},
                     {"strides", {strides}},
                     {"dilations", {dilations}},
                     {"pads", {pads}}};
  if (bytes.one_in(2)) plan.attributes.push_back({"kernel_shape", {kernel}});
}

Attr any_attribute(Bytes& bytes) {
  const size_t length = bytes.one_in(32) ? (size_t{1} << 20) + 1 : bytes.below(7);
  switch (bytes.below(6)) {
    case 0:
      return {bytes.integer()};
    case 1:
      return {static_cast<float>(bytes.real())};
    case 2:
      return {bytes.one_in(32) ? std::string(length, 'x') : bytes.text()};
    case 3: {
      Ints list(length);
      for (size_t i = 0; i < length && i < 8; ++i) list[i] = bytes.integer();
      return {list};
    }
    case 4: {
      Floats list(length);
      for (size_t i = 0; i < length && i < 8; ++i) list[i] = static_cast<float>(bytes.real());
      return {list};
    }
    default:
      return {std::vector<std::string>{"a", "b"}};
  }
}

// Of the declared type, with a value that may be refused.
Attr fitting_attribute(Bytes& bytes, const Attribute& declared) {
  switch (declared.type()) {
    case AttributeType::Bool:
      return {bytes.between(0, 1)};
    case AttributeType::Int:
      return {bytes.between(0, 4)};
    case AttributeType::Float:
      return {static_cast<float>(bytes.real())};
    case AttributeType::String:
      if (declared.choices.empty()) return {bytes.text()};
      return {declared.choices[bytes.below(declared.choices.size())]};
    case AttributeType::Ints: {
      Ints list(bytes.below(6));
      for (int64_t& number : list) number = bytes.between(-1, 4);
      return {list};
    }
    case AttributeType::Floats:
      break;
  }
  return {Floats{static_cast<float>(bytes.real())}};
}

void set(std::vector<std::pair<std::string, Attr>>& attributes, const std::string& name,
         Attr value) {
  for (auto& [known, held] : attributes) {
    if (known == name) {
      held = std::move(value);
      return;
    }
  }
  attributes.push_back({name, std::move(value)});
}

void make_attributes(Bytes& bytes, const Op& op, Call& call) {
  for (const Attribute& declared : op.attributes) {
    const bool planned =
        std::any_of(call.attributes.begin(), call.attributes.end(),
                    [&](const auto& known) { return known.first == declared.name; });
    // A list that is not planned would be refused nearly always.
    const bool list = declared.type() == AttributeType::Ints;
    if (!planned && bytes.one_in(list ? 16 : 2)) {
      set(call.attributes, declared.name, fitting_attribute(bytes, declared));
    }
  }
  if (!op.attributes.empty() && bytes.one_in(8)) {
    const std::string& name = op.attributes[bytes.below(op.attributes.size())].name;
    set(call.attributes, name, any_attribute(bytes));
  }
}

// Memory that a test can have: a length is cut until the tensor is small, or an axis is emptied so
// that the absurd length can stay.
void bound(Bytes& bytes, Shape& shape) {
  for (int64_t& length : shape) length = std::max<int64_t>(length, 0);
  const auto too_large = [&] {
    double count = 1;
    for (const int64_t length : shape) count *= static_cast<double>(length);
    return count > static_cast<double>(kMostElements);
  };
  while (too_large()) {
    const auto longest = std::max_element(shape.begin(), shape.end());
    if (shape.size() > 1 && bytes.one_in(2)) {
      shape[(static_cast<size_t>(longest - shape.begin()) + 1) % shape.size()] = 0;
    } else {
      *longest = bytes.between(1, 64);
    }
  }
}

template <class T>
void put(std::vector<uint8_t>& bytes, size_t index, T value) {
  std::memcpy(bytes.data() + index * sizeof(T), &value, sizeof(T));
}

void put(DType dtype, std::vector<uint8_t>& bytes, size_t index, double value) {
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      put(bytes, index, T(static_cast<float>(value)));
    } else if constexpr (std::is_integral_v<T>) {
      const double low = static_cast<double>(std::numeric_limits<T>::min());
      const double high = std::is_same_v<T, int64_t>
                              ? 9223372036854774784.0
                              : static_cast<double>(std::numeric_limits<T>::max());
      put(bytes, index, static_cast<T>(value >= low && value <= high ? value : low));
    } else {
      put(bytes, index, static_cast<T>(value));
    }
  });
}

Argument make_argument(Bytes& bytes, DType dtype, const Shape& shape,
                       const std::optional<std::vector<double>>& values) {
  const auto count = static_cast<size_t>(element_count(shape));
  Argument argument{dtype, shape, std::vector<uint8_t>(count * dtype_size(dtype))};
  const bool wild = bytes.one_in(4);
  const uint32_t spread = static_cast<uint32_t>(bytes.between(1, 9));
  for (size_t i = 0; i < count; ++i) {
    double value = (static_cast<double>(bytes.random() & 0xffff) / 32768.0 - 1) * spread;
    if (wild && (bytes.random() & 3) == 0) value = bytes.real();
    if (values && i < values->size()) value = bytes.one_in(32) ? bytes.real() : (*values)[i];
    put(dtype, argument.bytes, i, value);
  }
  return argument;
}

}  // namespace

Call make_call(Bytes& bytes) {
  const std::vector<Op>& ops = all_ops();
  const Op& op = ops[bytes.below(ops.size())];
  Plan plan;
  if (bytes.one_in(8)) {  // anything
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (bytes.one_in(8)) {
        plan.shapes.push_back(std::nullopt);
        continue;
      }
      Shape shape = random_shape(bytes, 6, 6);
      if (!shape.empty() && bytes.one_in(4)) shape[bytes.below(shape.size())] = bytes.integer();
      plan.shapes.push_back(shape);
    }
  } else if (op.name == "my_add") {
    plan_add(bytes, plan);
  } else if (op.name.rfind("resize", 0) == 0) {
    plan_resize(bytes, plan, op.name != "resize");
  } else if (op.name.rfind("deform_conv2d", 0) == 0) {
    plan_deform(bytes, plan, op);
  } else {  // an op that this file does not know yet: all inputs of one shape
    plan.shapes.assign(op.inputs.size(), random_shape(bytes, 5, 7));
  }
  plan.shapes.resize(op.inputs.size());
  plan.values.resize(op.inputs.size());

  Call call{&op, {}, std::move(plan.attributes)};
  make_attributes(bytes, op, call);
  std::vector<DType> chosen;
  for (const TypeParameter& type : op.types) {
    chosen.push_back(type.dtypes[bytes.below(type.dtypes.size())]);
  }
  const bool spoil = bytes.one_in(8);
  const size_t spoilt = bytes.below(op.inputs.size());
  for (size_t i = 0; i < op.inputs.size(); ++i) {
    std::optional<Shape>& shape = plan.shapes[i];
    if (spoil && i == spoilt) {
      if (!shape || bytes.one_in(4)) {
        shape = shape ? std::nullopt : std::optional(random_shape(bytes, 4, 5));
      } else if (!shape->empty()) {
        (*shape)[bytes.below(shape->size())] = bytes.integer();
      }
    }
    if (!shape) {
      call.inputs.push_back(std::nullopt);
      continue;
    }
    bound(bytes, *shape);
    size_t type = 0;
    while (op.types[type].name != op.inputs[i].type) ++type;
    const DType dtype =
        bytes.one_in(64) ? static_cast<DType>(bytes.below(kDTypeCount)) : chosen[type];
    call.inputs.push_back(make_argument(bytes, dtype, *shape, plan.values[i]));
  }
  return call;
}

}  // namespace fuzz
