// The arguments of Resize: their meaning, and the length and scale of every axis.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "myops/context.h"

namespace myops::resize {

// The enumerators follow the order of the names below.
enum class Mode : uint8_t { Nearest, Linear, Cubic, Area };
enum class Coordinates : uint8_t {
  HalfPixel,
  HalfPixelSymmetric,
  PytorchHalfPixel,
  AlignCorners,
  Asymmetric,
  TfCropAndResize
};
enum class Rounding : uint8_t { PreferFloor, PreferCeil, Floor, Ceil };
enum class Policy : uint8_t { Stretch, NotLarger, NotSmaller };

const std::vector<std::string>& mode_names();
const std::vector<std::string>& coordinate_names();
const std::vector<std::string>& rounding_names();
const std::vector<std::string>& policy_names();

struct Settings {
  Mode mode;
  Coordinates coordinates;
  Rounding rounding;
  Policy policy;
  double cubic_a;
  double extrapolation_value;
  bool antialias;
  bool exclude_outside;
  bool torch_arithmetic;
};

Settings read_settings(const Attributes& attributes);

// One of roi, scales, sizes. During shape inference its length or its numbers may be unknown.
struct List {
  bool present = false;  // an empty list counts as absent
  bool certain = true;   // false: the length is unknown, so it may turn out to be empty
  int64_t length = -1;   // -1: unknown
  std::optional<SmallVector<double, 8>> values;
};

// `first` is the index of roi among the op's inputs; scales and sizes follow it.
struct Request {
  const std::string& op;
  Settings settings;
  const std::vector<int64_t>& axes;
  Dims x;
  List roi, scales, sizes;

  Request(const ShapeContext& context, size_t x_input);
  Request(const KernelContext& context, size_t x_input);
};

struct Axis {
  int64_t input = 0;
  int64_t output = 0;
  double scale = 1;  // output over input; 0: the ratio of the two lengths
  double roi_start = 0;
  double roi_end = 1;
  bool small_picture = false;  // torch rounds differently in these, see torch_nearest
};

// Throws unless every argument is valid as far as it is known. `output` receives the lengths of the
// result; `axes` has an entry for each axis of X and is meaningful only if all lengths and numbers
// are known, as they are in a kernel.
using Axes = SmallVector<Axis, 6>;
struct Geometry {
  Dims output;
  Axes axes;
};

Geometry resolve(const Request& request);

// True when resizing this axis would copy it.
bool is_identity(const Settings& settings, const Axis& axis);

// Whether a resampled axis of `from` elements that become `to` is resampled before the axes behind
// it, not after them. Those are `behind` and have volumes of inner_from and inner_to elements. This
// affects the last bits, so it depends on nothing that differs between layouts and devices.
bool resamples_first(const Settings& settings, bool backward, int64_t from, int64_t to,
                     size_t behind, int64_t inner_from, int64_t inner_to);

// Axes from the slowest to the fastest in memory. In channels_last memory axis 1 is innermost, so
// the taps of rows and columns run over contiguous channels and nothing is transposed.
std::vector<size_t> memory_order(size_t rank, bool channels_last);

}  // namespace myops::resize
