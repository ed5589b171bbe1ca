// resize along several axes at once: the shapes at which the kernel goes another way than for a
// row, one loop over each axis's taps being the reference.
#include <cmath>
#include <string>
#include <vector>

#include "checking.h"
#include "guarded_runtime.h"
#include "resize_reference.h"

namespace {

struct Case {
  Shape input, output;
  Layout layout = Layout::Contiguous;
  DType dtype = DType::Float32;
  std::vector<double> crop = {};  // not empty: from where to where, of each axis, linear alone
};

constexpr Layout kLast = Layout::ChannelsLast;
const std::vector<Case> kCases = {
    // Halved in both directions: several blocks of columns at once, of one channel and of three.
    {{1, 1, 8, 64}, {1, 1, 4, 32}},
    {{2, 1, 6, 130}, {2, 1, 3, 65}},
    {{1, 1, 8, 6000}, {1, 1, 4, 3000}},
    {{1, 3, 8, 64}, {1, 3, 4, 32}, kLast},
    {{1, 3, 6, 150}, {1, 3, 3, 75}, kLast},
    {{1, 2, 8, 64}, {1, 2, 4, 32}, kLast},
    // Made smaller by other factors: rows first.
    {{1, 1, 9, 99}, {1, 1, 3, 33}},
    {{1, 1, 7, 100}, {1, 1, 5, 37}},
    {{1, 1, 64, 100}, {1, 1, 3, 5}},
    // Made larger: two or three rows from the same two, or many in a chain.
    {{1, 1, 8, 32}, {1, 1, 16, 64}},
    {{1, 1, 5, 200}, {1, 1, 15, 600}},
    {{1, 1, 16, 7}, {1, 1, 32, 14}},
    {{1, 1, 3, 40}, {1, 1, 40, 41}},
    {{1, 3, 6, 9}, {1, 3, 12, 27}, kLast},
    // Taller and narrower, and the other way round.
    {{1, 1, 5, 90}, {1, 1, 20, 30}},
    {{1, 1, 20, 30}, {1, 1, 5, 90}},
    // Many channels innermost: runs of channels instead of blocks of columns.
    {{1, 8, 5, 6}, {1, 8, 10, 12}, kLast},
    {{1, 9, 6, 4}, {1, 9, 3, 2}, kLast},
    {{2, 16, 4, 5}, {2, 16, 7, 3}, kLast},
    {{1, 33, 3, 3}, {1, 33, 6, 9}, kLast},
    {{1, 33, 9, 9}, {1, 33, 3, 4}, kLast},
    // Images resized as well, with channels between them and the columns: no rows first, and taps
    // of
    // neighbouring rows that lie far apart.
    {{12, 2, 1, 8}, {6, 2, 1, 16}, kLast},
    {{15, 3, 1, 9}, {5, 3, 1, 9}, kLast},
    {{12, 1, 1, 20}, {5, 1, 1, 40}},
    {{4, 2, 3, 5}, {7, 3, 2, 9}},
    // Long rows, of which two are made at once, or of which little is read.
    {{1, 1, 4, 5000}, {1, 1, 8, 5000}},
    {{1, 1, 3, 5000}, {1, 1, 9, 4999}},
    {{1, 1, 1, 300000}, {1, 1, 1, 4}},
    {{2, 1, 2, 300000}, {2, 1, 1, 3}},
    {{300000, 9}, {4, 9}},
    {{1, 1, 1, 300000}, {1, 1, 2, 150001}},
    // Of 16 bits, widened a part at a time: pieces that begin within a row of many channels.
    {{40000, 9}, {30000, 9}, Layout::Contiguous, DType::Float16},
    {{1, 1, 8, 64}, {1, 1, 4, 32}, Layout::Contiguous, DType::Float16},
    {{1, 1, 1, 200000}, {1, 1, 1, 8}, Layout::Contiguous, DType::Float16},
    // Fewer rows than there are, and all of them from a few: neighbours from the same two.
    {{8, 20}, {6, 30}, Layout::Contiguous, DType::Float32, {0.375, 0.5, 0, 1}},
    {{9, 40}, {8, 24}, Layout::Contiguous, DType::Float32, {0.25, 0.5, 0.125, 0.75}},
};

Taps taps_at(const Case& given, const std::string& mode, size_t axis, int64_t o) {
  const int64_t input = given.input[axis], output = given.output[axis];
  if (given.crop.empty()) return taps_of<float>(mode, input, output, o);
  const double start = given.crop[2 * axis], end = given.crop[2 * axis + 1];
  const double last = static_cast<double>(input - 1);
  const double x = start * last +
                   static_cast<double>(o) * (end - start) * last / static_cast<double>(output - 1);
  const auto left = static_cast<int64_t>(std::floor(x));
  const double rest = x - static_cast<double>(left);
  return {{left, 1 - rest}, {std::min(left + 1, input - 1), rest}};
}

// The numbers of `x`, of that shape and in order, resized along one axis.
std::vector<double> along(const std::vector<double>& x, const Shape& shape, size_t axis,
                          const Case& given, const std::string& mode) {
  const int64_t length = given.output[axis];
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < axis; ++i) outer *= shape[i];
  for (size_t i = axis + 1; i < shape.size(); ++i) inner *= shape[i];
  std::vector<double> y(static_cast<size_t>(outer * length * inner));
  for (int64_t o = 0; o < length; ++o) {
    for (const auto& [index, weight] : taps_at(given, mode, axis, o)) {
      for (int64_t block = 0; block < outer; ++block) {
        const double* from = x.data() + (block * shape[axis] + index) * inner;
        double* to = y.data() + (block * length + o) * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] += weight * from[i];
      }
    }
  }
  return y;
}

