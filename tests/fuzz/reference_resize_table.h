// The taps of each axis of a resize, for reference_resize(): which elements an output is the
// weighted sum of, from exact coordinates.
#pragma once

#include "reference.h"

namespace fuzz {

using Real = long double;

struct ResizeSettings {
  std::string mode, coordinates, rounding, policy;
  bool antialias, excludes, torch;
  Real a, extrapolation;

  explicit ResizeSettings(const myops::Attributes& attributes)
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

struct ResizedAxis {
  int64_t input, output;
  Real scale = 0;  // as given; 0: none, it is the ratio of the lengths
  Real start = 0, end = 1;
  bool small_picture = false;  // rows or columns of a result of at most 128 of both together
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

// `arithmetic`: its rounding error. `finite`: all numbers are.
Table make_table(const ResizeSettings& settings, const ResizedAxis& axis, Real arithmetic,
                 bool finite);

}  // namespace fuzz
