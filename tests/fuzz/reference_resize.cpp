// resize and its transpose: the text of ONNX Resize-19, and of torch where torch_arithmetic is set.
// Every axis is a table of taps, made from exact coordinates; the tables are applied one axis after
// the other. A kernel's coordinates are rounded: `slack` is what that may change in a sum, and
// where it may decide which element is nearest, or whether one is outside, the element is `unsure`.
// That is within 8 rounding errors of a tie or an edge, unless the coordinate is exactly there and
// nothing that it is computed from was rounded.
#include <algorithm>

#include "reference.h"

namespace fuzz {
namespace {

using namespace myops;
using Real = long double;

struct Settings {
  std::string mode, coordinates, rounding, policy;
  bool antialias, excludes, torch;
  Real a, extrapolation;

  explicit Settings(const Attributes& attributes)
      : mode(attributes.text("mode")),
        coordinates(attributes.text("coordinate_transformation_mode")),
        rounding(attributes.text("nearest_mode")),
        policy(attributes.text("keep_aspect_ratio_policy")),
        antialias(attributes.flag("antialias")),
        excludes(attributes.flag("exclude_outside")),
        torch(attributes.flag("torch_arithmetic")),
        a(attributes.real("cubic_coeff_a")),
        extrapolation(attributes.real("extrapolation_value")) {}
  bool crops() const { return coordinates == "tf_crop_and_resize"; }
};

// The scale that all listed axes have where the aspect ratio is kept.
double common_scale(const Shape& x, const std::vector<int64_t>& axes,
                    const std::vector<double>& sizes, const std::string& policy, bool torch) {
  double chosen = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t input = x[static_cast<size_t>(axes[i])];
    if (input == 0) continue;
    const double scale =
        torch ? sizes[i] / static_cast<double>(input)
              : static_cast<double>(static_cast<float>(sizes[i]) / static_cast<float>(input));
    const bool better = policy == "not_larger" ? scale < chosen : scale > chosen;
    if (chosen == 0 || better) chosen = scale;
  }
  return chosen == 0 ? 1 : chosen;
}

struct Axis {
  int64_t input, output;
  Real scale = 0;  // as given; 0: none, it is the ratio of the lengths
  Real start = 0, end = 1;
  bool small_picture = false;
};

struct Tap {
  int64_t index;
  Real weight;
};
struct Table {
  int64_t input = 0, output = 0;
  std::vector<std::vector<Tap>> taps;
  std::vector<uint8_t> outside, unsure;  // of each output
  std::vector<uint8_t> unsure_inputs;    // that an unsure output may have been made from
  Real error = 0;                        // of the weights of an output together
  bool copies = false;                   // the axis is left as it is
};

class MakeTable {
 public:
  // u: the rounding error of the arithmetic. finite: all numbers are.
  MakeTable(const Settings& settings, const Axis& axis, Real u, bool finite)
      : settings_(settings),
        axis_(axis),
        u_(u),
        last_(static_cast<Real>(axis.input - 1)),
        finite_(finite) {
    const Real L = static_cast<Real>(axis.input), R = static_cast<Real>(axis.output);
    scale_ = axis.scale != 0 ? axis.scale : R / L;
    const bool scale_fits = static_cast<Real>(static_cast<float>(scale_)) == scale_;
    const Real step = 1 / scale_;
    const bool step_fits = static_cast<Real>(static_cast<float>(step)) == step && scale_fits;
    const bool by_corners = settings.coordinates == "align_corners" || settings.crops();
    exact_ = settings.torch ? (!by_corners || settings.crops()) && (step_fits || settings.crops())
                            : scale_fits || by_corners;
    if (settings.coordinates == "half_pixel_symmetric") exact_ = exact_ && scale_ * L == R;
    // torch rounds places to float32 in all dtypes.
    if (settings.torch && settings.mode == "nearest") u_ = 6e-8L;
  }

