// Axes of more than 2^31 elements, and tensors of more bytes than the machine has: memory that the
// system maps when it is touched. Results are right, or refused by name; nothing wraps around.
#include <sys/mman.h>
#include <sys/resource.h>

#include <cmath>
#include <functional>
#include <set>
#include <vector>

#include "checking.h"
#include "myops/op.h"
#include "resize_reference.h"

namespace {

using namespace myops;

constexpr int64_t kWraps = int64_t{1} << 31;
// For a call: outputs are lazy, too, and what is refused must be refused before it is touched.
constexpr const char* kLimit = "120000000000";

unsigned seed = 5;
int64_t draw(int64_t below) {
  seed = seed * 1664525u + 1013904223u;
  return static_cast<int64_t>(seed >> 8) % below;
}
template <class T>
T one_of(const std::vector<T>& choices) {
  return choices[static_cast<size_t>(draw(static_cast<int64_t>(choices.size())))];
}

// Zeros until somebody writes.
class Lazy {
 public:
  explicit Lazy(size_t bytes) : bytes_(std::max<size_t>(bytes, 1)) {
    data_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data_ == MAP_FAILED)
      throw std::runtime_error(str("no address space for ", bytes, " bytes"));
    madvise(data_, bytes_, MADV_NOHUGEPAGE);
  }
  Lazy(const Lazy&) = delete;
  Lazy& operator=(const Lazy&) = delete;
  ~Lazy() { munmap(data_, bytes_); }
  void* get() const { return data_; }

 private:
  size_t bytes_;
  void* data_;
};

// Does some of the pieces of work: the first, the last, and those around numbers that would wrap.
class TestRuntime final : public Runtime {
 public:
  Tensor allocate(size_t index, DType dtype, const Shape& shape, Layout layout) override {
    if (memory.size() <= index) memory.resize(index + 1), outputs.resize(index + 1);
    memory[index] = std::make_unique<Lazy>(byte_count(shape, dtype));
    return outputs[index] = Tensor(memory[index]->get(), dtype, shape, layout);
  }
  void run(int64_t count, Task task, void* argument) override {
    constexpr int64_t kAll = 4096;
    std::set<int64_t> pieces;
    for (int64_t piece = 0; piece < std::min<int64_t>(count, kAll); ++piece) {
      if (count <= kAll || piece < 3) pieces.insert({piece, count - 1 - piece});
    }
    for (int64_t part = 1; part < 32; ++part) pieces.insert(count / 32 * part);
    for (const int64_t piece : pieces) task(argument, piece);
  }
  std::vector<Tensor> outputs;

 private:
  std::vector<std::unique_ptr<Lazy>> memory;
};

template <class Function>
void with_type(DType dtype, const Function& function) {
  dispatch<Half, BFloat16, float, double, uint8_t, int32_t, int64_t>(dtype, function);
}

double read(const Tensor& tensor, int64_t offset) {
  double number = 0;
  with_type(tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
      number = static_cast<float>(tensor.as<T>()[offset]);
    } else {
      number = static_cast<double>(tensor.as<T>()[offset]);
    }
  });
  return number;
}

// A whole number that depends on the place.
double mark(const Tensor& tensor, int64_t offset) {
  const auto hash = static_cast<uint64_t>(offset) * 0x9e3779b97f4a7c15u >> 32;
  const auto value = static_cast<double>(hash % 200 + 1);
  with_type(tensor.dtype, [&](auto tag) {
    using T = typename decltype(tag)::type;
    tensor.as<T>()[offset] = static_cast<T>(static_cast<float>(value));
  });
  return value;
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

std::string refusal_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

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

// What has more tables, scratch memory or results than a call may take.
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
    expect(refusal.find(text) == 0, str("got \"", refusal, "\", expected ", text));
  };
  const Tensor none, few = list(DType::Float32, 16);
  refuses(resize, list(DType::UInt8, length), none, 16, true,
          "resize: inputs: got tables for an axis from length 6000000000 to 16 (");
  refuses(resize, list(DType::UInt8, 16), none, length, false,
          "resize: inputs: got tables for an axis from length 16 to 6000000000 (");
  refuses(resize, few, none, int64_t{1} << 35, false,
          "resize: Y: got float32 of shape [34359738368] (137438953472 bytes), expected at most");
  refuses(backward, list(DType::Float32, length), few, length, false,
          "resize_backward: inputs: got tables for an axis from length 16 to 6000000000 (");
  refuses(backward, few, list(DType::Float32, length), 16, false,
          "resize_backward: inputs: got tables for an axis from length 16 to 6000000000 (");
  // A ring of rows whose bytes are a multiple of 2^64.
  expect(bytes_of<float>(int64_t{1} << 32, int64_t{1} << 30) == SIZE_MAX, "2^64 bytes");
  expect(bytes_of<float>(int64_t{1} << 31, int64_t{1} << 30) == size_t{1} << 63, "2^63 bytes");
  expect(bytes_of<double>(int64_t{-1}) == SIZE_MAX && bytes_of<float>(3, 0) == 0, "below and at 0");
  expect(element_count({int64_t{1} << 40, int64_t{1} << 40}) == INT64_MAX, "2^80 elements");
  expect(byte_count({int64_t{1} << 62}, DType::Float64) == SIZE_MAX, "2^65 bytes");
}

