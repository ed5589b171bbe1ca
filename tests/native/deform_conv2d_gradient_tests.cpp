// The gradients of deform_conv2d with few channels in an offset group (cell_tables), under each
// instruction set of this CPU: loops in double, guard zones, the same bits in any order of pieces.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "../../csrc/core/report.h"
#include "checking.h"
#include "denormal_memory.h"
#include "each_isa.h"
#include "guarded_runtime.h"

namespace {

struct Case {
  int64_t batch, channels, outputs, height, width, kernel, stride, group, offset_group;
  DType dtype = DType::Float32;
  Layout layout = Layout::Contiguous;
  double spread = 2;  // of offsets, in pixels
  const char* kernel_name = "cell_tables";
};

constexpr Layout kLast = Layout::ChannelsLast;
const std::vector<Case> kCases = {
    {1, 1, 3, 19, 33, 3, 1, 1, 1},
    {2, 3, 5, 11, 9, 3, 1, 1, 1},
    {2, 2, 5, 11, 9, 3, 1, 1, 1, DType::Float64},
    {1, 2, 70, 8, 21, 2, 2, 1, 1, DType::Float32, kLast},
    {1, 12, 6, 7, 16, 2, 1, 3, 4, DType::Float32, kLast},
    // Offset groups of 2 channels, weight groups of 3: some need the outputs of two.
    {1, 12, 8, 7, 16, 2, 1, 4, 6, DType::Float64, kLast},
    {1, 8, 8, 12, 13, 3, 2, 8, 2},
    {1, 16, 24, 5, 40, 3, 1, 8, 2},
    {1, 1, 2, 23, 70, 5, 1, 1, 1, DType::Float32, kLast},
    {1, 2, 3, 130, 280, 1, 1, 1, 1, DType::Float32, Layout::Contiguous, 150},  // no table fits
    {1, 2, 3, 9, 11, 3, 1, 1, 1, DType::Float32, Layout::Contiguous, 0},       // integers
    {1, 6, 9, 10, 408, 3, 2, 3, 1},  // rows whose cells fit no table are divided
    {0, 2, 3, 9, 11, 3, 1, 1, 1},
    {1, 24, 12, 7, 9, 3, 1, 1, 1, DType::Float32, kLast, 2, "whole_images"},
    // Few samples for each pixel of X.
    {1, 6, 7, 8, 21, 1, 2, 1, 2, DType::Float32, kLast, 2, "whole_images"},
    {1, 24, 8, 7, 16, 1, 1, 8, 3, DType::Float32, Layout::Contiguous, 2, "whole_images"},
};

// Each output lies between guard bytes.
class Outputs final : public Runtime {
 public:
  explicit Outputs(Order order) : runtime_(order), memory(4) {}
  Tensor allocate(size_t index, DType dtype, const Shape& shape, Layout layout) override {
    const size_t bytes = static_cast<size_t>(element_count(shape)) * dtype_size(dtype);
    layouts[index] = layout;
    memory[index].assign(bytes + 2 * kMargin, kGuard);
    return Tensor(memory[index].data() + kMargin, dtype, shape, layout);
  }
  void run(int64_t count, Task task, void* argument) override {
    runtime_.run(count, task, argument);
  }
  bool guards_intact() const {
    for (const auto& bytes : memory) {
      for (size_t i = 0; i < kMargin; ++i) {
        if (bytes[i] != kGuard || bytes[bytes.size() - 1 - i] != kGuard) return false;
      }
    }
    return true;
  }

 private:
  TestRuntime runtime_;

 public:
  std::vector<std::vector<uint8_t>> memory;
  Layout layouts[4] = {};
};

// A tensor of 4 axes in double, and its bytes in a dtype and a layout.
struct Field {
  Shape shape;
  std::vector<double> values;

