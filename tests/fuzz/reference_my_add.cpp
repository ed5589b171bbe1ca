#include "reference.h"

namespace fuzz {

using namespace myops;

// 2a + b; integers wrap, which float64 cannot show: those are compared while nothing wraps.
namespace {

Reference reference_my_add(const std::string&, const Tensors& inputs, const Attributes&) {
  const Shape &a = inputs[0].shape, &b = inputs[1].shape;
  Shape c(std::max(a.size(), b.size()));
  const auto length = [&](const Shape& shape, size_t axis) {
    return axis + shape.size() < c.size() ? 1 : shape[axis + shape.size() - c.size()];
  };
  for (size_t axis = 0; axis < c.size(); ++axis) {
    c[axis] = length(a, axis) == 1 ? length(b, axis) : length(a, axis);
  }
  Expected sum(c);
  sum.terms = 1;
  const std::vector<double> values[] = {elements_of(inputs[0]), elements_of(inputs[1])};
  for (size_t index = 0; index < sum.elements.size(); ++index) {
    double operand[2];
    for (const size_t which : {0, 1}) {
      const Shape& shape = inputs[which].shape;
      auto rest = static_cast<int64_t>(index), at = int64_t{0}, step = int64_t{1};
      for (size_t axis = c.size(); axis-- > 0; rest /= c[axis]) {
        const int64_t own = length(shape, axis);
        if (own != 1) at += rest % c[axis] * step;
        step *= own;
      }
      operand[which] = values[which][static_cast<size_t>(at)];
    }
    sum.elements[index] = Number(2) * Number(operand[0]) + Number(operand[1]);
  }
  return std::vector<Expected>{sum};
}

const AddReference added({"my_add"}, reference_my_add);

}  // namespace
}  // namespace fuzz
