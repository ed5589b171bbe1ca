#include <algorithm>
#include <cmath>

#include "plan.h"
#include "reference.h"

namespace fuzz {
namespace {

using namespace myops;

// What csrc/ops/resize cuts by: vectors of 4 to 16 elements, also of bytes, and three of them; rows
// of 16 vectors that are made in chains; tables of 256 outputs at a time; rows of 1920 and 4096
// elements, of which parts are asked for ahead.
constexpr int64_t kLimits[] = {4, 8, 16, 32, 48, 64, 128, 256, 1920, 4096};
// Channels: fewer than 8 are resampled together with the axis next to them.
constexpr int64_t kChannels[] = {1, 2, 3, 3, 4, 7, 8, 9, 16, 33};

// `zoom`: one that all axes have, or 0; below 0 a divisor.
int64_t draw_output(Bytes& bytes, int64_t input, int64_t most, int64_t zoom) {
  if (zoom != 0) {
    const int64_t output = zoom > 0 ? input * zoom : input / -zoom;
    return std::clamp<int64_t>(output, 1, std::max<int64_t>(most, 1));
  }
  const auto of = [&](int64_t up, int64_t down) {
    return std::max<int64_t>(input * up / down + (bytes.one_in(8) ? bytes.between(-1, 1) : 0), 1);
  };
  int64_t output = 0;
  switch (bytes.below(8)) {
    case 0:
    case 1:
      output = of(bytes.pick<int64_t>({2, 3, 4, 8}), 1);
      break;
    case 2:
    case 3:
      output = of(1, bytes.pick<int64_t>({2, 3, 4, 16}));
      break;
    case 4:
      output = bytes.one_in(2) ? of(3, 2) : of(2, 3);
      break;
    case 5:
      output = input;
      break;
    default:
      output = draw_length(bytes, kLimits, most);
  }
  return std::clamp<int64_t>(output, 1, std::max<int64_t>(most, 1));
}

template <class Choices>
std::string any_of(Bytes& bytes, const Choices& choices) {
  return std::data(choices)[bytes.below(std::size(choices))];
}

constexpr const char* kModes[] = {"nearest", "linear", "linear", "cubic", "area"};
constexpr const char* kCoordinates[] = {"half_pixel",         "half_pixel_symmetric",
                                        "pytorch_half_pixel", "align_corners",
                                        "asymmetric",         "tf_crop_and_resize"};
constexpr const char* kRoundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
constexpr const char* kPolicies[] = {"stretch", "stretch", "not_larger", "not_smaller"};

// roi, scales and sizes stand behind the tensors of resize and resize_backward.
Plan plan_resize(Bytes& bytes, const Op& op) {
  const bool backward = op.name != "resize";
  Plan plan;
  plan.most_elements = 1 << 20;
  const std::string mode = any_of(bytes, kModes), any = any_of(bytes, kCoordinates),
                    policy = any_of(bytes, kPolicies);
  const bool area = mode == "area";
  const std::string coordinates = area ? "half_pixel" : any;
  const bool antialias = mode != "nearest" && !area && bytes.one_in(3), torch = bytes.one_in(3);
  plan.attributes = {{"mode", {mode}},
                     {"coordinate_transformation_mode", {coordinates}},
                     {"keep_aspect_ratio_policy", {policy}},
                     {"antialias", {int64_t{antialias}}},
                     {"torch_arithmetic", {int64_t{torch}}}};
  if (bytes.one_in(2)) plan.attributes.push_back({"nearest_mode", {any_of(bytes, kRoundings)}});
  const bool excludes = bytes.one_in(3);
  if (excludes) plan.attributes.push_back({"exclude_outside", {int64_t{1}}});
  if (bytes.one_in(3)) {
    plan.attributes.push_back(
        {"cubic_coeff_a", {static_cast<float>(bytes.between(-12, 4)) / 8.0f}});
  }
  if (bytes.one_in(3)) {
    plan.attributes.push_back(
        {"extrapolation_value", {static_cast<float>(bytes.between(-300, 300)) / 4.0f}});
  }

  // Axes from the one that may be longest on.
  const auto rank = static_cast<size_t>(bytes.pick({4, 4, 4, 3, 5, 2, 1, 6}));
  int64_t budget = draw_budget(bytes, 2, 12, 18);
  std::vector<size_t> order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = i;
  for (size_t i = rank; i > 1; --i) std::swap(order[i - 1], order[bytes.below(i)]);
  // As pictures have it, or the axes each for themselves; several images mostly, now and then many.
  const int64_t zoom = bytes.one_in(3) ? bytes.pick<int64_t>({-2, -2, 2, 2, -3, 3, -4, 4}) : 0;
  const int64_t most_images = bytes.one_in(8) ? 17 : 3;
  Shape x(rank);
  std::vector<int64_t> wanted(rank);
  std::vector<bool> resized(rank);
  for (const size_t axis : order) {
    const bool channels = axis == 1 && rank >= 4;
    x[axis] = bytes.one_in(32) ? 0
              : channels       ? std::min(budget, kChannels[bytes.below(std::size(kChannels))])
              : axis == 0 && rank > 2 ? std::min<int64_t>(budget, bytes.between(1, most_images))
                                      : draw_length(bytes, kLimits, budget);
    resized[axis] = bytes.below(8) >= (channels || (axis == 0 && rank > 2) ? 7u : 1u);
    wanted[axis] =
        !resized[axis] || x[axis] == 0 ? x[axis] : draw_output(bytes, x[axis], budget, zoom);
    budget = std::max<int64_t>(budget / std::max<int64_t>({x[axis], wanted[axis], 1}), 1);
  }
  Ints axes;
  for (const size_t axis : order) {
    if (resized[axis] || bytes.one_in(4)) axes.push_back(static_cast<int64_t>(axis));
  }
  const bool by_sizes = bytes.one_in(2);
  const bool all = axes.empty() || bytes.one_in(8);
  if (all) {
    axes.clear();
    for (size_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<int64_t>(axis));
  }
  std::vector<double> starts, ends, scales, sizes;
  for (const int64_t axis : axes) {
    const auto at = static_cast<size_t>(axis);
    const double input = static_cast<double>(x[at]), output = static_cast<double>(wanted[at]);
    // The ratio, a little more so that nothing is lost to rounding, or another of equal length.
    double scale = x[at] == 0 ? 1.5 : output / input;
    if (scale != std::floor(scale * 64) / 64 || bytes.one_in(8)) {
      scale = x[at] == 0 ? 0.5 : (output + static_cast<double>(bytes.between(1, 15)) / 16) / input;
    }
    scales.push_back(scale);
    sizes.push_back(output);
    const bool plain = bytes.one_in(3);
    starts.push_back(plain ? 0 : static_cast<double>(bytes.between(-4, 8)) / 16);
    ends.push_back(plain ? 1 : static_cast<double>(bytes.between(8, 20)) / 16);
  }
  starts.insert(starts.end(), ends.begin(), ends.end());
  if (!all) {
    Ints given = axes;
    for (int64_t& axis : given) axis -= bytes.one_in(4) ? static_cast<int64_t>(rank) : 0;
    plan.attributes.push_back({"axes", {given}});
  }
  Shape y = x;
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto at = static_cast<size_t>(axes[i]);
    y[at] = by_sizes ? resized_length(x, axes, sizes, i, policy, torch)
                     : scaled_length(x[at], scales[i], torch);
  }
  if (backward) plan.inputs.push_back({y});
  plan.inputs.push_back({x});
  const auto list = [&](bool given, const std::vector<double>& values) {
    const Shape shape{static_cast<int64_t>(values.size())};
    plan.inputs.push_back({given ? std::optional(shape) : std::nullopt, values});
  };
  list(coordinates == "tf_crop_and_resize" || bytes.one_in(4), starts);
  list(!by_sizes, scales);
  list(by_sizes, sizes);

