// Each kernel of resize by its name, under each instruction set of this CPU: calls for which the
// plan must choose it, compared with loops over the taps in double.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "../../csrc/core/report.h"
#include "checking.h"
#include "denormal_memory.h"
#include "each_isa.h"
#include "guarded_runtime.h"
#include "resize_calls.h"
#include "resize_reference.h"

namespace {

// A tensor of these numbers, rounded to its dtype, in the order of its layout.
struct Data {
  std::vector<float> floats;
  std::vector<double> doubles;
  std::vector<Half> halves;
  std::vector<uint8_t> bytes;

  Tensor tensor(const std::vector<double>& all, DType dtype, const Shape& shape, Layout layout) {
    if (dtype == F64) {
      doubles = all;
      return {doubles.data(), dtype, shape, layout};
    }
    floats.assign(all.begin(), all.end());
    if (dtype == F32) return {floats.data(), dtype, shape, layout};
    if (dtype == F16) {
      for (const float number : floats) halves.push_back(Half(number));
      return {halves.data(), dtype, shape, layout};
    }
    bytes.assign(all.begin(), all.end());
    return {bytes.data(), dtype, shape, layout};
  }
};

double element(const void* from, DType dtype, int64_t place) {
  if (dtype == F64) return static_cast<const double*>(from)[place];
  if (dtype == F32) return static_cast<double>(static_cast<const float*>(from)[place]);
  if (dtype == F16)
    return static_cast<double>(static_cast<float>(static_cast<const Half*>(from)[place]));
  return static_cast<const uint8_t*>(from)[place];
}

// The elements in the order of the axes, whatever the layout.
std::vector<double> in_order(const Shape& shape, Layout layout, DType dtype, const void* from) {
  const Shape strides = strides_for(shape, layout);
  std::vector<double> all;
  Shape at(shape.size(), 0);
  for (int64_t left = element_count(shape); left > 0; --left) {
    int64_t place = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) place += at[axis] * strides[axis];
    all.push_back(element(from, dtype, place));
    for (size_t axis = shape.size(); axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
  }
  return all;
}

// One axis of x, whose lengths are `shape`, by the taps of an axis; or by their transpose.
std::vector<double> along(const Call& call, size_t axis, Shape& shape,
                          const std::vector<double>& x) {
  const int64_t input = call.input[axis], output = call.output[axis];
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  const int64_t before = shape[axis], after = call.backward ? input : output;
  std::vector<double> y(static_cast<size_t>(outer * after * inner));
  for (int64_t o = 0; o < output; ++o) {
    const Taps taps = call.dtype == F64 ? taps_of<double>(call.mode, input, output, o)
                                        : taps_of<float>(call.mode, input, output, o);
    for (const auto& [index, weight] : taps) {
      const int64_t from = call.backward ? o : index, to = call.backward ? index : o;
      for (int64_t block = 0; block < outer; ++block) {
        for (int64_t i = 0; i < inner; ++i) {
          y[static_cast<size_t>((block * after + to) * inner + i)] +=
              weight * x[static_cast<size_t>((block * before + from) * inner + i)];
        }
      }
    }
  }
  shape[axis] = after;
  return y;
}

void check(const Call& call, int vector) {
  const Op& op = *find_op(call.backward ? "resize_backward" : "resize");
  const Shape &given = call.backward ? call.output : call.input,
              &made = call.backward ? call.input : call.output;
  const std::vector<float> drawn = numbers(static_cast<size_t>(element_count(given)), 11);
  std::vector<double> x(drawn.begin(), drawn.end());
  for (double& number : x) number = call.dtype == U8 ? std::floor(127 * number + 128) : number;
  Data data;
  const Tensor tensor = data.tensor(x, call.dtype, given, call.layout);
  std::vector<double> wanted = in_order(given, call.layout, call.dtype, tensor.data);
  Shape shape = given;
  for (size_t axis = 0; axis < shape.size(); ++axis) wanted = along(call, axis, shape, wanted);
  for (double& number : wanted) {
    if (call.dtype == U8) number = std::clamp(number, 0.0, 255.0);
  }

  Tensors inputs{tensor};
  if (call.backward) {
    inputs.push_back(Tensor(nullptr, call.dtype, call.input, call.layout));
  }
  Shape lengths = call.output;
  inputs.push_back(Tensor());
  inputs.push_back(Tensor());
  inputs.push_back(Tensor(lengths.data(), DType::Int64, {tensor.rank()}));
  const std::string text =
      str(call.kernel, ": ", call.mode, call.backward ? " backward " : " ", call.input, " to ",
          call.output, " ", dtype_name(call.dtype), call.layout == kLast ? " channels_last" : "");
  TestRuntime runtime;
  record_calls();
  const Attributes given_attributes = attributes(op, {{"mode", std::string(call.mode)}});
  fill_memory_with_denormals();
  invoke(op, inputs, given_attributes, runtime);
  const bool denormals = computed_with_denormals();
  const std::string line = recorded_calls();
  const bool named = line.find(str("\"kernel\": \"", call.kernel, "\"")) != std::string::npos;
  expect(named || vector < call.vector, text + ": the plan has another kernel: " + line);
  expect(runtime.guards_intact(), text + ": wrote outside");
  expect(!denormals, text + ": computed with memory that it has not written");
  const std::vector<uint8_t> bytes = runtime.result();
  const std::vector<double> got = in_order(made, call.layout, call.dtype, bytes.data());
  // Integers are rounded; a sum that is a half within rounding goes either way.
  const double limit = call.dtype == F64   ? 1e-12
                       : call.dtype == F32 ? 2e-5
                       : call.dtype == U8  ? 0.5001
                                           : 1e-2;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::abs(got[i] - wanted[i]) <= limit) continue;
    return expect(false, str(text, " at ", i, ": got ", got[i], ", expected ", wanted[i]));
  }
}

int run(Isa isa) {
  const int vector = isa == Isa::Avx512 ? 64 : isa == Isa::Avx2 ? 32 : 16;
  for (const Call& call : kCalls) check(call, vector);
  return finish((std::string("kernels of resize, ") + isa_name(isa)).c_str());
}

}  // namespace

int main() { return for_each_isa(run); }
