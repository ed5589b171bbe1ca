#include "findings.h"

namespace fuzz {
namespace {

using namespace myops;

// Of any numbers, in one dtype.
Call call_of(const std::string& name, DType dtype, const std::vector<Shape>& shapes,
             NamedAttributes attributes) {
  for (const Op& op : all_ops()) {
    if (op.name != name) continue;
    Call call{&op, {}, std::move(attributes), {"call: a finding"}};
    uint32_t state = 1;
    for (const Shape& shape : shapes) {
      Argument argument{dtype, shape, {}};
      for (int64_t i = element_count(shape); i > 0; --i) {
        state = state * 1664525u + 1013904223u;
        const float number = static_cast<float>(state >> 8) / 8388608.0f - 1;
        const double wide = number;
        const auto* bytes = dtype == DType::Float64 ? reinterpret_cast<const uint8_t*>(&wide)
                                                    : reinterpret_cast<const uint8_t*>(&number);
        argument.bytes.insert(argument.bytes.end(), bytes, bytes + dtype_size(dtype));
      }
      call.inputs.push_back(std::move(argument));
    }
    call.inputs.resize(op.inputs.size());
    return call;
  }
  throw Error(str("no op ", name));
}

}  // namespace

std::vector<Call> findings() {
  std::vector<Call> calls;
  for (const DType dtype : {DType::Float32, DType::Float64}) {
    // Depthwise, 8 offset groups, two tiles: a strip of the gradient had no memory.
    calls.push_back(call_of("deform_conv2d_backward", dtype,
                            {{2, 8, 6, 6}, {2, 8, 8, 8}, {8, 1, 3, 3}, {2, 144, 6, 6}},
                            {{"group", {int64_t{8}}}, {"offset_group", {int64_t{8}}}}));
    // Groups of 16 channels, offset groups of 24: a block of 16 has channels of two groups, for
    // whose filters there was no memory.
    calls.push_back(call_of("deform_conv2d_backward", dtype,
                            {{1, 12, 4, 4}, {1, 48, 4, 4}, {12, 16, 1, 1}, {1, 4, 4, 4}},
                            {{"group", {int64_t{3}}}, {"offset_group", {int64_t{2}}}}));
    // Larger than what is drawn: the position gradients of several blocks of channels, for which
    // there is memory for some of the tiles at a time.
    calls.push_back(call_of("deform_conv2d_backward", dtype,
                            {{1, 2, 40, 40}, {1, 64, 42, 42}, {2, 64, 3, 3}, {1, 18, 40, 40}}, {}));
  }
  return calls;
}

}  // namespace fuzz