  Table make() {
    Table table;
    table.input = axis_.input;
    table.output = axis_.output;
    table.copies = is_copied();
    table.unsure_inputs.resize(static_cast<size_t>(axis_.input));
    Real farthest = 0;
    for (int64_t o = 0; o < axis_.output; ++o) {
      taps_.clear();
      const Real x = coordinate(static_cast<Real>(o)), near = error(x);
      bool outside = false, unsure = false;
      if (table.copies) {
        taps_ = {{o, 1}};
      } else {
        const bool inside_by_far = x >= near && x <= last_ - near;
        outside = settings_.crops() && !(x >= 0 && x <= last_);
        const bool exact = exact_ && product_fits(static_cast<Real>(o));
        const bool exactly = exact && (x == 0 || x == last_);
        unsure = settings_.crops() && !inside_by_far && x > -near && x < last_ + near && !exactly;
        if (!(std::fabs(x) < 1e15L)) {  // a roi of any numbers; no window is looked for there
          unsure |= !outside;
        } else if (settings_.mode == "nearest" && is_small_special_case()) {
          add(axis_.input == axis_.output ? o : o / 2, 1);
        } else if (settings_.mode == "nearest") {
          unsure |= nearest(x, near, exact);
        } else if (settings_.antialias) {
          unsure |= !window(static_cast<Real>(o), x);
        } else if (settings_.mode == "linear") {
          linear(x);
        } else {
          unsure |= !cubic(x);
        }
      }
      farthest = std::max(farthest, near);
      if (unsure) doubt(table.unsure_inputs);
      if (!finite_ && !table.copies && settings_.mode != "nearest") touch_neighbours();
      if (outside) taps_.clear();
      table.taps.push_back(taps_);
      table.outside.push_back(outside);
      table.unsure.push_back(unsure);
    }
    if (!table.copies && settings_.mode != "nearest") table.error = weight_error(farthest);
    return table;
  }

 private:
  bool is_copied() const {
    if (axis_.input != axis_.output) return false;
    if (settings_.crops() && (axis_.start != 0 || axis_.end != 1)) return false;
    if (axis_.scale == 0 || axis_.scale == 1) return true;
    // torch copies an axis of unchanged length; nearest it does not.
    if (settings_.torch && (settings_.mode == "linear" || settings_.antialias)) return true;
    const bool by_corners = settings_.crops() || settings_.coordinates == "align_corners";
    return by_corners && !(settings_.antialias && axis_.scale < 1);
  }

  // torch has a second kernel for pictures of at most 128 rows and columns together. It takes the
  // scales 1 and 2 from the lengths, whatever scale led to them.
  bool is_small_special_case() const {
    return settings_.torch && axis_.small_picture && settings_.coordinates == "asymmetric" &&
           settings_.rounding == "floor" &&
           (axis_.output == axis_.input || axis_.output == 2 * axis_.input);
  }

  Real coordinate(Real x) const {
    const Real L = static_cast<Real>(axis_.input), R = static_cast<Real>(axis_.output);
    const std::string& kind = settings_.coordinates;
    if (kind == "asymmetric") return x / scale_;
    if (kind == "align_corners") return R > 1 ? x * (L - 1) / (R - 1) : 0;
    if (settings_.crops()) {
      return R > 1 ? axis_.start * (L - 1) + x * (axis_.end - axis_.start) * (L - 1) / (R - 1)
                   : (axis_.start + axis_.end) * (L - 1) / 2;
    }
    if (kind == "pytorch_half_pixel" && R == 1) return 0;
    const Real half = (x + 0.5L) / scale_ - 0.5L;
    if (kind == "half_pixel_symmetric") return L / 2 * (1 - R / (scale_ * L)) + half;
    return half;
  }
  // Whether float32 holds the product that is divided by the output's length less 1.
  bool product_fits(Real x) const {
    const Real wide = settings_.crops() ? axis_.end - axis_.start : 1;
    const bool by_corners = settings_.crops() || settings_.coordinates == "align_corners";
    const auto fits = [](Real number) {
      return static_cast<Real>(static_cast<float>(number)) == number;
    };
    return !by_corners ||
           (fits(wide) && fits(x * wide) && fits(x * wide * last_) && fits(axis_.start * last_));
  }
  // Of a coordinate.
  Real error(Real x) const {
    const Real L = static_cast<Real>(axis_.input);
    Real size = 1 + std::fabs(x);
    if (settings_.crops()) size += (std::fabs(axis_.start) + std::fabs(axis_.end)) * L;
    if (settings_.coordinates == "half_pixel_symmetric") size += L;
    return 8 * u_ * size;
  }
  Real weight_error(Real near) const {
    const Real steep = settings_.mode == "cubic" ? 6 * (1 + std::fabs(settings_.a)) : 4;
    return steep * (near + 8 * u_) / std::min<Real>(least_total_, 1);
  }

