// No kernel of deform_conv2d and of its gradients computes with memory that it has not written:
// random layers under each instruction set of this CPU.
#include <cstring>
#include <string>
#include <vector>

#include "checking.h"
#include "denormal_memory.h"
#include "each_isa.h"
#include "guarded_runtime.h"

namespace {

class Outputs final : public Runtime {
 public:
  Tensor allocate(size_t, DType dtype, const Shape& shape, Layout layout) override {
    memory_.emplace_back(static_cast<size_t>(element_count(shape)) * dtype_size(dtype) + 1);
    return Tensor(memory_.back().data(), dtype, shape, layout);
  }
  void run(int64_t count, Task task, void* argument) override {
    for (int64_t i = 0; i < count; ++i) task(argument, i);
  }

 private:
  std::vector<std::vector<uint8_t>> memory_;
};

class Draws {
 public:
  explicit Draws(unsigned seed) : seed_(seed) {}
  int64_t among(std::initializer_list<int64_t> choices) {
    return choices.begin()[next() % choices.size()];
  }
  int64_t between(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(next()) % (most - least + 1);
  }

 private:
  unsigned next() {
    seed_ = seed_ * 1664525u + 1013904223u;
    return seed_ >> 8;
  }
  unsigned seed_;
};

struct Field {
  Field(DType type, const Shape& its_shape, Layout its_layout, float least, float most,
        unsigned seed)
      : dtype(type), shape(its_shape), layout(its_layout) {
    const std::vector<float> drawn = numbers(static_cast<size_t>(element_count(shape)), seed);
    dispatch<Half, BFloat16, float, double>(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      data.resize(drawn.size() * sizeof(T));
      for (size_t i = 0; i < drawn.size(); ++i) {
        const T value = static_cast<T>(least + (most - least) * (0.5f * drawn[i] + 0.5f));
        std::memcpy(data.data() + i * sizeof(T), &value, sizeof(T));
      }
    });
  }
  Tensor tensor() { return Tensor(data.data(), dtype, shape, layout); }
  DType dtype;
  Shape shape;
  Layout layout;
  std::vector<uint8_t> data;
};

void check(const char* name, Tensors inputs, int64_t pad, int64_t stride, int64_t group,
           int64_t offset_group, const std::string& text) {
  const Op& op = *find_op(name);
  Attributes attributes(op.attributes);
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const std::string& attribute = op.attributes[i].name;
    if (attribute == "pads") attributes.set(i, std::vector<int64_t>{pad, pad, pad, pad});
    if (attribute == "strides") attributes.set(i, std::vector<int64_t>{stride, stride});
    if (attribute == "group") attributes.set(i, group);
    if (attribute == "offset_group") attributes.set(i, offset_group);
  }
  Outputs outputs;
  fill_memory_with_denormals();
  invoke(op, inputs, attributes, outputs);
  expect(!computed_with_denormals(), str(name, " ", text));
}

int run(Isa isa) {
  for (unsigned seed = 0; seed < 160; ++seed) {
    Draws draw(seed);
    const bool deep = seed % 8 == 7;  // the largest blocks of channels
    const int64_t batch = deep ? 4 : draw.between(1, 2), height = draw.between(1, deep ? 9 : 40),
                  width = draw.among({3, 9, 30, 70, 300}),
                  kernel = deep ? 1 : draw.among({1, 3, 3, 5}), stride = draw.between(1, 2),
                  offset_group = draw.among({1, 1, 2, 5}),
                  channels = offset_group * (deep ? 150 : draw.among({1, 3, 4, 9, 16, 23})),
                  group = draw.among({1, 1, offset_group, channels}),
                  outputs = group * (group == channels ? 1 : draw.among({1, 3, 8, 30}));
    constexpr DType kTypes[] = {DType::Float64, DType::Float32, DType::Float32, DType::Float16,
                                DType::BFloat16};
    const DType dtype = kTypes[draw.between(0, 4)];
    const Layout layout = draw.between(0, 1) == 0 ? Layout::Contiguous : Layout::ChannelsLast;
    const auto spread = static_cast<float>(draw.among({1, 3, 90}));
    const int64_t pad = kernel / 2, taps = kernel * kernel,
                  rows = (height + 2 * pad - kernel) / stride + 1,
                  columns = (width + 2 * pad - kernel) / stride + 1;
    Field X(dtype, {batch, channels, height, width}, layout, -1, 1, seed),
        W(dtype, {outputs, channels / group, kernel, kernel}, Layout::Contiguous, -1, 1, seed + 1),
        offset(dtype, {batch, 2 * offset_group * taps, rows, columns}, layout, -spread, spread,
               seed + 2),
        mask(dtype, {batch, offset_group * taps, rows, columns}, layout, 0.1f, 1, seed + 3),
        Y(dtype, {batch, outputs, rows, columns}, layout, -1, 1, seed + 4);
    const std::string text =
        str("computed with memory that it has not written: layer ", seed, ", ", X.shape, " to ",
            Y.shape, ", ", kernel, "x", kernel, ", groups ", group, " and ", offset_group, ", ",
            dtype_name(dtype), layout == Layout::ChannelsLast ? " channels_last" : "");
    check("deform_conv2d", {X.tensor(), W.tensor(), offset.tensor(), Tensor(), mask.tensor()}, pad,
          stride, group, offset_group, text);
    check("deform_conv2d_backward",
          {Y.tensor(), X.tensor(), W.tensor(), offset.tensor(), mask.tensor()}, pad, stride, group,
          offset_group, text);
  }
  return finish((std::string("memory of deform_conv2d, ") + isa_name(isa)).c_str());
}

}  // namespace

int main() { return for_each_isa(run); }
