#include "conv_shape.h"

#include <algorithm>
#include <array>

namespace myops::deform {
namespace {

// Largest length, pad and stride: sums and products of two of them cannot overflow int64.
constexpr int64_t kMaxLength = 2147483646;

int64_t times(int64_t a, int64_t b) {  // product of lengths; saturates at the largest value
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// The numbers of a list attribute; `fallback` when the list is empty.
template <size_t kCount>
std::array<int64_t, kCount> read_list(const std::string& op, const Attributes& attributes,
                                      const char* name, int64_t least, int64_t fallback) {
  const std::vector<int64_t>& list = attributes.integers(name);
  std::array<int64_t, kCount> numbers;
  numbers.fill(fallback);
  if (list.empty()) return numbers;
  bool good = list.size() == kCount;
  for (const int64_t number : list) good = good && number >= least && number <= kMaxLength;
  if (!good) {
    fail(op, name, str(list), str(kCount, " numbers from ", least, " to ", kMaxLength));
  }
  std::copy(list.begin(), list.end(), numbers.begin());
  return numbers;
}

std::string text(const Dims& dims) {
  std::vector<std::string> parts;
  for (const Dim& dim : dims) {
    parts.push_back(dim.known() ? str(dim.value) : dim.symbol.empty() ? "?" : dim.symbol);
  }
  return str(parts);
}

// Of two equal lengths, the one that is known, or named.
Dim merge(const Dim& a, const Dim& b) {
  if (a.known() || b.known()) return a.known() ? a : b;
  return a.symbol.empty() ? b : a;
}

const char* input_name(const InputIndices& slots, int slot) {
  return slot == slots.grad     ? "grad"
         : slot == slots.X      ? "X"
         : slot == slots.W      ? "W"
         : slot == slots.offset ? "offset"
         : slot == slots.bias   ? "B"
                                : "mask";
}

void expect_rank(const ShapeContext& context, const InputIndices& slots, int slot, size_t rank) {
  if (slot < 0 || !context.has(static_cast<size_t>(slot))) return;
  const Dims& dims = context.dims(static_cast<size_t>(slot));
  MYOPS_EXPECT(context, dims.size() == rank, input_name(slots, slot),
               str("rank ", dims.size(), ", shape ", text(dims)), str("rank ", rank));
}

void check_groups(const ShapeContext& context, const Dims& X, const Dims& W) {
  const int64_t groups = context.attributes().integer("group");
  const int64_t offset_groups = context.attributes().integer("offset_group");
  const Dim& channels = X[1];
  MYOPS_EXPECT(context, groups >= 1, "group", str(groups), "at least 1");
  MYOPS_EXPECT(context, offset_groups >= 1, "offset_group", str(offset_groups), "at least 1");
  MYOPS_EXPECT(context, !W[0].known() || W[0].value % groups == 0, "W",
               str(W[0].value, " output channels"), str("a multiple of group, ", groups));
  if (!channels.known()) return;
  MYOPS_EXPECT(context, channels.value % groups == 0, "X", str(channels.value, " channels"),
               str("a multiple of group, ", groups));
  MYOPS_EXPECT(context, channels.value % offset_groups == 0, "X", str(channels.value, " channels"),
               str("a multiple of offset_group, ", offset_groups));
  MYOPS_EXPECT(context, !W[1].known() || W[1].value == channels.value / groups, "W",
               str(W[1].value, " channels in shape ", text(W)),
               str(channels.value / groups, ", the ", channels.value, " channels of X over ",
                   groups, groups == 1 ? " group" : " groups"));
}

struct Axis {
  const char* name;
  Dim input, kernel;
  int64_t pad_before, pad_after, stride, dilation;
};

Dim output_length(const ShapeContext& context, const Axis& axis) {
  MYOPS_EXPECT(context, !axis.input.known() || axis.input.value <= kMaxLength, "X",
               str(axis.name, " ", axis.input.value), str("at most ", kMaxLength));
  MYOPS_EXPECT(
      context, !axis.kernel.known() || (axis.kernel.value >= 1 && axis.kernel.value <= kMaxLength),
      "W", str("kernel ", axis.name, " ", axis.kernel.value), str("from 1 to ", kMaxLength));
  if (!axis.input.known() || !axis.kernel.known()) return Dim();
  const int64_t padded = axis.input.value + axis.pad_before + axis.pad_after;
  const int64_t extent = (axis.kernel.value - 1) * axis.dilation + 1;
  MYOPS_EXPECT(context, padded >= extent, "X", str(axis.name, " ", padded, " with pads"),
               str("at least ", extent, ", the extent of the kernel (", axis.kernel.value,
                   " taps, dilation ", axis.dilation, ")"));
  return (padded - extent) / axis.stride + 1;
}

}  // namespace

void expect_shape(const ShapeContext& context, const char* name, const Dims& dims,
                  const Dims& expected, const char* meaning) {
  bool good = dims.size() == expected.size();
  for (size_t axis = 0; good && axis < dims.size(); ++axis) {
    good = !dims[axis].known() || !expected[axis].known() || dims[axis] == expected[axis];
  }
  MYOPS_EXPECT(context, good, name, str("shape ", text(dims)),
               str("shape ", text(expected), " (", meaning, ")"));
}

KnownLengths check(ShapeContext& context, const InputIndices& slots) {
  const std::string& op = context.op_name();
  const Attributes& attributes = context.attributes();
  const auto strides = read_list<2>(op, attributes, "strides", 1, 1);
  const auto dilations = read_list<2>(op, attributes, "dilations", 1, 1);
  const auto pads = read_list<4>(op, attributes, "pads", 0, 0);
  const auto kernel = read_list<2>(op, attributes, "kernel_shape", 1, -1);
  for (const int slot : {slots.grad, slots.X, slots.W, slots.offset, slots.mask}) {
    expect_rank(context, slots, slot, 4);
  }
  expect_rank(context, slots, slots.bias, 1);
  static const Dims unknown(4);
  const auto dims_of = [&](int slot) -> const Dims& {
    const bool given = slot >= 0 && context.has(static_cast<size_t>(slot));
    return given ? context.dims(static_cast<size_t>(slot)) : unknown;
  };
  Dims X = dims_of(slots.X), W = dims_of(slots.W);
  const Dims &offset = dims_of(slots.offset), &mask = dims_of(slots.mask);
  const Dims &grad = dims_of(slots.grad), &bias = dims_of(slots.bias);

  for (size_t axis = 0; axis < 2; ++axis) {
    Dim& length = W[axis + 2];
    MYOPS_EXPECT(context, kernel[axis] < 0 || !length.known() || length.value == kernel[axis],
                 "kernel_shape", str(attributes.integers("kernel_shape")),
                 str("the last two lengths of W, ", text(W)));
    length = merge(length, Dim(kernel[axis]));
    MYOPS_EXPECT(context, W[axis].value != 0, "W", str("shape ", text(W)), "lengths of at least 1");
  }
  check_groups(context, X, W);
  W[0] = merge(W[0], merge(bias[0], grad[1]));
  const int64_t groups = attributes.integer("group");
  if (X[1].known()) {
    W[1] = X[1].value / groups;
  } else if (W[1].known()) {
    X[1] = times(W[1].value, groups);
  }

  KnownLengths all;
  all.output = {
      X[0], W[0],
      output_length(context, {"height", X[2], W[2], pads[0], pads[2], strides[0], dilations[0]}),
      output_length(context, {"width", X[3], W[3], pads[1], pads[3], strides[1], dilations[1]})};
  for (const Dims* other : {&offset, &mask, &grad}) {
    for (const size_t axis : {0, 2, 3}) {
      all.output[axis] = merge(all.output[axis], (*other)[axis]);
    }
  }
  const Dims& Y = all.output;
  Dim planes;
  if (W[2].known() && W[3].known()) {
    planes = times(attributes.integer("offset_group"), times(W[2].value, W[3].value));
  }
  const Dim twice = planes.known() ? Dim(times(2, planes.value)) : Dim();
  all.X = {Y[0], X[1], X[2], X[3]};
  all.W = W;
  all.offset = {Y[0], twice, Y[2], Y[3]};
  all.mask = {Y[0], planes, Y[2], Y[3]};
  expect_shape(context, "offset", offset, all.offset,
               "batch, 2 * offset_group * kernel taps, output height, output width");
  expect_shape(context, "mask", mask, all.mask,
               "batch, offset_group * kernel taps, output height, output width");
  expect_shape(context, "grad", grad, Y, "that of the output");
  if (&bias != &unknown) expect_shape(context, "B", bias, {W[0]}, "the output channels of W");
  all.offset[1] = merge(twice, offset[1]);
  all.mask[1] = merge(planes, mask[1]);
  return all;
}

std::vector<bool> read_needs(const std::string& op, const Attributes& attributes, size_t count) {
  const std::vector<int64_t>& list = attributes.integers("needs");
  if (list.empty()) return std::vector<bool>(count, true);
  bool good = list.size() == count;
  for (const int64_t number : list) good = good && (number == 0 || number == 1);
  if (!good) fail(op, "needs", str(list), str(count, " numbers, each 0 or 1"));
  return std::vector<bool>(list.begin(), list.end());
}

Op with_attributes(Op op) {
  return with_geometry(
      std::move(op).type("T", {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64}));
}

Op with_geometry(Op op) {
  using Ints = std::vector<int64_t>;
  return std::move(op)
      .attribute({"dilations", Ints{}, "Distance of taps, y and x; default 1."})
      .attribute({"group", int64_t{1}, "Groups of channels that are convolved separately."})
      .attribute({"kernel_shape", Ints{}, "kH and kW; default: those of W."})
      .attribute({"offset_group", int64_t{1}, "Groups of channels; each has its own offsets."})
      .attribute({"pads", Ints{}, "Top, left, bottom, right; default 0."})
      .attribute({"strides", Ints{}, "Distance of outputs, y and x; default 1."});
}

bool constant_weights(const PrepareContext& context) {
  const Tensor& W = context.constant(1);
  const int64_t group = context.attributes().integer("group");
  const int64_t offset_group = context.attributes().integer("offset_group");
  if (!W.present || W.rank() != 4 || W.elements() == 0) return false;
  if (group < 1 || offset_group < 1 || W.shape[0] % group != 0) return false;
  return W.shape[1] * group % offset_group == 0;
}

ConvShape::ConvShape(const Attributes& attributes, const Tensor& W)
    : channels(W.shape[1] * attributes.integer("group")),
      outputs(W.shape[0]),
      kernel_width(W.shape[3]),
      taps(W.shape[2] * W.shape[3]),
      groups(attributes.integer("group")),
      offset_groups(attributes.integer("offset_group")) {}

ConvShape::ConvShape(const Attributes& attributes, const Tensor& X, const Tensor& W,
                     const Tensor& output)
    : ConvShape(attributes, W) {
  batch = X.shape[0];
  height = X.shape[2];
  width = X.shape[3];
  out_height = output.shape[2];
  out_width = output.shape[3];
  const auto list = [&](const char* name, size_t index, int64_t fallback) {
    const std::vector<int64_t>& values = attributes.integers(name);
    return values.empty() ? fallback : values[index];
  };
  stride_y = list("strides", 0, 1);
  stride_x = list("strides", 1, 1);
  dilation_y = list("dilations", 0, 1);
  dilation_x = list("dilations", 1, 1);
  pad_top = list("pads", 0, 0);
  pad_left = list("pads", 1, 0);
}

}  // namespace myops::deform