void test_my_add() {
  const Op& op = *find_op("my_add");
  const int64_t side = 65539;  // squared: more than 2^32
  struct Case {
    Shape a, b, c;
    Shape a_strides, b_strides;
  };
  const int64_t many = kWraps + 100001;
  const std::vector<Case> cases = {
      {{many}, {many}, {many}, {1}, {1}},
      {{many}, {1}, {many}, {1}, {1}},
      {{1}, {many}, {many}, {1}, {1}},
      {{many}, {many}, {many}, {0}, {1}},
      {{many}, {many}, {many}, {2}, {3}},
      {{side, 1}, {1, side}, {side, side}, {1, 1}, {side, 1}},
      {{side, side}, {side}, {side, side}, {side, 1}, {1}},
      {{side, side}, {side, side}, {side, side}, {1, side}, {side, 1}},
      {{3, side, side}, {3, 1, side}, {3, side, side}, {side * side, side, 1}, {0, 0, 1}},
      {{2, 1, many}, {3, 1}, {2, 3, many}, {many, many, 1}, {1, 1}}};
  for (const Case& it : cases) {
    for (const DType dtype : {DType::Float16, DType::Float32, DType::Int64}) {
      const Lazy a_memory(size_t{1} << 42), b_memory(size_t{1} << 42);
      const Tensor a(a_memory.get(), dtype, it.a, it.a_strides);
      const Tensor b(b_memory.get(), dtype, it.b, it.b_strides);
      // Numbers where the pieces around the wraps begin.
      const int64_t count = element_count(it.c);
      std::vector<std::pair<int64_t, double>> expected;
      for (const int64_t place : {int64_t{0}, int64_t{77}, count - 1, count - 78}) {
        int64_t a_at = 0, b_at = 0, rest = place;
        for (size_t axis = it.c.size(); axis-- > 0; rest /= it.c[axis]) {
          const int64_t index = rest % it.c[axis];
          const auto step = [&](const Shape& shape, const Shape& strides) {
            const size_t missing = it.c.size() - shape.size();
            const bool repeats = axis < missing || shape[axis - missing] == 1;
            return repeats ? 0 : index * strides[axis - missing];
          };
          a_at += step(it.a, it.a_strides);
          b_at += step(it.b, it.b_strides);
        }
        expected.emplace_back(place, 2 * mark(a, a_at) + mark(b, b_at));
      }
      TestRuntime runtime;
      invoke(op, {a, b}, Attributes(op.attributes), runtime);
      for (const auto& [place, number] : expected) {
        const double got = read(runtime.outputs[0], place);
        expect(got == number, str("my_add ", it.a, " ", it.b, " ", dtype_name(dtype), " at ", place,
                                  ": got ", got, ", expected ", number));
      }
    }
  }
}

// Samples X by hand: bilinear, with zeros around it. Positions are made in the type of arithmetic.
template <class Real>
double sample(const Tensor& X, int64_t n, int64_t c, Real y, Real x) {
  const int64_t height = X.shape[2], width = X.shape[3];
  const auto top = static_cast<int64_t>(std::floor(y)), left = static_cast<int64_t>(std::floor(x));
  double total = 0;
  for (const int64_t row : {top, top + 1}) {
    for (const int64_t column : {left, left + 1}) {
      if (row < 0 || row >= height || column < 0 || column >= width) continue;
      const int64_t offset =
          n * X.strides[0] + c * X.strides[1] + row * X.strides[2] + column * X.strides[3];
      const double fy = static_cast<double>(y) - static_cast<double>(top);
      const double fx = static_cast<double>(x) - static_cast<double>(left);
      const double weight = (row == top ? 1 - fy : fy) * (column == left ? 1 - fx : fx);
      total += weight * mark(X, offset);
    }
  }
  return total;
}

