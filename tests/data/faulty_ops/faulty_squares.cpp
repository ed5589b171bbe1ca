// The square of each element, with a kernel for its gradient, and with two results: faults that
// need one of these.
#include "myops/op.h"

namespace myops {
namespace {

template <class T>
T& at(const Tensor& tensor, int64_t place) {
  int64_t offset = 0;
  for (int64_t axis = tensor.rank(); axis-- > 0; place /= tensor.shape[axis]) {
    offset += place % tensor.shape[axis] * tensor.strides[axis];
  }
  return tensor.as<T>()[offset];
}

template <class T>
void square(KernelContext& context) {
  const Tensor& x = context.input(0);
  for (int64_t i = 0; i < x.elements(); ++i) {
    at<T>(context.output(0), i) = at<T>(x, i) * at<T>(x, i);
  }
}

template <class T>
void square_backward(KernelContext& context) {
  const Tensor &grad = context.input(0), &x = context.input(1);
  for (int64_t i = 0; i < x.elements(); ++i) {
    at<T>(context.output(0), i) = 2 * at<T>(x, i) * at<T>(grad, i);
  }
}

// Large images without an axis that is contiguous, and only they, have their first element only.
template <class T>
void only_first(KernelContext& context) {
  square_backward<T>(context);
  const Tensor &x = context.input(1), &y = context.output(0);
  const bool rows = x.rank() > 0 && x.strides[x.rank() - 1] == 1;
  if (x.elements() < 100000 || rows || x.is(Layout::ChannelsLast)) return;
  for (int64_t i = 1; i < x.elements(); ++i) at<T>(y, i) = 0;
}

// Clears one element behind the end.
template <class T>
void beside(KernelContext& context) {
  square_backward<T>(context);
  const Tensor& y = context.output(0);
  y.as<T>()[y.elements()] = 0;
}

template <class T>
void two(KernelContext& context) {
  square<T>(context);
  const Tensor &x = context.input(0), &twice = context.output(1);
  for (int64_t i = 0; i < x.elements(); ++i) at<T>(twice, i) = 2 * at<T>(x, i);
  twice.as<T>()[x.elements()] = 0;
}

Op describe(const char* name, const char* type) {
  return Op(name)
      .onnx(type, 1)
      .doc("The square of each element.")
      .type("T", {DType::Float32, DType::Float64})
      .input(Input{"x", "T", "Any tensor."}.access(Access::Strided))
      .output({"y", "T", "Of the shape of x."})
      .shape("S... -> S...")
      .kernel(MYOPS_TYPED(square, float, double));
}

MYOPS_OP(square_strides) { return describe("square_strides", "SquareStrides"); }
MYOPS_OP(square_strides_backward) {
  return backward_of(describe_square_strides(), {"x"})
      .kernel(MYOPS_TYPED(only_first, float, double));
}

MYOPS_OP(square_beside) { return describe("square_beside", "SquareBeside"); }
MYOPS_OP(square_beside_backward) {
  return backward_of(describe_square_beside(), {"x"}).kernel(MYOPS_TYPED(beside, float, double));
}

MYOPS_OP(square_and_twice) {
  return Op("square_and_twice")
      .onnx("SquareAndTwice", 1)
      .doc("The square of each element, and twice the element.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .output({"twice", "T", "Of the shape of x."})
      .shape("S... -> S..., S...")
      .kernel(MYOPS_TYPED(two, float, double));
}

}  // namespace
}  // namespace myops