  Field(const Shape& lengths, unsigned seed, double scale = 1) : shape(lengths) {
    const std::vector<float> drawn = numbers(static_cast<size_t>(element_count(shape)), seed);
    for (const float number : drawn) values.push_back(static_cast<double>(number) * scale);
  }
  double& at(int64_t i, int64_t j, int64_t k, int64_t l) {
    return values[static_cast<size_t>(((i * shape[1] + j) * shape[2] + k) * shape[3] + l)];
  }
  template <class Body>
  void for_each(Layout layout, const Body& body) {  // body(value, place in memory)
    const Shape strides = strides_for(shape, layout);
    for (int64_t i = 0; i < shape[0]; ++i)
      for (int64_t j = 0; j < shape[1]; ++j)
        for (int64_t k = 0; k < shape[2]; ++k)
          for (int64_t l = 0; l < shape[3]; ++l)
            body(at(i, j, k, l), static_cast<size_t>(i * strides[0] + j * strides[1] +
                                                     k * strides[2] + l * strides[3]));
  }
  std::vector<uint8_t> bytes(DType dtype, Layout layout) {
    std::vector<uint8_t> memory(values.size() * dtype_size(dtype));
    for_each(layout, [&](double& value, size_t place) {
      if (dtype == DType::Float64) {
        std::memcpy(memory.data() + place * 8, &value, 8);
        return;
      }
      const auto narrow = static_cast<float>(value);
      std::memcpy(memory.data() + place * 4, &narrow, 4);
      value = static_cast<double>(narrow);
    });
    return memory;
  }
};

struct Problem {
  Case c;
  int64_t taps, rows, columns;
  Field grad, X, W, offset, mask;

  explicit Problem(const Case& given)
      : c(given),
        taps(c.kernel * c.kernel),
        rows(length(c.height)),
        columns(length(c.width)),
        grad({c.batch, c.outputs, rows, columns}, 1),
        X({c.batch, c.channels, c.height, c.width}, 2),
        W({c.outputs, c.channels / c.group, c.kernel, c.kernel}, 3),
        offset({c.batch, 2 * c.offset_group * taps, rows, columns}, 4, c.spread),
        mask({c.batch, c.offset_group * taps, rows, columns}, 5) {
    // Away from integers, where the gradient jumps; exactly representable.
    for (double& value : offset.values) {
      value = c.spread > 0
                  ? std::floor(value) + 0.25 + std::floor((value - std::floor(value)) * 3) / 4
                  : 0;
    }
  }
  int64_t length(int64_t size) const {
    return (size + 2 * (c.kernel / 2) - c.kernel) / c.stride + 1;
  }