// One filter of 1 x 1 that adds up the channels: the result is the sum of samples, and with a
// gradient of ones that of W is the sum over all outputs.
void test_deform_conv2d() {
  const Op &forward = *find_op("deform_conv2d"), &backward = *find_op("deform_conv2d_backward");
  const int64_t most = 2147483646;
  struct Case {
    Shape X;
    Layout layout;
    std::vector<int64_t> strides;
  };
  const int64_t half = int64_t{1} << 30;
  const std::vector<Case> cases = {
      {{1, 1, 1, most}, Layout::Contiguous, {1, half}},
      {{1, 1, most, 1}, Layout::Contiguous, {half, 1}},
      {{1, 3, most - 1, 2}, Layout::Contiguous, {half / 2, 1}},
      {{2, 3, 2, most - 1}, Layout::ChannelsLast, {1, half / 2}},
      {{2, 2, 1 << 16, 1 << 17}, Layout::Contiguous, {1 << 14, 1 << 15}},
      {{1, 5, 1 << 17, 1 << 16}, Layout::ChannelsLast, {1 << 16, 1 << 14}},
      {{3, 16, 1 << 14, (1 << 14) + 1}, Layout::ChannelsLast, {1 << 13, 1 << 13}}};
  for (const Case& it : cases) {
    for (const DType dtype : {DType::Float16, DType::Float32, DType::Float64}) {
      const int64_t N = it.X[0], C = it.X[1];
      const int64_t oH = (it.X[2] - 1) / it.strides[0] + 1, oW = (it.X[3] - 1) / it.strides[1] + 1;
      const Lazy X_memory(byte_count(it.X, dtype)), others(1 << 20);
      const Tensor X(X_memory.get(), dtype, it.X, it.layout);
      char* next = static_cast<char*>(others.get());
      const auto make = [&](const Shape& shape, const std::function<double(int64_t)>& number) {
        const Tensor tensor(next, dtype, shape);
        next += byte_count(shape, dtype) + 64;
        with_type(dtype, [&](auto tag) {
          using T = typename decltype(tag)::type;
          for (int64_t i = 0; i < tensor.elements(); ++i) {
            tensor.as<T>()[i] = static_cast<T>(static_cast<float>(number(i)));
          }
        });
        return tensor;
      };
      const Tensor W = make({1, C, 1, 1}, [](int64_t) { return 1.0; });
      const Tensor offset = make({N, 2, oH, oW}, [](int64_t i) { return (i % 7 - 3) * 0.25; });
      const Tensor grad = make({N, 1, oH, oW}, [](int64_t) { return 1.0; });
      std::vector<double> expected, of_W(static_cast<size_t>(C), 0.0);
      for (int64_t i = 0; i < N * oH * oW; ++i) {
        const int64_t n = i / (oH * oW), u = i / oW % oH, v = i % oW;
        const int64_t at = n * 2 * oH * oW + u * oW + v;
        const double y = read(offset, at), x = read(offset, at + oH * oW);
        expected.push_back(0);
        for (int64_t c = 0; c < C; ++c) {
          const auto add = [&](auto real) {
            using Real = decltype(real);
            return sample<Real>(X, n, c,
                                static_cast<Real>(u * it.strides[0]) + static_cast<Real>(y),
                                static_cast<Real>(v * it.strides[1]) + static_cast<Real>(x));
          };
          const double value = dtype == DType::Float64 ? add(double()) : add(float());
          expected.back() += value;
          of_W[static_cast<size_t>(c)] += value;
        }
      }
      const std::string text = str("deform_conv2d ", dtype_name(dtype), " ", it.X);
      const auto compare = [&](const Tensor& got, const std::vector<double>& wanted) {
        for (size_t i = 0; i < wanted.size(); ++i) {
          const double number = read(got, static_cast<int64_t>(i));
          const double tolerance = dtype == DType::Float16 ? 2e-3 : 1e-5;
          if (std::abs(number - wanted[i]) <= tolerance * (1 + std::abs(wanted[i]))) continue;
          return expect(false, str(text, " at ", i, ": got ", number, ", expected ", wanted[i]));
        }
      };
      TestRuntime runtime;
      const auto strides = std::make_pair(std::string("strides"), AttributeValue(it.strides));
      invoke(forward, {X, W, offset, Tensor(), Tensor()}, attributes(forward, {strides}), runtime);
      compare(runtime.outputs[0], expected);
      TestRuntime gradients;  // all but that of X, which would be as large as X
      invoke(backward, {grad, X, W, offset, Tensor()},
             attributes(backward, {strides, {"needs", std::vector<int64_t>{0, 1, 1, 0}}}),
             gradients);
      compare(gradients.outputs[1], of_W);
      expect(gradients.outputs[2].shape == offset.shape, text + ": the gradient of offset");
    }
  }
  const Lazy memory(1 << 20);
  const Tensor W(memory.get(), DType::Float32, {1, 1, 1, 1});
  const Tensor long_X(memory.get(), DType::Float32, {1, 1, 1, most + 1}, Shape{0, 0, 0, 0});
  const Tensor offset(memory.get(), DType::Float32, {1, 2, 1, 1});
  expect(refusal_of([&] {
           TestRuntime runtime;
           invoke(forward, {long_X, W, offset, Tensor(), Tensor()}, Attributes(forward.attributes),
                  runtime);
         }) == "deform_conv2d: X: got width 2147483647, expected at most 2147483646",
         "an axis beyond what positions hold");
}

}  // namespace

int main() {
  setenv("MYOPS_MAX_BYTES", kLimit, 1);
  test_resize();
  test_what_is_refused();
  test_my_add();
  test_deform_conv2d();
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  expect(used.ru_maxrss < 1 << 20,
         str("memory: got ", used.ru_maxrss, " KiB, expected below 1 GiB"));
  return finish("tests of long axes");
}
