// Interprets and checks scales, sizes, axes, roi and keep_aspect_ratio_policy.
//
// Output length of a resized axis, `in` its input length:
//   scales                 floor(in * scale), the product rounded to float32
//   sizes, stretch         the size
//   sizes, other policies  round_half_up(in * scale), one scale for all resized axes: the smallest
//                          (not_larger) or largest (not_smaller) of size / in, all in float32
// That is what ONNX Runtime does. With torch_arithmetic the products are computed in float64, as in
// torch. The results differ: 45 * 1.4 is 63 in float32 and a little less in float64.
#include "geometry.h"

#include <algorithm>
#include <cmath>

namespace myops::resize {
namespace {

constexpr int64_t kMaxLength = int64_t{1} << 40;

using Listed = SmallVector<size_t, 6>;

// The axes that the lists describe, in the order of the lists.
Listed listed_axes(const Request& request) {
  const auto rank = static_cast<int64_t>(request.x.size());
  Listed axes;
  axes.reserve(request.x.size());
  if (request.axes.empty()) {
    for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(static_cast<size_t>(axis));
  }
  for (int64_t given : request.axes) {
    if (given < -rank || given >= rank) {
      fail(request.op, "axes", str("axis ", given), str("values from ", -rank, " to ", rank - 1));
    }
    const auto axis = static_cast<size_t>(given < 0 ? given + rank : given);
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) {
      fail(request.op, "axes", str(request.axes, ", where axis ", axis, " is repeated"),
           "each axis once");
    }
    axes.push_back(axis);
  }
  return axes;
}

void check_length(const Request& request, const List& list, const char* name, size_t count,
                  size_t factor) {
  if (!list.certain || list.length == static_cast<int64_t>(count * factor)) return;
  fail(request.op, name, str("length ", list.length),
       str("length ", count * factor, " (", factor == 2 ? "twice " : "",
           request.axes.empty() ? "the rank of X)" : "the number of axes)"));
}

void check_choice(const Request& request, size_t count) {
  const List &scales = request.scales, &sizes = request.sizes;
  const char* both = "scales, sizes";
  if (scales.present && sizes.present && scales.certain && sizes.certain) {
    fail(request.op, both, "both", "exactly one of them");
  }
  if (!scales.present && !sizes.present) fail(request.op, both, "neither", "exactly one of them");
  if (scales.present && !(sizes.present && sizes.certain)) {
    check_length(request, scales, "scales", count, 1);
  }
  if (sizes.present && !(scales.present && scales.certain)) {
    check_length(request, sizes, "sizes", count, 1);
  }
}

void check_settings(const Request& request, size_t count) {
  const Settings& settings = request.settings;
  const bool area = settings.mode == Mode::Area;
  if (settings.antialias && (settings.mode == Mode::Nearest || area)) {
    fail(request.op, "antialias", str("True with mode \"", area ? "area" : "nearest", "\""),
         "mode \"linear\" or \"cubic\"");
  }
  if (area && settings.coordinates != Coordinates::HalfPixel) {
    fail(request.op, "coordinate_transformation_mode",
         str("\"", coordinate_names()[static_cast<size_t>(settings.coordinates)],
             "\" with mode \"area\""),
         "\"half_pixel\", as \"area\" averages intervals between the lengths alone");
  }
  if (settings.coordinates != Coordinates::TfCropAndResize) return;  // roi has no meaning
  if (!request.roi.present) {
    fail(request.op, "roi", "nothing",
         "a list, as coordinate_transformation_mode is \"tf_crop_and_resize\"");
  }
  check_length(request, request.roi, "roi", count, 2);
  if (!request.roi.values) return;
  for (double bound : *request.roi.values) {
    if (!std::isfinite(static_cast<float>(bound))) {
      fail(request.op, "roi", str(*request.roi.values), "finite float32 numbers");
    }
  }
}

// The scale or size of one axis.
struct Rule {
  const Request& request;
  const char* list;  // the name of the list that decides
  size_t axis;

