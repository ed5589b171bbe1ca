// my_add: c = 2a + b with NumPy broadcasting.
//
// float16 and bfloat16 are computed in float32 and rounded once; integers wrap around, as torch's
// do. Any strides are read in place. Empty tensors are fine.
#include "myops/op.h"

namespace myops {
namespace {

// One axis of the broadcast: equal lengths, or one of them 1.
Dim broadcast(const ShapeContext& context, const Dims& left, const Dims& right, size_t axis,
              size_t rank) {
  const Dim one(1);
  const Dim& a = axis + left.size() < rank ? one : left[axis + left.size() - rank];
  const Dim& b = axis + right.size() < rank ? one : right[axis + right.size() - rank];
  if (a == b || b.value == 1) return a;
  if (a.value == 1) return b;
  if (a.known() && b.known()) {
    fail(context.op_name(), "b", str("length ", b.value, " on axis ", axis),
         str("1 or ", a.value, ", the length of a there"));
  }
  return a.known() ? a : b.known() ? b : Dim();  // an unknown length can only be 1 or the known one
}

void shape(ShapeContext& context) {
  const Dims& a = context.dims(0);
  const Dims& b = context.dims(1);
  Dims c(std::max(a.size(), b.size()));
  for (size_t axis = 0; axis < c.size(); ++axis) c[axis] = broadcast(context, a, b, axis, c.size());
  context.set_output(0, c);
}

// Strides of an operand along the axes of the result; 0 where it is repeated.
Shape operand_strides(const Tensor& operand, const Shape& shape) {
  Shape strides(shape.size(), 0);
  const size_t lead = shape.size() - operand.shape.size();
  for (size_t axis = lead; axis < shape.size(); ++axis) {
    strides[axis] = operand.shape[axis - lead] == 1 ? 0 : operand.strides[axis - lead];
  }
  return strides;
}

struct Axis {
  int64_t length, a, b, c;  // length, then the step of each tensor in elements
};

// The loop nest, outermost axis first in memory order of the result, with neighbours that
// form one run merged: two contiguous tensors are a single axis.
std::vector<Axis> loop_nest(const Tensor& a, const Tensor& b, const Tensor& c) {
  const Shape a_strides = operand_strides(a, c.shape);
  const Shape b_strides = operand_strides(b, c.shape);
  std::vector<Axis> axes;
  for (size_t i = 0; i < c.shape.size(); ++i) {
    if (c.shape[i] != 1) axes.push_back({c.shape[i], a_strides[i], b_strides[i], c.strides[i]});
  }
  std::stable_sort(axes.begin(), axes.end(),
                   [](const Axis& left, const Axis& right) { return left.c > right.c; });
  std::vector<Axis> merged;
  for (const Axis& axis : axes) {
    if (!merged.empty()) {
      Axis& last = merged.back();
      if (last.a == axis.a * axis.length && last.b == axis.b * axis.length &&
          last.c == axis.c * axis.length) {
        last = {last.length * axis.length, axis.a, axis.b, axis.c};
        continue;
      }
    }
    merged.push_back(axis);
  }
  if (merged.empty()) merged.push_back({1, 0, 0, 1});
  return merged;
}

template <class T>
T twice_plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;  // wraps instead of being undefined
    return static_cast<T>(Unsigned{2} * static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else {
    using Wide = Accumulate<T>;
    return static_cast<T>(Wide{2} * static_cast<Wide>(a) + static_cast<Wide>(b));
  }
}

// One run along the innermost axis. Unit and zero steps get loops that vectorise.
template <class T>
void run(const T* a, int64_t a_step, const T* b, int64_t b_step, T* c, int64_t count) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) c[i] = twice_plus(a[i], b[i]);
  } else if (a_step == 1 && b_step == 0) {
    for (int64_t i = 0; i < count; ++i) c[i] = twice_plus(a[i], *b);
  } else if (a_step == 0 && b_step == 1) {
    for (int64_t i = 0; i < count; ++i) c[i] = twice_plus(*a, b[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) c[i] = twice_plus(a[i * a_step], b[i * b_step]);
  }
}

constexpr int64_t kGrain = 32768;  // elements a piece: tens of microseconds

template <class T>
void compute_typed(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1), &c = context.output(0);
  if (c.elements() == 0) return;
  const std::vector<Axis> axes = loop_nest(a, b, c);
  const Axis inner = axes.back();
  // Work is cut by elements of the result, so a piece may begin and end inside a run.
  context.parallel_for(c.elements(), kGrain, [&](int64_t begin, int64_t end) {
    while (begin < end) {
      int64_t rest = begin / inner.length;
      const int64_t column = begin % inner.length;
      int64_t a_at = column * inner.a, b_at = column * inner.b, c_at = column * inner.c;
      for (size_t i = axes.size() - 1; i-- > 0; rest /= axes[i].length) {
        const int64_t index = rest % axes[i].length;
        a_at += index * axes[i].a;
        b_at += index * axes[i].b;
        c_at += index * axes[i].c;
      }
      const int64_t count = std::min(inner.length - column, end - begin);
      run(a.as<T>() + a_at, inner.a, b.as<T>() + b_at, inner.b, c.as<T>() + c_at, count);
      begin += count;
    }
  });
}

void compute(KernelContext& context) {
  dispatch<Half, BFloat16, float, double, int32_t, int64_t>(context.output(0).dtype, [&](auto tag) {
    compute_typed<typename decltype(tag)::type>(context);
  });
}

}  // namespace

MYOPS_OP(my_add) {
  return Op("my_add")
      .onnx("MyAdd", 1)
      .doc("2a + b, element by element, with NumPy broadcasting.")
      .type("T", {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64, DType::Int32,
                  DType::Int64})
      .input(Input{"a", "T", "The addend that is doubled."}.access(Access::Strided))
      .input(Input{"b", "T", "The other addend."}.access(Access::Strided))
      .output({"c", "T", "2a + b, of the broadcast shape of a and b."})
      .shape(shape)
      .kernel(compute);
}

}  // namespace myops
