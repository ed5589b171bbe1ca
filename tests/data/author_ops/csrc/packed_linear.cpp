// packed_linear: y = x W^T. The kernel reads W in panels of eight outputs, which prepare() makes
// once for a weight that does not change.
#include <algorithm>

#include "myops/op.h"

namespace {
using namespace myops;

constexpr int64_t kPanel = 8;

template <class T>
void pack(const Tensor& weight, T* to) {
  const int64_t outputs = weight.shape[0], depth = weight.shape[1];
  for (int64_t first = 0; first < outputs; first += kPanel) {
    for (int64_t k = 0; k < depth; ++k) {
      for (int64_t o = first; o < first + kPanel; ++o) {
        *to++ = o < outputs ? weight.as<T>()[o * depth + k] : T(0);
      }
    }
  }
}

size_t packed_elements(const Tensor& weight) {
  return static_cast<size_t>((weight.shape[0] + kPanel - 1) / kPanel * kPanel * weight.shape[1]);
}

Prepared prepare(const PrepareContext& context) {
  const Tensor& weight = context.constant(1);
  if (!weight.present || weight.rank() != 2 || weight.elements() == 0) return nullptr;
  Prepared prepared;
  dispatch<float, double>(weight.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const auto memory = std::make_shared<Scratch>(packed_elements(weight) * sizeof(T));
    pack(weight, memory->template as<T>());
    prepared = memory;
  });
  return prepared;
}

template <class T>
void compute(KernelContext& context) {
  const Tensor &x = context.input(0), &weight = context.input(1), &y = context.output(0);
  const int64_t depth = weight.shape[1], outputs = weight.shape[0];
  if (y.elements() == 0) return;
  const int64_t rows = y.elements() / outputs, panels = (outputs + kPanel - 1) / kPanel;
  const auto* prepared = context.prepared<Scratch>();
  context.report(prepared != nullptr ? "packed_once" : "packed_by_call");
  std::optional<ScratchArray<T>> own;
  if (prepared == nullptr) {
    own.emplace(context.scratch_array<T>(static_cast<int64_t>(packed_elements(weight))));
    pack(weight, own->data());
  }
  const T* packed = own ? own->data() : prepared->as<T>();
  context.parallel_for(panels, 8, [&](int64_t begin, int64_t end) {
    for (int64_t panel = begin; panel < end; ++panel) {
      const T* from = packed + panel * depth * kPanel;
      const int64_t count = std::min(kPanel, outputs - panel * kPanel);
      for (int64_t row = 0; row < rows; ++row) {
        const T* input = x.as<T>() + row * depth;
        T sums[kPanel] = {};
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t o = 0; o < kPanel; ++o) sums[o] += input[k] * from[k * kPanel + o];
        }
        std::copy(sums, sums + count, y.as<T>() + row * outputs + panel * kPanel);
      }
    }
  });
}

void shape(ShapeContext& context) {
  const Dims &x = context.dims(0), &weight = context.dims(1);
  MYOPS_EXPECT(context, !x.empty(), "x", "rank 0", "rank 1 or more");
  MYOPS_EXPECT(context, weight.size() == 2, "weight", str("rank ", weight.size()), "rank 2");
  const bool fits = !x.back().known() || !weight[1].known() || x.back().value == weight[1].value;
  MYOPS_EXPECT(context, fits, "weight", shape_text(weight),
               str("[O, ", x.back().value, "], as the last length of x"));
  Dims result = x;
  result.back() = weight[0];
  context.set_output(0, result);
}

}  // namespace

MYOPS_OP(packed_linear) {
  return Op("packed_linear")
      .onnx("PackedLinear", 1)
      .doc("The product of x and the transposed weight.")
      .type("T", {DType::Float32, DType::Float64})
      .input({"x", "T", "[..., K]"})
      .input({"weight", "T", "[O, K]"})
      .output({"y", "T", "[..., O]"})
      .shape(shape)
      .prepare(prepare, {"weight"})
      .kernel(MYOPS_TYPED(compute, float, double));
}