  void check_output(int64_t input, double output) const {
    if (output < 1) {
      fail(request.op, list, str("an output of length 0 on axis ", axis),
           str("at least 1, as the input has length ", input, " there"));
    }
    if (output > static_cast<double>(kMaxLength)) {
      fail(request.op, list, str("an output of length ", output, " on axis ", axis),
           "at most 2^40 elements");
    }
  }

  // Rounds the scale to the precision in which it is used.
  double check_scale(double given) const {
    const double scale =
        request.settings.torch_arithmetic ? given : static_cast<double>(static_cast<float>(given));
    if (!std::isfinite(scale) || scale <= 0) {
      const bool fine = std::isfinite(given) && given > 0;
      fail(request.op, list, str(given, " on axis ", axis),
           str("a finite number above 0", fine ? " in float32, to which scales are rounded" : ""));
    }
    return scale;
  }

  Dim scaled(const Dim& input, double scale) const {
    if (scale == 1) return input;
    if (!input.known()) return Dim();
    if (input.value == 0) return Dim(0);
    const double product = request.settings.torch_arithmetic
                               ? static_cast<double>(input.value) * scale
                               : static_cast<float>(input.value) * static_cast<float>(scale);
    check_output(input.value, std::floor(product));
    return Dim(static_cast<int64_t>(product));
  }

  void check_size(const Dim& input, double size) const {
    const auto refuse = [&](const char* expected) {
      // (All digits, which a number with a fraction would not be shown with.)
      const bool whole = std::abs(size) < 0x1p63;
      const std::string got = whole ? str(static_cast<int64_t>(size)) : str(size);
      fail(request.op, list, str(got, " on axis ", axis), expected);
    };
    if (input.value == 0 && size != 0) refuse("0, as X is empty there");
    if (size < 0 || (size == 0 && input.value > 0)) refuse("at least 1");
    if (size > static_cast<double>(kMaxLength)) refuse("at most 2^40");
  }

  Dim fitted(const Dim& input, double scale) const {
    if (input.value == 0) return input;
    const double product = request.settings.torch_arithmetic
                               ? static_cast<double>(input.value) * scale
                               : static_cast<float>(input.value) * static_cast<float>(scale);
    const double length = std::round(product);  // half up, as the product is positive
    check_output(input.value, length);
    return Dim(static_cast<int64_t>(length));
  }
};

// The common scale that preserves the aspect ratio; nullopt while a length is unknown.
std::optional<double> common_scale(const Request& request, const Listed& axes) {
  std::optional<double> chosen;
  for (size_t i = 0; i < axes.size(); ++i) {
    const Dim& input = request.x[axes[i]];
    if (!input.known()) return std::nullopt;
    if (input.value == 0) continue;
    const double size = (*request.sizes.values)[i];
    const double length = static_cast<double>(input.value);
    const double scale = request.settings.torch_arithmetic
                             ? size / length
                             : static_cast<float>(size) / static_cast<float>(length);
    const bool better = request.settings.policy == Policy::NotLarger
                            ? scale < chosen.value_or(scale)
                            : scale > chosen.value_or(scale);
    if (!chosen || better) chosen = scale;
  }
  return chosen.value_or(1);
}

void apply_scales(const Request& request, const Listed& axes, Geometry& geometry) {
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axes[i];
    if (!request.scales.values) {
      geometry.output[axis] = Dim();
      continue;
    }
    const Rule rule{request, "scales", axis};
    const double scale = rule.check_scale((*request.scales.values)[i]);
    geometry.axes[axis].scale = scale;
    geometry.output[axis] = rule.scaled(request.x[axis], scale);
  }
}

void apply_sizes(const Request& request, const Listed& axes, Geometry& geometry) {
  const bool known = request.sizes.values.has_value();
  for (size_t i = 0; i < axes.size() && known; ++i) {
    Rule{request, "sizes", axes[i]}.check_size(request.x[axes[i]], (*request.sizes.values)[i]);
  }
  const bool stretch = request.settings.policy == Policy::Stretch;
  const std::optional<double> scale =
      known && !stretch ? common_scale(request, axes) : std::nullopt;
  for (size_t i = 0; i < axes.size(); ++i) {
    const size_t axis = axes[i];
    if (known && stretch) {
      geometry.axes[axis].scale = 0;
      geometry.output[axis] = Dim(static_cast<int64_t>((*request.sizes.values)[i]));
    } else if (scale) {
      geometry.axes[axis].scale = *scale;
      geometry.output[axis] = Rule{request, "sizes", axis}.fitted(request.x[axis], *scale);
    } else {
      geometry.output[axis] = Dim();
    }
  }
}

}  // namespace

