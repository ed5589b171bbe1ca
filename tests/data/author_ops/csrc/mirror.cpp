// mirror: the last axis backwards, for every dtype that numbers have.
#include "myops/op.h"

namespace {
using namespace myops;

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &y = context.output(0);
  const int64_t length = x.shape.back();
  const int64_t rows = length == 0 ? 0 : x.elements() / length;
  context.parallel_for(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      for (int64_t i = 0; i < length; ++i) {
        y.as<T>()[row * length + i] = x.as<T>()[row * length + length - 1 - i];
      }
    }
  });
}

}  // namespace

MYOPS_OP(mirror) {
  return Op("mirror")
      .onnx("Mirror", 1)
      .doc("The last axis backwards.")
      .type("T", {DType::Float32, DType::Float64, DType::Float16, DType::BFloat16,
                  DType::Float8E4M3FN, DType::Float8E5M2, DType::Complex64, DType::Complex128,
                  DType::Bool, DType::Int8, DType::Int16, DType::Int32, DType::Int64, DType::UInt8,
                  DType::UInt16, DType::UInt32, DType::UInt64})
      .input({"x", "T", "Of rank 1 or more."})
      .output({"y", "T", "Of the shape of x."})
      .shape("S... N -> S... N")
      .kernel(MYOPS_TYPED(compute, float, double, Half, BFloat16, Float8E4M3FN, Float8E5M2,
                          std::complex<float>, std::complex<double>, bool, int8_t, int16_t, int32_t,
                          int64_t, uint8_t, uint16_t, uint32_t, uint64_t));
}
