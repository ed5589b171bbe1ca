// The expected results of each op: plain loops in float64 that follow the definitions and share no
// code with the kernels.
#pragma once

#include <cmath>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "myops/op.h"

namespace fuzz {

// A number, and the sum of the magnitudes of its terms, which bounds its rounding error.
struct Number {
  double value = 0, size = 0;

  Number() = default;
  Number(double value_) : value(value_), size(std::fabs(value_)) {}
  Number(double value_, double size_) : value(value_), size(size_) {}
};
inline Number operator+(const Number& a, const Number& b) {
  return {a.value + b.value, a.size + b.size};
}
inline Number operator-(const Number& a, const Number& b) {
  return {a.value - b.value, a.size + b.size};
}
inline Number operator*(const Number& a, const Number& b) {
  return {a.value * b.value, a.size * b.size};
}
inline Number& operator+=(Number& a, const Number& b) { return a = a + b; }

// One output of a call, row-major. An element of the result may differ by
//   u * |value| + v * terms * size + slack
// with u and v the rounding errors of the dtype and of the type of the arithmetic, and by half a
// unit where it is an integer.
struct Expected {
  myops::Shape shape;
  std::vector<Number> elements;
  std::vector<uint8_t> unsure;  // not empty: where rounding may choose another element of X
  double terms = 16;
  double slack = 0;     // errors of positions
  bool copies = false;  // elements are moved: also those that are not finite

  explicit Expected(myops::Shape shape_ = {}, bool wanted = true)
      : shape(wanted ? std::move(shape_) : myops::Shape{0}),
        elements(static_cast<size_t>(myops::element_count(shape))) {}
};

// The elements in row-major order, as float64.
std::vector<double> elements_of(const myops::Tensor& tensor);

// The rounding error of a dtype, and of the type in which its arithmetic runs.
double rounding_of(myops::DType dtype);
double arithmetic_of(myops::DType dtype);

// nullopt if the reference would take too long, or does not support the call.
using Reference = std::optional<std::vector<Expected>>;
using MakeReference = Reference (*)(const std::string& op, const myops::Tensors& inputs,
                                    const myops::Attributes& attributes);

// A file reference_<op>.cpp gives the reference of its op, and of that op's gradients, by an object
// of this type.
struct AddReference {
  AddReference(std::initializer_list<const char*> ops, MakeReference make);
};

// How long resize makes an axis: by a scale, or the one at `place` of `axes` by `sizes`.
int64_t scaled_length(int64_t input, double scale, bool torch);
int64_t resized_length(const myops::Shape& x, const std::vector<int64_t>& axes,
                       const std::vector<double>& sizes, size_t place, const std::string& policy,
                       bool torch);

}  // namespace fuzz