  // dX, dW, d offset, d mask.
  std::vector<Field> gradients() {
    std::vector<Field> found = {Field(X.shape, 0, 0), Field(W.shape, 0, 0),
                                Field(offset.shape, 0, 0), Field(mask.shape, 0, 0)};
    const int64_t C = c.channels / c.group, O = c.outputs / c.group;
    for (int64_t n = 0; n < c.batch; ++n)
      for (int64_t ch = 0; ch < c.channels; ++ch)
        for (int64_t k = 0; k < taps; ++k)
          for (int64_t u = 0; u < rows; ++u)
            for (int64_t v = 0; v < columns; ++v) {
              const int64_t tap = ch / (c.channels / c.offset_group) * taps + k;
              const auto place = [&](int64_t i, int64_t cell, int64_t axis) {
                return static_cast<double>(i * c.stride - c.kernel / 2 + cell) +
                       offset.at(n, 2 * tap + axis, u, v);
              };
              const double y = place(u, k / c.kernel, 0), x = place(v, k % c.kernel, 1);
              if (!(y > -1 && y < static_cast<double>(c.height) && x > -1 &&
                    x < static_cast<double>(c.width)))
                continue;
              const double fy = y - std::floor(y), fx = x - std::floor(x),
                           m = mask.at(n, tap, u, v);
              const double w[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
              const double wy[4] = {fx - 1, -fx, 1 - fx, fx}, wx[4] = {fy - 1, 1 - fy, -fy, fy};
              const int64_t group = ch / C;
              double T = 0, sample = 0;
              for (int64_t o = group * O; o < (group + 1) * O; ++o)
                T += W.at(o, ch % C, k / c.kernel, k % c.kernel) * grad.at(n, o, u, v);
              for (int j = 0; j < 4; ++j) {
                const auto row = static_cast<int64_t>(std::floor(y)) + j / 2;
                const auto column = static_cast<int64_t>(std::floor(x)) + j % 2;
                if (row < 0 || row >= c.height || column < 0 || column >= c.width) continue;
                const double value = X.at(n, ch, row, column);
                found[0].at(n, ch, row, column) += m * w[j] * T;
                found[2].at(n, 2 * tap, u, v) += m * wy[j] * T * value;
                found[2].at(n, 2 * tap + 1, u, v) += m * wx[j] * T * value;
                found[3].at(n, tap, u, v) += w[j] * T * value;
                sample += m * w[j] * value;
              }
              for (int64_t o = group * O; o < (group + 1) * O; ++o)
                found[1].at(o, ch % C, k / c.kernel, k % c.kernel) += sample * grad.at(n, o, u, v);
            }
    return found;
  }
};

void check(const Case& c, size_t number) {
  const Op& op = *find_op("deform_conv2d_backward");
  Problem problem(c);
  Attributes attributes(op.attributes);
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const std::string& name = op.attributes[i].name;
    const int64_t pad = c.kernel / 2;
    if (name == "pads") attributes.set(i, std::vector<int64_t>{pad, pad, pad, pad});
    if (name == "strides") attributes.set(i, std::vector<int64_t>{c.stride, c.stride});
    if (name == "group") attributes.set(i, c.group);
    if (name == "offset_group") attributes.set(i, c.offset_group);
  }
  std::vector<std::vector<uint8_t>> memory;
  Tensors inputs;
  for (Field* field : {&problem.grad, &problem.X, &problem.W, &problem.offset, &problem.mask}) {
    const Layout layout = field == &problem.W ? Layout::Contiguous : c.layout;
    memory.push_back(field->bytes(c.dtype, layout));
    inputs.push_back(Tensor(memory.back().data(), c.dtype, field->shape, layout));
  }
  std::vector<Field> wanted = problem.gradients();
  std::vector<std::vector<uint8_t>> first;
  for (const Order order : {Order::Forward, Order::Backward, Order::Threads}) {
    const std::string text =
        str(c.kernel_name, ", case ", number, ", order ", static_cast<int>(order));
    Outputs outputs(order);
    record_calls();
    fill_memory_with_denormals();
    invoke(op, inputs, attributes, outputs);
    const bool denormals = computed_with_denormals();
    const std::string line = recorded_calls();
    if (c.batch > 0) {
      expect(line.find(str("\"kernel\": \"", c.kernel_name, "\"")) != std::string::npos,
             text + ": the plan has another kernel: " + line);
    }
    expect(outputs.guards_intact(), text + ": wrote outside");
    expect(!denormals, text + ": computed with memory that it has not written");
    if (first.empty()) first = outputs.memory;
    expect(first == outputs.memory, text + ": other bits");
    for (size_t i = 0; i < 4; ++i) {
      const uint8_t* const from = outputs.memory[i].data() + kMargin;
      double most = 1;
      for (const double value : wanted[i].values) most = std::max(most, std::abs(value));
      const double limit = most * (c.dtype == DType::Float64 ? 1e-12 : 2e-5);
      double worst = 0;
      wanted[i].for_each(outputs.layouts[i], [&](double value, size_t place) {
        double got = 0;
        if (c.dtype == DType::Float64) {
          std::memcpy(&got, from + place * 8, 8);
        } else {
          float narrow = 0;
          std::memcpy(&narrow, from + place * 4, 4);
          got = static_cast<double>(narrow);
        }
        worst = std::fmax(worst, std::isnan(got) ? INFINITY : std::abs(got - value));
      });
      expect(worst <= limit, str(text, ", gradient ", i, ": error ", worst, " of at most ", limit));
    }
  }
}

int run(Isa isa) {
  for (size_t number = 0; number < kCases.size(); ++number) check(kCases[number], number);
  return finish((std::string("gradients of deform_conv2d, ") + isa_name(isa)).c_str());
}

}  // namespace

int main() { return for_each_isa(run); }
