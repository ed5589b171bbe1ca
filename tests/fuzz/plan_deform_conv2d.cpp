#include <algorithm>
#include <numeric>

#include "plan.h"

namespace fuzz {
namespace {

using namespace myops;

// What csrc/ops/deform_conv2d/blocking.h and its users cut by: vectors of 4 to 16, pixels of 8
// channels or fewer, blocks of 16, 32 and 64, each up to half as long again; panels of up to 32
// outputs, products of 128 or 256; blocks of 9 and 16 taps; 8 offset groups, from which on they are
// done side by side, and jobs of 16; strips, rows of 128 columns, tiles of 512 or 1024 pixels.
constexpr int64_t kChannels[] = {4, 8, 16, 24, 32, 48, 64, 96, 160};
constexpr int64_t kOutputs[] = {4, 8, 16, 32, 128, 256};
constexpr int64_t kGroups[] = {2, 4, 8, 16, 32};
constexpr int64_t kOffsetGroups[] = {2, 8, 8, 16, 17};
constexpr int64_t kColumns[] = {8, 16, 32, 64, 128, 256, 512, 1024};

struct Sizes {
  int64_t batch, groups, offset_groups, channels, outputs;
  Ints kernel, out;
};

Sizes draw_sizes(Bytes& bytes, bool costly) {
  Sizes sizes{1, 1, 1, 1, 1, {1, 1}, {1, 1}};
  enum Kind {
    Dense,
    Grouped,
    Depthwise,
    Multiplied
  } const kind = static_cast<Kind>(bytes.below(4));
  int64_t budget = draw_budget(bytes, 3, costly ? 13 : 14, 19);
  int64_t multiple = 1, each = 1;
  const auto take = [&](int64_t& length, const auto& limits) {
    length = draw_length(bytes, limits, budget);
    budget = std::max<int64_t>(budget / length, 1);
  };
  // Who comes first may be long.
  std::vector<int> order = {0, 1, 2, 3, 4, 5, 6};
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[bytes.below(i)]);
  for (const int next : order) {
    switch (next) {
      case 0:
        if (kind == Grouped) take(sizes.groups, kGroups);
        break;
      case 1:
        if (bytes.one_in(16)) {  // many, of a channel each
          sizes.offset_groups = bytes.between(1, std::min<int64_t>(budget, 1000));
          budget = std::max<int64_t>(budget / sizes.offset_groups, 1);
        } else {
          take(sizes.offset_groups, kOffsetGroups);
        }
        break;
      case 2:
        take(multiple, kChannels);
        break;
      case 3:
        if (kind != Depthwise) take(each, kOutputs);
        break;
      case 4: {
        if (bytes.one_in(3)) break;
        const Ints kernels[] = {{3, 3},  {1, 3}, {2, 3}, {3, 3}, {4, 4}, {3, 5},
                                {1, 17}, {5, 5}, {2, 2}, {5, 1}, {7, 5}};
        const Ints& kernel = kernels[bytes.below(std::size(kernels))];
        if (kernel[0] * kernel[1] > budget) break;
        sizes.kernel = kernel;
        budget /= kernel[0] * kernel[1];
        break;
      }
      case 5: {
        take(sizes.out[1], kColumns);
        take(sizes.out[0], kColumns);
        if (bytes.one_in(2)) std::swap(sizes.out[0], sizes.out[1]);
        break;
      }
      default:
        sizes.batch = bytes.one_in(32) ? 0 : bytes.between(1, std::min<int64_t>(budget, 5));
        budget = std::max<int64_t>(budget / std::max<int64_t>(sizes.batch, 1), 1);
    }
  }
  sizes.channels = std::lcm(sizes.groups, sizes.offset_groups) * multiple;
  if (kind >= Depthwise) sizes.groups = sizes.channels;
  sizes.outputs = sizes.groups * each;
  return sizes;
}

Ints flags(Bytes& bytes, size_t count) {
  Ints list(count);
  for (int64_t& flag : list) flag = bytes.one_in(3) ? 0 : 1;
  return list;
}

Plan plan_deform_conv2d(Bytes& bytes, const Op& op) {
  const bool backward = op.name.rfind("deform_conv2d_backward", 0) == 0;
  const bool twice = op.name == "deform_conv2d_backward_backward";
  const Sizes sizes = draw_sizes(bytes, backward);
  const Ints& kernel = sizes.kernel;
  Ints strides(2), dilations(2), pads(4), size(2), out(2);
  for (size_t axis = 0; axis < 2; ++axis) {
    strides[axis] = bytes.pick<int64_t>({1, 1, 1, 1, 2, 3});
    // Few pixels of an image that is too large for one window.
    const int64_t cost = sizes.batch * sizes.channels * sizes.out[0] * sizes.out[1];
    if (cost < 256 && bytes.one_in(8)) strides[axis] = 41;
    dilations[axis] = bytes.one_in(16) && cost < 256 ? bytes.between(1, 50) : bytes.between(1, 2);
    pads[axis] = bytes.one_in(32) ? bytes.between(0, 40) : bytes.between(0, 2);
    pads[axis + 2] = bytes.between(0, 2);
    const int64_t extent = (kernel[axis] - 1) * dilations[axis] + 1;
    const int64_t padded = (sizes.out[axis] - 1) * strides[axis] + extent;
    size[axis] = std::max<int64_t>(padded - pads[axis] - pads[axis + 2], bytes.one_in(2) ? 0 : 1);
    // Few pixels or none somewhere in much padding: outputs on both sides of them sample nothing.
    if (bytes.one_in(12)) {
      size[axis] = std::min(bytes.between(0, 2), padded);
      pads[axis] = bytes.between(0, padded - size[axis]);
      pads[axis + 2] = padded - size[axis] - pads[axis];
    }
    size[axis] += bytes.between(0, strides[axis] - 1);
    const int64_t all = size[axis] + pads[axis] + pads[axis + 2];
    out[axis] = all < extent ? 0 : (all - extent) / strides[axis] + 1;
  }
  const int64_t taps = kernel[0] * kernel[1], planes = sizes.offset_groups * taps;
  const Shape X = {sizes.batch, sizes.channels, size[0], size[1]};
  const Shape W = {sizes.outputs, sizes.channels / sizes.groups, kernel[0], kernel[1]};
  const Shape offset = {sizes.batch, 2 * planes, out[0], out[1]};
  const Shape mask = {sizes.batch, planes, out[0], out[1]};
  const Shape Y = {sizes.batch, sizes.outputs, out[0], out[1]};
  const bool masked = bytes.one_in(2);
  // Near, across the image, from outside of it; on a grid that holds integers, ties and edges.
  const int64_t reach = bytes.pick<int64_t>({1, 2, 2, 4, 15});
  const size_t positions = bytes.below(8);

  Plan plan;
  plan.most_elements = 1 << 20;
  int absent = 0;
  for (const myops::Input& input : op.inputs) {
    const bool arrives = input.name.rfind("grad_grad_", 0) == 0;
    const std::string base = arrives ? input.name.substr(10) : input.name;
    const bool none = input.is_optional && ((base == "mask" && !masked) || bytes.one_in(3)) &&
                      !(input.name == "mask" && masked);
    absent += arrives && none;
    // Of deform_conv2d_int8: scales, and a zero point.
    const bool one =
        base == "X_scale" || base == "X_zero_point" || (base == "W_scale" && bytes.one_in(2));
    Plan::Item item{none                               ? std::nullopt
                    : one                              ? std::optional(Shape{1})
                    : base == "X"                      ? std::optional(X)
                    : base == "W"                      ? std::optional(W)
                    : base == "offset"                 ? std::optional(offset)
                    : base == "mask"                   ? std::optional(mask)
                    : base == "B" || base == "W_scale" ? std::optional(Shape{sizes.outputs})
                                                       : std::optional(Y)};
    if (input.name == "offset") {
      item.fill = positions == 0   ? Plan::Fill::Zero
                  : positions <= 5 ? Plan::Fill::Grid
                                   : Plan::Fill::Any;
      item.range = reach;
    }
    plan.inputs.push_back(std::move(item));
  }
  plan.attributes = {{"group", {sizes.groups}},
                     {"offset_group", {sizes.offset_groups}},
                     {"strides", {strides}},
                     {"dilations", {dilations}},
                     {"pads", {pads}}};
  if (bytes.one_in(2)) plan.attributes.push_back({"kernel_shape", {kernel}});
  bool partly = false;
  if (backward && bytes.one_in(2)) {
    const Ints needs = flags(bytes, twice ? 5 : 4);
    partly = std::count(needs.begin(), needs.end(), 0) > 0;
    plan.attributes.push_back({"needs", {needs}});
  }

  const bool depthwise = sizes.groups == sizes.channels && sizes.groups == sizes.outputs;
  const int64_t pixels = out[0] * out[1];
  plan.facts = {
      "groups: " + number_class(sizes.groups, {1, 2, 8, 32, 100}),
      "offset groups: " + number_class(sizes.offset_groups, {1, 2, 8, 9, 32, 100}),
      std::string("filters: ") + (depthwise ? "depthwise" : "sums over channels"),
      std::string("filters and offset groups: ") + (depthwise ? "depthwise, " : "sums, ") +
          number_class(sizes.offset_groups, {1, 8}),
      "channels of an offset group: " +
          number_class(sizes.channels / sizes.offset_groups, {1, 2, 9, 17, 33, 65}),
      "outputs of a group: " + number_class(sizes.outputs / sizes.groups, {1, 2, 17, 33, 129, 257}),
      "taps: " + number_class(taps, {1, 2, 10, 17}),
      "pixels of an image: " + number_class(pixels, {0, 1, 2, 64, 512, 1025}),
      "pixels of X: " + number_class(size[0] * size[1], {0, 1, 2, 64, 512, 1025}),
      "samples of an image and offset group: " +
          number_class(pixels * taps * (sizes.channels / sizes.offset_groups),
                       {0, 1, 1024, 4096, 8192, 24577}),
      "images: " + number_class(sizes.batch, {0, 1, 2}),
      std::string("mask: ") + (masked ? "given" : "none"),
      std::string("offsets: ") + (positions == 0   ? "zero"
                                  : positions <= 5 ? "on a grid"
                                                   : "any"),
  };
  if (backward) {
    plan.facts.push_back(partly ? "gradients wanted: some" : "gradients wanted: all");
  }
  if (twice)
    plan.facts.push_back("gradients that are absent: " + number_class(absent, {0, 1, 2, 4}));
  return plan;
}

const AddPlan added({"deform_conv2d", "deform_conv2d_backward", "deform_conv2d_backward_backward",
                     "deform_conv2d_int8"},
                    plan_deform_conv2d);

}  // namespace
}  // namespace fuzz