  // Rounding may let a kernel read one element more, with a weight of about 0: what is not finite
  // there is then seen.
  void touch_neighbours() {
    if (taps_.empty()) return;
    const auto less = [](const Tap& a, const Tap& b) { return a.index < b.index; };
    const auto ends = std::minmax_element(taps_.begin(), taps_.end(), less);
    const int64_t first = ends.first->index, last = ends.second->index;
    add(first - 1, 0);
    add(last + 1, 0);
  }

  // What the taps may be instead lies beside them.
  void doubt(std::vector<uint8_t>& inputs) const {
    if (taps_.empty()) std::fill(inputs.begin(), inputs.end(), 1);
    for (const Tap& tap : taps_) {
      for (int64_t k = std::max<int64_t>(tap.index - 1, 0);
           k <= std::min(tap.index + 1, axis_.input - 1); ++k) {
        inputs[static_cast<size_t>(k)] = 1;
      }
    }
  }

  void add(int64_t index, Real weight) {
    taps_.push_back({std::clamp<int64_t>(index, 0, axis_.input - 1), weight});
  }

  // Whether rounding could choose another element.
  bool nearest(Real x, Real near, bool exact) {
    const std::string& rule = settings_.rounding;
    const bool at_half = rule[0] == 'r';  // round_prefer_...
    const Real place = at_half ? x - 0.5L : x;
    const Real distance = std::fabs(place - std::round(place));
    const Real floor = std::floor(x), rest = x - floor;
    Real chosen = floor;
    if (rule == "round_prefer_floor") chosen = rest > 0.5L ? floor + 1 : floor;
    if (rule == "round_prefer_ceil") chosen = rest >= 0.5L ? floor + 1 : floor;
    if (rule == "ceil") chosen = std::ceil(x);
    add(static_cast<int64_t>(chosen), 1);
    // What is within 1e-6 of a tie counts as one (docs/ops.md).
    const Real reach = at_half ? std::max(near, 2e-6L) : near;
    return distance < reach && !(distance == 0 && exact);
  }

  void linear(Real x) {
    const Real inside = std::clamp<Real>(x, 0, last_), left = std::floor(inside);
    add(static_cast<int64_t>(left), 1 - (inside - left));
    add(static_cast<int64_t>(left) + 1, inside - left);
  }

  Real keys(Real x) const {
    const Real a = settings_.a;
    x = std::fabs(x);
    if (x <= 1) return (a + 2) * x * x * x - (a + 3) * x * x + 1;
    if (x < 2) return a * x * x * x - 5 * a * x * x + 8 * a * x - 4 * a;
    return 0;
  }
  bool cubic(Real x) {
    const auto left = static_cast<int64_t>(std::floor(x));
    Real total = 0;
    for (int64_t k = left - 1; k <= left + 2; ++k) {
      if (settings_.excludes && (k < 0 || k >= axis_.input)) continue;
      const Real weight = keys(x - static_cast<Real>(k));
      add(k, weight);
      total += weight;
    }
    return !settings_.excludes || normalize(total);
  }

  // The filter, made wider by 1 / scale where the axis shrinks.
  bool window(Real o, Real x) {
    const bool torch = settings_.torch && (settings_.coordinates == "half_pixel" ||
                                           settings_.coordinates == "align_corners");
    const Real L = static_cast<Real>(axis_.input), R = static_cast<Real>(axis_.output);
    const Real step = !(settings_.torch && settings_.coordinates == "align_corners") ? 1 / scale_
                      : R > 1 ? (L - 1) / (R - 1)
                              : 0;
    const Real center = torch ? step * (o + 0.5L) : x + 0.5L;
    const Real wide = std::max<Real>(step, 1);
    const Real reach = (settings_.mode == "linear" ? 1 : 2) * wide;
    Real total = 0;
    for (auto k = static_cast<int64_t>(std::floor(center - reach)) - 1;
         static_cast<Real>(k) <= center + reach + 1; ++k) {
      if (settings_.excludes && (k < 0 || k >= axis_.input)) continue;
      const Real at = std::fabs((static_cast<Real>(k) + 0.5L - center) / wide);
      const Real weight = settings_.mode == "cubic" ? keys(at) : std::max<Real>(1 - at, 0);
      if (at >= reach / wide) continue;
      add(k, weight);
      total += weight;
    }
    return normalize(total);
  }

  // False where the weights hardly add up to anything, so that their errors are all that there is.
  bool normalize(Real total) {
    Real size = 0;
    for (const Tap& tap : taps_) size += std::fabs(tap.weight);
    if (std::fabs(total) < 0.05L * size || size < 0.05L) return false;
    least_total_ = std::min(least_total_, std::fabs(total));
    for (Tap& tap : taps_) tap.weight /= total;
    return true;
  }