void check(const Case& given, const std::string& mode) {
  const Op& op = *find_op("resize");
  const auto count = static_cast<size_t>(element_count(given.input));
  const bool halves = given.dtype == DType::Float16;
  std::vector<float> x = numbers(count, 7);
  std::vector<Half> narrow(x.begin(), x.end());
  void* data = halves ? static_cast<void*>(narrow.data()) : x.data();
  const Tensor input(data, given.dtype, given.input, given.layout);
  // In the order of the axes, whatever the layout.
  const auto in_order = [&](const Shape& shape, const void* from) {
    const Shape strides = strides_for(shape, given.layout);
    std::vector<double> all;
    Shape at(shape.size(), 0);
    for (int64_t left = element_count(shape); left > 0; --left) {
      int64_t place = 0;
      for (size_t axis = 0; axis < shape.size(); ++axis) place += at[axis] * strides[axis];
      all.push_back(halves ? static_cast<float>(static_cast<const Half*>(from)[place])
                           : static_cast<const float*>(from)[place]);
      for (size_t axis = shape.size(); axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
    }
    return all;
  };
  std::vector<double> wanted = in_order(given.input, data);
  Shape shape = given.input;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    if (shape[axis] == given.output[axis] && given.crop.empty()) continue;
    wanted = along(wanted, shape, axis, given, mode);
    shape[axis] = given.output[axis];
  }

  std::vector<int64_t> sizes(given.output.begin(), given.output.end());
  const std::string text =
      str("resize ", mode, " ", given.input, " to ", given.output,
          given.layout == kLast ? " channels_last" : "", given.crop.empty() ? "" : " of a part");
  std::vector<std::pair<std::string, AttributeValue>> set = {{"mode", mode}};
  std::vector<float> roi;
  if (!given.crop.empty()) {
    set.emplace_back("coordinate_transformation_mode", std::string("tf_crop_and_resize"));
    for (const size_t side : {0, 1}) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        roi.push_back(static_cast<float>(given.crop[2 * axis + side]));
      }
    }
  }
  const Tensor of_input =
      roi.empty() ? Tensor()
                  : Tensor(roi.data(), DType::Float32, {static_cast<int64_t>(roi.size())});
  std::vector<uint8_t> first;
  for (const Order order : {Order::Forward, Order::Backward}) {
    TestRuntime runtime(order);
    invoke(op, {input, of_input, Tensor(), Tensor(sizes.data(), DType::Int64, {input.rank()})},
           attributes(op, set), runtime);
    expect(runtime.guards_intact(), text + ": wrote outside");
    if (order == Order::Forward) first = runtime.result();
    expect(runtime.result() == first, text + ": depends on the order");
  }
  const std::vector<double> got = in_order(given.output, first.data());
  const double limit = halves ? 2e-3 : 1e-4;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::abs(got[i] - wanted[i]) < limit) continue;
    return expect(false, str(text, " at ", i, ": got ", got[i], ", expected ", wanted[i]));
  }
}

}  // namespace

int main() {
  for (const Case& given : kCases) {
    for (const char* mode : {"linear", "nearest", "cubic", "area"}) {
      check(given, mode);
      if (!given.crop.empty()) break;
    }
  }
  return finish("tests of shapes in resize");
}
