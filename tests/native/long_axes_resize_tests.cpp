// resize with an axis of more than 2^31 elements: results are right, or refused by name; nothing
// wraps around.
#include <cmath>

#include "lazy_memory.h"
#include "resize_reference.h"

namespace {

using namespace lazy;

unsigned seed = 5;
int64_t draw(int64_t below) {
  seed = seed * 1664525u + 1013904223u;
  return static_cast<int64_t>(seed >> 8) % below;
}
template <class T>
T one_of(const std::vector<T>& choices) {
  return choices[static_cast<size_t>(draw(static_cast<int64_t>(choices.size())))];
}

struct Resize {
  DType dtype;
  Shape input, output;
  Layout layout;
  std::string mode;

  std::string text() const {
    return str("resize ", dtype_name(dtype), " ", mode, " ", input, " to ", output,
               layout == Layout::ChannelsLast ? " channels_last" : "");
  }
};

// Empty, or the refusal. Elements that are read get numbers, all others stay 0.
std::string check_resize(const Resize& call) {
  const Op& op = *find_op("resize");
  const Lazy memory(byte_count(call.input, call.dtype));
  const Tensor x(memory.get(), call.dtype, call.input, call.layout);
  const size_t rank = call.input.size();
  // The taps of each output on each axis, and what they add up to.
  const auto taps = [&](size_t axis, int64_t o) {
    return call.dtype == DType::Float64
               ? taps_of<double>(call.mode, call.input[axis], call.output[axis], o)
               : taps_of<float>(call.mode, call.input[axis], call.output[axis], o);
  };
  const std::function<double(const Shape&, size_t, int64_t)> sum = [&](const Shape& at, size_t axis,
                                                                       int64_t offset) -> double {
    if (axis == rank) return mark(x, offset);
    double total = 0;
    for (const auto& [index, weight] : taps(axis, at[axis])) {
      total += weight * sum(at, axis + 1, offset + index * x.strides[axis]);
    }
    return total;
  };
  std::vector<std::pair<Shape, double>> expected;
  for (int64_t i = 0; i < element_count(call.output); ++i) {
    Shape at(rank);
    for (int64_t rest = i, axis = static_cast<int64_t>(rank); axis-- > 0;) {
      at[static_cast<size_t>(axis)] = rest % call.output[static_cast<size_t>(axis)];
      rest /= call.output[static_cast<size_t>(axis)];
    }
    expected.emplace_back(at, sum(at, 0, 0));
  }

  TestRuntime runtime;
  std::vector<int64_t> sizes(call.output.begin(), call.output.end());
  const std::string refusal = refusal_of([&] {
    invoke(op, {x, Tensor(), Tensor(), Tensor(sizes.data(), DType::Int64, {x.rank()})},
           attributes(op, {{"mode", call.mode}}), runtime);
  });
  if (!refusal.empty()) return refusal;
  const Tensor& y = runtime.outputs[0];
  const double rounding = call.dtype == DType::BFloat16  ? 1.5
                          : call.dtype == DType::UInt8   ? 0.6
                          : call.dtype == DType::Float16 ? 0.3
                                                         : 0.01;
  for (const auto& [at, number] : expected) {
    int64_t offset = 0;
    for (size_t axis = 0; axis < rank; ++axis) offset += at[axis] * y.strides[axis];
    const double wanted =
        call.dtype == DType::UInt8 ? std::min(std::max(number, 0.0), 255.0) : number;
    if (std::abs(read(y, offset) - wanted) <= rounding) continue;
    expect(false, str(call.text(), " at ", at, ": got ", read(y, offset), ", expected ", wanted));
    break;
  }
  return "";
}

void test_resize() {
  constexpr int64_t kLong = -1;
  struct Template {
    Shape shape;
    bool channels_last;
  };
  const std::vector<Template> shapes = {
      {{kLong}, false},          {{1, kLong}, false},       {{kLong, 1}, false},
      {{3, kLong}, false},       {{kLong, 2}, false},       {{kLong, 3}, false},
      {{kLong, 9}, false},       {{2, kLong, 4}, false},    {{kLong, 5, 3}, false},
      {{1, 3, kLong, 2}, false}, {{1, 3, 2, kLong}, false}, {{1, 3, kLong, 2}, true},
      {{1, 3, 2, kLong}, true},  {{1, 9, 2, kLong}, true},  {{kLong, 3, 1, 2}, true},
      {{1, kLong, 2, 2}, false}, {{5, 1, kLong, 1}, false}, {{1, 2, 3, kLong, 2}, true}};
  const std::vector<int64_t> lengths = {kWraps - 1, kWraps,     kWraps + 1,
                                        3000000000, 4294967295, 6000000000};
  for (int round = 0; round < 80; ++round) {
    const Template chosen = round < 36 ? shapes[static_cast<size_t>(round) / 2] : one_of(shapes);
    Resize call{one_of<DType>({DType::UInt8, DType::Float16, DType::BFloat16, DType::Float32,
                               DType::Float64}),
                chosen.shape, chosen.shape,
                chosen.channels_last ? Layout::ChannelsLast : Layout::Contiguous,
                one_of<std::string>({"nearest", "linear", "cubic"})};
    for (size_t axis = 0; axis < call.input.size(); ++axis) {
      const bool channel = chosen.channels_last && axis == 1;
      if (call.input[axis] == kLong) {
        call.input[axis] = one_of(lengths);
        call.output[axis] = one_of<int64_t>({1, 2, 3, 15, 16, 17, 31, 33, 64, 129});
      } else if (!channel && draw(2) == 0) {
        call.output[axis] = 1 + draw(6);
      }
    }
    const std::string refusal = check_resize(call);
    expect(refusal.empty(), call.text() + " is refused: " + refusal);
  }
}

// What has more tables, scratch memory or results than a call may take; and a single row that needs
// no table of the whole axis.
void test_what_is_refused() {
  const Op &resize = *find_op("resize"), &backward = *find_op("resize_backward");
  const int64_t length = 6000000000;
  const Lazy memory(static_cast<size_t>(length) * sizeof(float));
  const auto list = [&](DType dtype, int64_t count) {
    return Tensor(memory.get(), dtype, {count});
  };
  const auto refuses = [&](const Op& op, const Tensor& first, const Tensor& second, int64_t size,
                           bool antialias, const std::string& text) {
    Tensors inputs{first};
    if (second.present) inputs.push_back(second);
    const Tensor sizes(&size, DType::Int64, {1});
    for (const Tensor& tensor : {Tensor(), Tensor(), sizes}) inputs.push_back(tensor);
    const std::string refusal = refusal_of([&] {
      TestRuntime runtime;
      const Attributes given =
          attributes(op, {{"mode", std::string("linear")}, {"antialias", antialias}});
      invoke(op, inputs, given, runtime);
    });
    const bool expected = text.empty() ? refusal.empty() : refusal.find(text) == 0;
    expect(expected, str("got \"", refusal, "\", expected \"", text, "\""));
  };
  const Tensor none, few = list(DType::Float32, 16);
  refuses(resize, list(DType::UInt8, length), none, 16, true,
          "resize: inputs: got tables for an axis from length 6000000000 to 16 (");
  refuses(resize, list(DType::UInt8, 16), none, length, false, "");
  refuses(resize, few, none, int64_t{1} << 35, false,
          "resize: Y: got float32 of shape [34359738368] (137438953472 bytes), expected at most");
  refuses(backward, list(DType::Float32, length), few, length, false,
          "resize_backward: inputs: got tables for an axis from length 16 to 6000000000 (");
  const Tensor longer(nullptr, DType::Float32, {3 * length});  // only its shape is read
  refuses(backward, few, longer, 16, false, "");
  // A ring of rows whose bytes are a multiple of 2^64.
  expect(bytes_of<float>(int64_t{1} << 32, int64_t{1} << 30) == SIZE_MAX, "2^64 bytes");
  expect(bytes_of<float>(int64_t{1} << 31, int64_t{1} << 30) == size_t{1} << 63, "2^63 bytes");
  expect(bytes_of<double>(int64_t{-1}) == SIZE_MAX && bytes_of<float>(3, 0) == 0, "below and at 0");
  expect(element_count({int64_t{1} << 40, int64_t{1} << 40}) == INT64_MAX, "2^80 elements");
  expect(byte_count({int64_t{1} << 62}, DType::Float64) == SIZE_MAX, "2^65 bytes");
}

}  // namespace

int main() {
  limit_calls();
  test_resize();
  test_what_is_refused();
  expect_little_memory();
  return finish("tests of long axes in resize");
}
