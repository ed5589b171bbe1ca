#include "cases.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fake_cuda {
namespace {

const std::vector<DType> kFloats{DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};

void store(void* memory, DType dtype, int64_t place, double value) {
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t>(dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    auto* to = static_cast<T*>(memory) + place;
    if constexpr (std::is_integral_v<T>) {
      *to = static_cast<T>(static_cast<int64_t>(value * 1e9));
    } else if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      *to = static_cast<T>(value);
    } else {
      *to = T(static_cast<float>(value));
    }
  });
}

}  // namespace

void Case::set(const std::string& name, AttributeValue value) {
  for (size_t i = 0; i < op->attributes.size(); ++i) {
    if (op->attributes[i].name == name) return attributes.set(i, std::move(value));
  }
  throw Error("no attribute " + name);
}

void Case::add_numbers(Random& random, DType dtype, const Shape& shape, double spread,
                       bool strided) {
  // Axes in a random order, some with a gap behind them; or one of the two layouts.
  Shape strides = strides_for(shape, Layout::Contiguous);
  if (shape.size() == 4 && random.chance(3)) strides = strides_for(shape, Layout::ChannelsLast);
  int64_t extent = element_count(shape);
  if (strided && !shape.empty() && random.chance(2)) {
    std::vector<size_t> order(shape.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    for (size_t i = order.size(); i-- > 1;) {
      std::swap(order[i], order[static_cast<size_t>(random.below(static_cast<int64_t>(i) + 1))]);
    }
    int64_t step = random.from(1, 2);
    for (const size_t axis : order) {
      strides[axis] = step;
      step *= std::max<int64_t>(shape[axis], 1) + random.below(2);
    }
    extent = step;
  }
  void* data = memory.make(static_cast<size_t>(extent) * dtype_size(dtype));
  for (int64_t i = 0; i < extent; ++i) store(data, dtype, i, spread * random.real());
  inputs.push_back(Tensor(data, dtype, shape, strides));
  text += str(" ", dtype_name(dtype), " ", shape, " by ", strides);
}

void Case::add_integers(Random& random, DType dtype, const Shape& shape, int64_t most) {
  void* data = memory.make(byte_count(shape, dtype));
  for (int64_t i = 0; i < element_count(shape); ++i) {
    store(data, dtype, i, static_cast<double>(random.from(-most, most)));
  }
  inputs.push_back(Tensor(data, dtype, shape));
  text += str(" ", dtype_name(dtype), " ", shape);
}

void Case::add_bytes(Random& random, DType dtype, const Shape& shape, Layout layout) {
  auto* data = static_cast<uint8_t*>(memory.make(byte_count(shape, dtype)));
  for (int64_t i = 0; i < element_count(shape); ++i) {
    const std::vector<uint8_t> ends{0, 127, 128, 255};
    data[i] = random.chance(4) ? random.one_of(ends) : static_cast<uint8_t>(random.below(256));
  }
  inputs.push_back(Tensor(data, dtype, shape, layout));
  text += str(" ", dtype_name(dtype), " ", shape);
}

void Case::add_list(const std::vector<double>& numbers) {
  void* data = memory.make(numbers.size() * sizeof(double));
  std::copy(numbers.begin(), numbers.end(), static_cast<double*>(data));
  inputs.push_back(Tensor(data, DType::Float64, Shape{static_cast<int64_t>(numbers.size())}));
  text += str(" ", numbers);
}

void Case::add_list(const std::vector<int64_t>& numbers) {
  void* data = memory.make(numbers.size() * sizeof(int64_t));
  std::copy(numbers.begin(), numbers.end(), static_cast<int64_t*>(data));
  inputs.push_back(Tensor(data, DType::Int64, Shape{static_cast<int64_t>(numbers.size())}));
  text += str(" ", numbers);
}

std::unique_ptr<Case> random_add(Random& random) {
  auto made = std::make_unique<Case>("my_add");
  const DType dtype = random.one_of<DType>({DType::Float16, DType::BFloat16, DType::Float32,
                                            DType::Float64, DType::Int32, DType::Int64});
  Shape shape;
  for (int64_t rank = random.below(6); rank > 0; --rank) shape.push_back(random.from(0, 7));
  if (random.chance(4)) shape = {random.from(1, 3), 300};
  for (int operand = 0; operand < 2; ++operand) {
    const auto skipped = static_cast<size_t>(
        operand == 1 ? random.below(static_cast<int64_t>(shape.size()) + 1) : 0);
    Shape own(shape.begin() + skipped, shape.end());
    for (int64_t& length : own) {
      if (random.chance(4)) length = 1;
    }
    made->add_numbers(random, dtype, own, 1, true);
  }
  return made;
}

std::unique_ptr<Case> random_resize(Random& random, bool backward) {
  auto made = std::make_unique<Case>(backward ? "resize_backward" : "resize");
  const auto choice = [&](const char* name) {
    for (const Attribute& attribute : made->op->attributes) {
      if (attribute.name != name) continue;
      const std::string chosen = random.one_of(attribute.choices);
      made->set(name, chosen);
      made->text += " " + chosen;
      return chosen;
    }
    throw Error(name);
  };
  const auto flag = [&](const char* name, int64_t one_in) {
    const bool chosen = random.chance(one_in);
    made->set(name, chosen);
    if (chosen) made->text += std::string(" ") + name;
  };
  const std::string mode = choice("mode");
  std::string coordinates = choice("coordinate_transformation_mode");
  if (mode == "area") made->set("coordinate_transformation_mode", coordinates = "half_pixel");
  choice("nearest_mode");
  if (mode != "nearest" && mode != "area") flag("antialias", 2);
  flag("exclude_outside", 2);
  flag("torch_arithmetic", 2);
  made->set("extrapolation_value", 7.25);
  made->set("cubic_coeff_a", random.chance(2) ? -0.5 : -0.75);

  const int64_t rank = random.from(1, 5);
  Shape shape;
  for (int64_t axis = 0; axis < rank; ++axis) shape.push_back(random.from(1, rank > 3 ? 6 : 12));
  if (random.chance(4)) shape.back() = random.from(20, 300);
  // Of every axis, or of the last ones.
  const int64_t listed = random.from(1, rank);
  std::vector<int64_t> axes, sizes;
  std::vector<double> roi(static_cast<size_t>(2 * listed)), scales;
  for (int64_t i = 0; i < listed; ++i) {
    const int64_t axis = rank - listed + i, length = shape[static_cast<size_t>(axis)];
    axes.push_back(axis);
    sizes.push_back(random.chance(4) ? length : random.from(1, 2 * length + 3));
    const double scale = random.chance(4) ? 1.0 : 0.2 + 1.9 * std::abs(random.real());
    scales.push_back(std::max(scale, 1.01 / static_cast<double>(length)));
    roi[static_cast<size_t>(i)] = random.chance(2) ? 0 : 0.6 * random.real();
    roi[static_cast<size_t>(listed + i)] = random.chance(2) ? 1 : random.real() + 0.5;
  }
  made->set("axes", axes);
  std::vector<DType> dtypes = kFloats;
  if (!backward) dtypes.push_back(DType::UInt8);
  const DType dtype = random.one_of(dtypes);
  const bool by_sizes = random.chance(2);

  // The rule of resize says how long the result is.
  Case forward("resize");
  forward.attributes = made->attributes;
  forward.inputs.push_back(Tensor(nullptr, DType::Float32, shape));
  const auto add_lists = [&](Case& to) {
    if (coordinates == "tf_crop_and_resize") {
      to.add_list(roi);
    } else {
      to.add_nothing();
    }
    if (by_sizes) {
      to.add_nothing();
      to.add_list(sizes);
    } else {
      to.add_list(scales);
      to.add_nothing();
    }
  };
  add_lists(forward);
  if (backward) {
    ShapeContext rule(*forward.op, forward.attributes);
    rule.inputs_.resize(4);
    rule.values_.resize(4);
    rule.dtypes_.resize(4);
    for (size_t i = 0; i < 4; ++i) {
      if (!forward.inputs[i].present) continue;
      rule.inputs_[i].emplace(forward.inputs[i].shape.begin(), forward.inputs[i].shape.end());
      if (i > 0) rule.values_[i] = read_values(forward.inputs[i]);
    }
    infer(*forward.op, forward.attributes, rule);
    Shape result;
    for (const Dim& dim : *rule.output(0)) result.push_back(dim.value);
    made->add_numbers(random, dtype, result);
    made->inputs.push_back(Tensor(nullptr, dtype, shape));
    made->text += str(" of ", shape);
  } else {
    made->add_numbers(random, dtype, shape);
  }
  add_lists(*made);
  return made;
}

std::unique_ptr<Case> random_deform(Random& random, int order) {
  const char* names[] = {"deform_conv2d", "deform_conv2d_backward",
                         "deform_conv2d_backward_backward"};
  const bool backward = order > 0;
  auto made = std::make_unique<Case>(names[order]);
  const DType dtype = random.one_of(kFloats);
  const int64_t groups = random.from(1, 3), offset_groups = random.from(1, 3);
  const int64_t channels = groups * offset_groups * random.from(1, 3);
  // Of a group: few, or so many that products are made in tiles, of which the last is not full.
  const int64_t outputs = groups * (random.chance(2) ? random.from(1, 11) : random.from(16, 80));
  const int64_t batch = random.chance(8) ? 0 : random.from(1, 3);
  const int64_t height = random.from(1, 9), width = random.from(1, 9);
  const int64_t ky = random.from(1, 3), kx = random.from(1, 3);
  std::vector<int64_t> strides{random.from(1, 2), random.from(1, 2)};
  std::vector<int64_t> dilations{random.from(1, 2), random.from(1, 2)};
  std::vector<int64_t> pads;
  for (int i = 0; i < 4; ++i) pads.push_back(random.from(2, 4));
  const int64_t out_height =
      (height + pads[0] + pads[2] - ((ky - 1) * dilations[0] + 1)) / strides[0] + 1;
  const int64_t out_width =
      (width + pads[1] + pads[3] - ((kx - 1) * dilations[1] + 1)) / strides[1] + 1;
  made->set("strides", strides);
  made->set("dilations", dilations);
  made->set("pads", pads);
  made->set("group", groups);
  made->set("offset_group", offset_groups);
  made->text += str(" groups ", groups, " ", offset_groups, " strides ", strides, " dilations ",
                    dilations, " pads ", pads);
  const int64_t taps = ky * kx;
  const bool masked = random.chance(2);
  const double spread = random.chance(4) ? 0 : 2;  // 0: every position is whole
  if (backward) made->add_numbers(random, dtype, {batch, outputs, out_height, out_width}, 1, true);
  made->add_numbers(random, dtype, {batch, channels, height, width}, 1, true);
  made->add_numbers(random, dtype, {outputs, channels / groups, ky, kx}, 1, true);
  made->add_numbers(random, dtype, {batch, 2 * offset_groups * taps, out_height, out_width}, spread,
                    true);
  Tensor& offset = made->inputs.back();
  if (offset.elements() > 0 && random.chance(3)) {  // what samples nothing
    store(offset.data, dtype, 0, std::numeric_limits<double>::quiet_NaN());
  }
  if (order == 0) {
    if (random.chance(2)) {
      made->add_numbers(random, dtype, {outputs}, 1, true);
    } else {
      made->add_nothing();
    }
  }
  if (masked) {
    made->add_numbers(random, dtype, {batch, offset_groups * taps, out_height, out_width}, 1, true);
  } else {
    made->add_nothing();
  }
  if (order == 2) {  // what arrives at the gradients of X, W, offset and mask
    const std::vector<std::pair<Shape, double>> arriving{
        {{batch, channels, height, width}, 1},
        {{outputs, channels / groups, ky, kx}, 1},
        {{batch, 2 * offset_groups * taps, out_height, out_width}, 1},
        {{batch, offset_groups * taps, out_height, out_width}, 1}};
    for (size_t i = 0; i < arriving.size(); ++i) {
      if (random.chance(3) || (i == 3 && !masked)) {
        made->add_nothing();
      } else {
        made->add_numbers(random, dtype, arriving[i].first, arriving[i].second, true);
      }
    }
  }
  if (backward && random.chance(3)) {
    std::vector<int64_t> needs;
    for (int i = 0; i < 3 + order; ++i) needs.push_back(random.below(2));
    made->set("needs", needs);
    made->text += str(" needs ", needs);
  }
  return made;
}

std::unique_ptr<Case> random_deform_int8(Random& random) {
  auto made = std::make_unique<Case>("deform_conv2d_int8");
  const DType dtype = random.one_of<DType>({DType::UInt8, DType::Int8});
  const int64_t groups = random.from(1, 3), offset_groups = random.from(1, 3);
  const int64_t each = random.chance(3) ? random.from(8, 25) : random.from(1, 3);
  const int64_t channels = groups * offset_groups * each;
  const int64_t outputs = groups * (random.chance(2) ? random.from(1, 11) : random.from(16, 80));
  const int64_t batch = random.chance(8) ? 0 : random.from(1, 3);
  const int64_t height = random.from(1, 9), width = random.from(1, 9);
  const int64_t ky = random.from(1, 3), kx = random.from(1, 3), taps = ky * kx;
  const int64_t stride = random.from(1, 2), pad = 2;
  const int64_t out_height = (height + 2 * pad - ky) / stride + 1;
  const int64_t out_width = (width + 2 * pad - kx) / stride + 1;
  made->set("strides", std::vector<int64_t>{stride, stride});
  made->set("pads", std::vector<int64_t>{pad, pad, pad, pad});
  made->set("group", groups);
  made->set("offset_group", offset_groups);
  made->set("mask_limit", random.one_of<double>({1.0, 0.25, 3.0}));
  made->text += str(" groups ", groups, " ", offset_groups, " stride ", stride);
  const auto contiguous = Layout::Contiguous;
  made->add_bytes(random, dtype, {batch, channels, height, width},
                  random.chance(2) ? Layout::ChannelsLast : contiguous);
  made->add_numbers(random, DType::Float32, {1}, 0.1);
  if (random.chance(2)) {
    made->add_nothing();
  } else {
    made->add_bytes(random, dtype, {1}, contiguous);
  }
  made->add_bytes(random, DType::Int8, {outputs, channels / groups, ky, kx}, contiguous);
  made->add_numbers(random, DType::Float32, {random.chance(2) ? outputs : 1}, 0.1);
  made->add_numbers(random, DType::Float32,
                    {batch, 2 * offset_groups * taps, out_height, out_width}, 2, true);
  Tensor& offset = made->inputs.back();
  if (offset.elements() > 0 && random.chance(3)) {  // what samples nothing
    store(offset.data, DType::Float32, 0, std::numeric_limits<double>::quiet_NaN());
  }
  if (random.chance(2)) {
    made->add_numbers(random, DType::Float32, {outputs});
  } else {
    made->add_nothing();
  }
  if (random.chance(3)) {
    made->add_nothing();
    return made;
  }
  made->add_numbers(random, DType::Float32, {batch, offset_groups * taps, out_height, out_width}, 2,
                    true);
  Tensor& mask = made->inputs.back();
  if (mask.elements() > 0 && random.chance(3)) {
    const double quiet = std::numeric_limits<double>::quiet_NaN();
    store(mask.data, DType::Float32, 0, random.chance(2) ? quiet : INFINITY);
  }
  return made;
}

std::unique_ptr<Case> integer_deform(Random& random, int order) {
  auto made = std::make_unique<Case>(order == 0 ? "deform_conv2d" : "deform_conv2d_backward");
  const DType dtype = random.one_of(kFloats);
  const int64_t groups = random.from(1, 2), channels = groups * random.from(1, 40);
  const int64_t outputs = groups * random.from(16, 90), batch = random.from(1, 2);
  const int64_t height = random.from(2, 10), width = random.from(2, 10), taps = 2;
  made->set("group", groups);
  if (order == 1) made->add_integers(random, dtype, {batch, outputs, height - 1, width}, 1);
  made->add_integers(random, dtype, {batch, channels, height, width}, 2);
  made->add_integers(random, dtype, {outputs, channels / groups, taps, 1}, 1);
  made->add_integers(random, dtype, {batch, 2 * taps, height - 1, width}, 2);
  if (order == 0) made->add_integers(random, dtype, {outputs}, 3);
  made->add_integers(random, dtype, {batch, taps, height - 1, width}, 1);
  return made;
}

}  // namespace fake_cuda