  const Settings& settings_;
  const Axis& axis_;
  Real u_, last_, scale_ = 1, least_total_ = 1;
  bool exact_ = false, finite_ = true;
  std::vector<Tap> taps_;
};

// What is there after some of the axes.
struct Numbers {
  Shape shape;
  std::vector<Number> elements;
};

// Applies a table along an axis; its transpose where `backward`.
Numbers apply(const Numbers& from, size_t axis, const Table& table, bool backward) {
  Numbers to{from.shape, {}};
  to.shape[axis] = backward ? table.input : table.output;
  to.elements.resize(static_cast<size_t>(element_count(to.shape)));
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= from.shape[i];
  for (size_t i = axis + 1; i < from.shape.size(); ++i) inner *= from.shape[i];
  for (int64_t block = 0; block < outer; ++block) {
    for (int64_t o = 0; o < table.output; ++o) {
      for (const Tap& tap : table.taps[static_cast<size_t>(o)]) {
        const Number weight(static_cast<double>(tap.weight));
        const int64_t out = backward ? tap.index : o, in = backward ? o : tap.index;
        const Number* source = from.elements.data() + (block * from.shape[axis] + in) * inner;
        Number* target = to.elements.data() + (block * to.shape[axis] + out) * inner;
        for (int64_t i = 0; i < inner; ++i) target[i] += weight * source[i];
      }
    }
  }
  return to;
}

// The sums of magnitudes of the weights of an output, or of an input, the largest; and how many
// outputs an input is part of at most.
struct Norms {
  Real forward = 0, backward = 0, outputs = 0;

  explicit Norms(const Table& table) {
    std::vector<Real> of(static_cast<size_t>(table.input)), count(of.size());
    for (const std::vector<Tap>& taps : table.taps) {
      Real sum = 0;
      for (const Tap& tap : taps) {
        sum += std::fabs(tap.weight);
        of[static_cast<size_t>(tap.index)] += std::fabs(tap.weight);
        count[static_cast<size_t>(tap.index)] += 1;
      }
      forward = std::max(forward, sum);
    }
    for (size_t i = 0; i < of.size(); ++i) {
      backward = std::max(backward, of[i]);
      outputs = std::max(outputs, count[i]);
    }
  }
};

std::vector<double> list(const Tensor& tensor) {
  return tensor.present ? elements_of(tensor) : std::vector<double>{};
}

// The axes as the lists give them.
std::vector<Axis> axes_of(const Settings& settings, const Tensors& inputs, size_t x_input,
                          const std::vector<int64_t>& given) {
  const Shape& x = inputs[x_input].shape;
  const auto rank = static_cast<int64_t>(x.size());
  const std::vector<double> roi = list(inputs[x_input + 1]), scales = list(inputs[x_input + 2]),
                            sizes = list(inputs[x_input + 3]);
  std::vector<Axis> axes;
  for (const int64_t length : x) axes.push_back({length, length, 1});
  std::vector<int64_t> listed = given;
  for (int64_t axis = 0; given.empty() && axis < rank; ++axis) listed.push_back(axis);
  for (int64_t& axis : listed) axis += axis < 0 ? rank : 0;
  for (size_t i = 0; i < listed.size(); ++i) {
    Axis& axis = axes[static_cast<size_t>(listed[i])];
    if (!scales.empty()) {
      axis.scale = settings.torch ? scales[i] : static_cast<double>(static_cast<float>(scales[i]));
      axis.output = scaled_length(axis.input, scales[i], settings.torch);
    } else {
      axis.output = resized_length(x, listed, sizes, i, settings.policy, settings.torch);
      axis.scale = settings.policy == "stretch"
                       ? 0
                       : common_scale(x, listed, sizes, settings.policy, settings.torch);
    }
    if (!settings.crops()) continue;
    axis.start = roi[i];
    axis.end = roi[listed.size() + i];
  }
  if (rank == 4) {
    const bool small = axes[2].output <= 128 && axes[2].output + axes[3].output <= 128;
    axes[2].small_picture = axes[3].small_picture = small;
  }
  return axes;
}

// Calls body(element, index of each axis).
template <class Body>
void for_each_element(const Shape& shape, const Body& body) {
  Shape index(shape.size(), 0);
  const auto count = static_cast<size_t>(element_count(shape));
  for (size_t element = 0; element < count; ++element) {
    body(element, index);
    for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];) index[axis] = 0;
  }
}

}  // namespace

