// conjugate_product: a * conj(b), element by element.
#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const Tensor &a = context.input(0), &b = context.input(1), &c = context.output(0);
  context.parallel_for(a.elements(), 4096, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      // Written out: the product of std::complex treats infinities specially.
      const T x = a.as<T>()[i], y = b.as<T>()[i];
      c.as<T>()[i] =
          T(x.real() * y.real() + x.imag() * y.imag(), x.imag() * y.real() - x.real() * y.imag());
    }
  });
}

}  // namespace

MYOPS_OP(conjugate_product) {
  return Op("conjugate_product")
      .onnx("ConjugateProduct", 1)
      .doc("a * conj(b), element by element.")
      .type("C", {DType::Complex64, DType::Complex128})
      .input({"a", "C", "Any tensor of complex numbers."})
      .input({"b", "C", "Of the shape of a."})
      .output({"c", "C", "Of the shape of a."})
      .shape("S..., S... -> S...")
      .kernel(MYOPS_TYPED(compute, std::complex<float>, std::complex<double>));
}
