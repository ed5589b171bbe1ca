// A kernel's coordinates are rounded: `error` is what that may change in a sum, and where it may
// decide which element is nearest, or whether one is outside, the output is `unsure`. That is
// within 8 rounding errors of a tie or an edge, unless the coordinate is exactly there and nothing
// that it is computed from was rounded.
#include "reference_resize_table.h"

#include <algorithm>

namespace fuzz {
namespace {

class MakeTable {
 public:
  MakeTable(const ResizeSettings& settings, const ResizedAxis& axis, Real u, bool finite)
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
        if (settings_.mode == "area") {
          area(o);
        } else if (!(std::fabs(x) < 1e15L)) {  // a roi of any numbers: nothing lies there
          unsure |= !outside;
        } else if (settings_.mode == "nearest") {
          unsure |= !known_ratio(o) && nearest(x, near, exact);
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
      if (!finite_ && !table.copies && settings_.mode != "nearest" && settings_.mode != "area") {
        touch_neighbours();
      }
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
    if (axis_.scale == 0 || axis_.scale == 1 || settings_.mode == "area") return true;
    // torch copies an axis of unchanged length; nearest it does not.
    if (settings_.torch && (settings_.mode == "linear" || settings_.antialias)) return true;
    const bool by_corners = settings_.crops() || settings_.coordinates == "align_corners";
    return by_corners && !(settings_.antialias && axis_.scale < 1);
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
    if (settings_.mode == "area") return 8 * u_;
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

  // In integers: nothing is rounded but the weight.
  void area(int64_t o) {
    const int64_t begin = o * axis_.input / axis_.output;
    const int64_t end = ((o + 1) * axis_.input + axis_.output - 1) / axis_.output;
    for (int64_t i = begin; i < end; ++i) add(i, 1 / static_cast<Real>(end - begin));
  }

  // torch's kernel for small pictures knows two ratios of lengths, whatever the scale.
  bool known_ratio(int64_t o) {
    const int64_t ratio = axis_.output / std::max<int64_t>(axis_.input, 1);
    if (!settings_.torch || !axis_.small_picture || settings_.coordinates != "asymmetric" ||
        settings_.rounding != "floor" || ratio < 1 || ratio > 2 ||
        axis_.output != ratio * axis_.input) {
      return false;
    }
    add(o / ratio, 1);
    return true;
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

  const ResizeSettings& settings_;
  const ResizedAxis& axis_;
  Real u_, last_, scale_ = 1, least_total_ = 1;
  bool exact_ = false, finite_ = true;
  std::vector<Tap> taps_;
};

}  // namespace

Table make_table(const ResizeSettings& settings, const ResizedAxis& axis, Real arithmetic,
                 bool finite) {
  return MakeTable(settings, axis, arithmetic, finite).make();
}

}  // namespace fuzz
