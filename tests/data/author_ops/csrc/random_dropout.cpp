// random_dropout: each element is dropped with a probability, or scaled so that the mean stays.
#include "myops/op.h"
#include "myops/random.h"

namespace {
using namespace myops;

template <class T>
void drop(const KernelContext& context, const Tensor& from, const Tensor& to) {
  const auto p = static_cast<float>(context.attributes().real("p"));
  const float scale = 1 / (1 - p);
  const Philox random(context.seed());
  context.parallel_for(from.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const bool kept = random.uniform(static_cast<uint64_t>(i)) >= p;
      to.as<T>()[i] = kept ? from.as<T>()[i] * static_cast<T>(scale) : T(0);
    }
  });
}

void shape(ShapeContext& context) {
  const double p = context.attributes().real("p");
  MYOPS_EXPECT(context, p < 1, "p", str(p), "a number below 1");
  context.set_output(0, context.dims(0));
}

template <class T>
void forward(KernelContext& context) {
  drop<T>(context, context.input(0), context.output(0));
}
template <class T>
void backward(KernelContext& context) {
  drop<T>(context, context.input(0), context.output(0));
}

}  // namespace

MYOPS_OP(random_dropout) {
  return Op("random_dropout")
      .onnx("RandomDropout", 1)
      .doc("Elements become 0 with the probability p; others are divided by 1 - p.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "Any tensor."})
      .output({"y", "T", "Of the shape of x."})
      .attribute(Attribute{"p", 0.5, "From 0 on and below 1."}.at_least(0))
      .shape(shape)
      .random()
      .kernel(MYOPS_TYPED(forward, float, double));
}

// The same numbers decide, so the gradient is the same function of the arriving one.
MYOPS_OP(random_dropout_backward) {
  return backward_of(describe_random_dropout(), {"x"}).kernel(MYOPS_TYPED(backward, float, double));
}