int64_t scaled_length(int64_t input, double scale, bool torch) {
  if (scale == 1 || input == 0) return input;
  if (torch) return static_cast<int64_t>(static_cast<double>(input) * scale);
  const float product = static_cast<float>(input) * static_cast<float>(scale);
  return static_cast<int64_t>(product);
}

int64_t resized_length(const Shape& x, const std::vector<int64_t>& axes,
                       const std::vector<double>& sizes, size_t place, const std::string& policy,
                       bool torch) {
  const int64_t input = x[static_cast<size_t>(axes[place])];
  if (policy == "stretch") return static_cast<int64_t>(sizes[place]);
  if (input == 0) return 0;
  const double scale = common_scale(x, axes, sizes, policy, torch);
  if (torch) return static_cast<int64_t>(std::round(static_cast<double>(input) * scale));
  const float product = static_cast<float>(input) * static_cast<float>(scale);
  return static_cast<int64_t>(std::round(product));
}

Reference reference_resize(const Tensors& inputs, const Attributes& attributes, bool backward) {
  const size_t x_input = backward ? 1 : 0;
  const Settings settings(attributes);
  if (std::fabs(settings.a) > 1000) return std::nullopt;  // too large on the way, as huge numbers
  const std::vector<Axis> axes = axes_of(settings, inputs, x_input, attributes.integers("axes"));
  const Tensor& given = inputs[0];
  const Real u = arithmetic_of(given.dtype);
  Numbers numbers{given.shape, {}};
  double largest = 0;
  bool finite = true;
  for (const double value : elements_of(given)) {
    numbers.elements.emplace_back(value);
    finite = finite && std::isfinite(value);
    if (std::isfinite(value)) largest = std::max(largest, std::fabs(value));
  }
  Shape result(axes.size());
  std::vector<Table> tables;
  double work = static_cast<double>(given.elements());
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    // A hostile call may ask for more taps than there is memory.
    const Real ratio = axes[axis].scale != 0
                           ? axes[axis].scale
                           : static_cast<Real>(axes[axis].output) /
                                 static_cast<Real>(std::max<int64_t>(axes[axis].input, 1));
    const Real most = 4 * (settings.antialias && ratio > 0 ? std::max<Real>(1 / ratio, 1) : 1) + 4;
    if (most * static_cast<Real>(axes[axis].output) > 2e6L) return std::nullopt;
    tables.push_back(MakeTable(settings, axes[axis], u, finite).make());
    result[axis] = backward ? axes[axis].input : axes[axis].output;
    size_t taps = 0;
    for (const std::vector<Tap>& of : tables.back().taps) taps += of.size();
    const double longer = static_cast<double>(std::max(taps, size_t{1})) /
                          static_cast<double>(std::max<int64_t>(given.shape[axis], 1));
    work *= std::max(longer, 1.0);
  }
  if (work > 2e7) return std::nullopt;
  std::vector<Norms> norms(tables.begin(), tables.end());
  Real slack = 0;
  double terms = 16;
  bool copies = true;
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    copies = copies && tables[axis].copies;
    if (!tables[axis].copies) numbers = apply(numbers, axis, tables[axis], backward);
    Real own = tables[axis].error * (backward ? norms[axis].outputs + 2 : 1);
    for (size_t other = 0; other < axes.size(); ++other) {
      if (other != axis) own *= backward ? norms[other].backward : norms[other].forward;
    }
    slack += own;
    terms += static_cast<double>(norms[axis].outputs);
  }

  Expected expected(result);
  expected.elements = std::move(numbers.elements);
  expected.unsure.resize(expected.elements.size());
  expected.slack = static_cast<double>(slack) * largest;
  expected.terms = terms;
  expected.copies = !backward && (copies || settings.mode == "nearest");
  for_each_element(result, [&](size_t element, const Shape& index) {
    for (size_t axis = 0; axis < axes.size(); ++axis) {
      const Table& table = tables[axis];
      const auto at = static_cast<size_t>(index[axis]);
      expected.unsure[element] |= backward ? table.unsure_inputs[at] : table.unsure[at];
      if (!backward && table.outside[at]) {
        expected.elements[element] = Number(static_cast<double>(settings.extrapolation));
      }
    }
  });
  return std::vector<Expected>{std::move(expected)};
}

}  // namespace fuzz