Geometry resolve(const Request& request) {
  const size_t rank = request.x.size();
  if (rank == 0) fail(request.op, "X", "rank 0", "rank 1 or more");
  const Listed axes = listed_axes(request);
  check_settings(request, axes.size());
  check_choice(request, axes.size());

  Geometry geometry{request.x, Axes(rank)};
  // A list of unknown length beside a list that is certainly present can only be empty.
  const bool by_sizes = request.sizes.present && (request.sizes.certain || !request.scales.present);
  const bool undecided = request.scales.present && request.sizes.present &&
                         !request.scales.certain && !request.sizes.certain;
  if (undecided) {
    for (size_t axis : axes) geometry.output[axis] = Dim();
  } else if (by_sizes) {
    apply_sizes(request, axes, geometry);
  } else {
    apply_scales(request, axes, geometry);
  }

  for (size_t axis = 0; axis < rank; ++axis) {
    geometry.axes[axis].input = request.x[axis].value;
    geometry.axes[axis].output = geometry.output[axis].value;
  }
  if (request.settings.coordinates == Coordinates::TfCropAndResize && request.roi.values) {
    for (size_t i = 0; i < axes.size(); ++i) {
      geometry.axes[axes[i]].roi_start = (*request.roi.values)[i];
      geometry.axes[axes[i]].roi_end = (*request.roi.values)[axes.size() + i];
    }
  }
  if (rank == 4) {
    const int64_t rows = geometry.output[2].value, columns = geometry.output[3].value;
    const bool small = rows <= 128 && columns <= 128 - rows;
    geometry.axes[2].small_picture = geometry.axes[3].small_picture = small;
  }
  return geometry;
}

std::vector<size_t> memory_order(size_t rank, bool channels_last) {
  std::vector<size_t> order;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (!channels_last || axis != 1) order.push_back(axis);
  }
  if (channels_last) order.push_back(1);
  return order;
}

bool is_identity(const Settings& settings, const Axis& axis) {
  if (axis.input != axis.output) return false;
  const bool crops = settings.coordinates == Coordinates::TfCropAndResize;
  if (crops && (axis.roi_start != 0 || axis.roi_end != 1)) return false;
  if (axis.scale == 0 || axis.scale == 1 || settings.mode == Mode::Area) return true;
  // Torch copies an axis of unchanged length, whatever its scale is.
  if (settings.torch_arithmetic && (settings.mode == Mode::Linear || settings.antialias)) {
    return true;
  }
  // These map corner to corner, so only the width of an antialiasing filter depends on the scale.
  const bool corners = crops || settings.coordinates == Coordinates::AlignCorners;
  return corners && !(settings.antialias && axis.scale < 1);
}

// An axis that shrinks leaves less to the passes behind it. But where outputs leave out elements
// between their taps, slabs would be combined of which the other passes read a part; only for the
// last two axes this costs less than the passes along rows that it saves, unless the columns shrink
// much more than the rows.
bool resamples_first(const Settings& settings, bool backward, int64_t from, int64_t to,
                     size_t behind, int64_t inner_from, int64_t inner_to) {
  if (behind == 0 || to >= from) return false;
  if (backward || settings.antialias || settings.mode == Mode::Area) return true;
  if (behind > 1) return inner_from <= inner_to;
  // (Quotients, unlike products, do not depend on the number of channels in both lengths.)
  // An element of the pass along rows costs so many of the other; measured.
  const double cost = settings.mode == Mode::Cubic ? 6 : 10;
  const double rows = static_cast<double>(to) / static_cast<double>(from);
  const double columns = static_cast<double>(inner_to) / static_cast<double>(inner_from);
  return columns * (cost * (1 - rows) + rows) >= rows;
}

}  // namespace myops::resize
