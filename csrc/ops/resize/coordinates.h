// Where an output element lies on the input's axis.
//
//   x_original, for output index x, lengths L (input) and R (output), scale s = R / L or as given:
//     half_pixel            (x + 0.5) / s - 0.5
//     half_pixel_symmetric  L / 2 * (1 - R / (s L)) + (x + 0.5) / s - 0.5
//     pytorch_half_pixel    (x + 0.5) / s - 0.5, but 0 when R = 1
//     align_corners         x (L - 1) / (R - 1), but 0 when R = 1
//     asymmetric            x / s
//     tf_crop_and_resize    start (L - 1) + x (end - start) (L - 1) / (R - 1),
//                           but (start + end) / 2 (L - 1) when R = 1
//
// Rounding matters: near an integer one last bit picks another pixel. Real is float (double for
// double data), each operation is rounded as written here, as ONNX Runtime does it. With
// torch_arithmetic the division by s is a product with Real(1 / s), and a product and a sum are
// one fused operation, as in torch's kernels on every processor that has it.
#pragma once

#include <cmath>

#include "geometry.h"

namespace myops::resize {

template <class Real>
class CoordinateMap {
 public:
  CoordinateMap(const Settings& settings, const Axis& axis)
      : kind_(settings.coordinates),
        torch_(settings.torch_arithmetic),
        input_(static_cast<Real>(axis.input)),
        output_(static_cast<Real>(axis.output)),
        scale_(axis.scale != 0 ? static_cast<Real>(axis.scale) : output_ / input_),
        step_(axis.scale != 0 ? static_cast<Real>(1 / axis.scale) : input_ / output_),
        start_(static_cast<Real>(axis.roi_start)),
        end_(static_cast<Real>(axis.roi_end)) {
    if (torch_ && kind_ == Coordinates::AlignCorners) {
      step_ = axis.output > 1 ? (input_ - 1) / (output_ - 1) : Real(0);
    }
    const Real adjustment = output_ / (scale_ * input_);
    offset_ = input_ / 2 * (1 - adjustment);
  }

  Real operator()(int64_t index) const {
    const Real x = static_cast<Real>(index);
    switch (kind_) {
      case Coordinates::HalfPixel:
        return half_pixel(x);
      case Coordinates::HalfPixelSymmetric:  // ONNX Runtime mixes in double here
        if (torch_) return offset_ + half_pixel(x);
        return static_cast<Real>(offset_ + (x + 0.5) / scale_ - 0.5);
      case Coordinates::PytorchHalfPixel:
        return output_ > 1 ? half_pixel(x) : Real(0);
      case Coordinates::AlignCorners:
        if (torch_) return step_ * x;
        return output_ > 1 ? x * (input_ - 1) / (output_ - 1) : Real(0);
      case Coordinates::Asymmetric:
        return torch_ ? step_ * x : x / scale_;
      case Coordinates::TfCropAndResize:
        if (output_ > 1) {
          return start_ * (input_ - 1) + x * (end_ - start_) * (input_ - 1) / (output_ - 1);
        }
        return static_cast<Real>(0.5 * (start_ + end_) * (input_ - 1));
    }
    return x;
  }

  Real scale() const { return scale_; }  // output over input
  Real step() const { return step_; }    // input over output; torch: between neighbours

 private:
  Real half_pixel(Real x) const {
    const Real half = Real(0.5);
    return torch_ ? std::fma(step_, x + half, -half) : (x + half) / scale_ - half;
  }

  Coordinates kind_;
  bool torch_;
  Real input_, output_, scale_, step_, start_, end_, offset_;
};

}  // namespace myops::resize
