// The coordinate of an output element on the input's axis.
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

#include "../spec/geometry.h"
#include "myops/simd.h"

namespace myops::resize::MYOPS_ISA {

using namespace ::myops::MYOPS_ISA;

template <class Real>
class CoordinateMap {
 public:
  CoordinateMap(const Settings& settings, const Axis& axis)
      : kind_(settings.coordinates),
        torch_(settings.torch_arithmetic),
        input_(static_cast<Real>(axis.input)),
        output_(static_cast<Real>(axis.output)),
        last_(static_cast<Real>(axis.input - 1)),
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

  // Of `count` output elements from `begin` on.
  void fill(int64_t begin, int64_t count, Real* coordinates) const {
    const CoordinateMap map =
        *this;  // a local copy, which stores cannot alias, so that the loops are vectorised
    const auto each = [&](const auto& rule) {
      for (int64_t i = 0; i < count; ++i) coordinates[i] = rule(static_cast<Real>(begin + i));
    };
    switch (kind_) {
      case Coordinates::HalfPixel:
        return each([&](Real x) { return map.half_pixel(x); });
      case Coordinates::HalfPixelSymmetric:  // ONNX Runtime computes part of this in double
        if (torch_) return each([&](Real x) { return map.offset_ + map.half_pixel(x); });
        return each(
            [&](Real x) { return static_cast<Real>(map.offset_ + (x + 0.5) / map.scale_ - 0.5); });
      case Coordinates::PytorchHalfPixel:
        if (output_ > 1) return each([&](Real x) { return map.half_pixel(x); });
        return each([](Real) { return Real(0); });
      case Coordinates::AlignCorners:
        if (torch_) return each([&](Real x) { return map.step_ * x; });
        if (output_ > 1) {
          return each([&](Real x) { return x * (map.input_ - 1) / (map.output_ - 1); });
        }
        return each([](Real) { return Real(0); });
      case Coordinates::Asymmetric:
        if (torch_) return each([&](Real x) { return map.step_ * x; });
        return each([&](Real x) { return x / map.scale_; });
      case Coordinates::TfCropAndResize:
        if (output_ > 1) {
          return each([&](Real x) {
            return map.start_ * (map.input_ - 1) +
                   x * (map.end_ - map.start_) * (map.input_ - 1) / (map.output_ - 1);
          });
        }
        return each([&](Real) {
          return static_cast<Real>(0.5 * (map.start_ + map.end_) * (map.input_ - 1));
        });
    }
  }

  Real operator()(int64_t index) const {
    Real coordinate;
    fill(index, 1, &coordinate);
    return coordinate;
  }

  // Whether a coordinate is inside; otherwise the output is the extrapolation value.
  bool is_inside(Real x) const {
    return kind_ != Coordinates::TfCropAndResize || (x >= 0 && x <= last_);
  }

  Real scale() const { return scale_; }  // output over input
  Real step() const { return step_; }    // input over output; torch: between neighbours

 private:
  MYOPS_INLINE Real half_pixel(Real x) const {
    const Real half = Real(0.5);
    return torch_ ? std::fma(step_, x + half, -half) : (x + half) / scale_ - half;
  }

  Coordinates kind_;
  bool torch_;
  Real input_, output_, last_, scale_, step_, start_, end_, offset_;
};

}  // namespace myops::resize::MYOPS_ISA