  const int64_t count = std::max(element_count(x), element_count(y));
  bool shrinks = false, grows = false;
  for (size_t axis = 0; axis < rank; ++axis) {
    shrinks = shrinks || y[axis] < x[axis];
    grows = grows || y[axis] > x[axis];
  }
  plan.facts = {
      "mode: " + mode + (antialias ? ", antialias" : ""),
      "coordinates: " + coordinates,
      std::string("arithmetic: ") + (torch ? "torch" : "ONNX"),
      "lengths: by " + (by_sizes ? "sizes, " + policy : std::string("scales")),
      std::string("direction: ") + (shrinks && grows ? "both"
                                    : shrinks        ? "smaller"
                                    : grows          ? "larger"
                                                     : "equal lengths"),
      "rank: " + std::to_string(rank),
      "resized axes: " + std::to_string(std::count(resized.begin(), resized.end(), true)),
      "elements: " + number_class(count, {0, 1, 64, 1024, 8193, 131073}),
      "last axis of X: " + number_class(x[rank - 1], {0, 1, 2, 8, 33, 129, 1921}),
  };
  if (mode != "nearest") {
    plan.facts.push_back(std::string("outside: ") + (excludes ? "excluded" : "the edge"));
  }
  if (rank >= 4) plan.facts.push_back("channels: " + number_class(x[1], {0, 1, 2, 3, 4, 8}));
  return plan;
}

const AddPlan added({"resize", "resize_backward"}, plan_resize);

}  // namespace
}  // namespace fuzz
