// deform_conv2d_int8 under each instruction set that this CPU has, by name: the bits of plain loops
// over integers, guard zones, any order of pieces, with and without packed weights.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "channels_last.h"
#include "checking.h"
#include "deform_conv2d_int8/kernels.h"
#include "guarded_runtime.h"
#include "myops/isa/byte_products.h"
#include "myops/op.h"

namespace {

using namespace myops;

struct Set {
  const char* name;
  void (*compute)(KernelContext&);
  Prepared (*prepare)(const PrepareContext&);
};

std::vector<Set> sets() {
  std::vector<Set> found = {
      {"portable", deform::portable::forward_int8, deform::portable::prepare_int8}};
  for (const Isa isa : available_isas()) {
#if defined(__x86_64__)
    if (isa == Isa::Avx2) {
      found.push_back({"avx2", deform::avx2::forward_int8, deform::avx2::prepare_int8});
    }
    if (isa == Isa::Avx512) {
      found.push_back({"avx512", deform::avx512::forward_int8, deform::avx512::prepare_int8});
    }
#elif defined(__aarch64__)
    if (isa == Isa::Neon) {
      found.push_back({"neon", deform::neon::forward_int8, deform::neon::prepare_int8});
    }
#endif
  }
#if defined(__x86_64__)
  if (has_byte_products()) {
    found.push_back(
        {"avx512_vnni", deform::avx512_vnni::forward_int8, deform::avx512_vnni::prepare_int8});
  }
#endif
  return found;
}

struct Case {
  int64_t batch, channels, outputs, height, width, kernel, group, offset_group;
  DType dtype = DType::UInt8;
  Layout layout = Layout::Contiguous;
  double mask_limit = 1;
  float spread = 2;  // of offsets, in pixels
  bool mask = true, bias = true;
};

constexpr Layout kLast = Layout::ChannelsLast;
const std::vector<Case> kCases = {
    {1, 16, 32, 9, 17, 3, 1, 1},
    {2, 3, 5, 11, 9, 3, 1, 1, DType::Int8},
    {1, 64, 40, 8, 21, 3, 1, 1, DType::UInt8, kLast},
    {1, 100, 70, 7, 6, 3, 1, 2, DType::UInt8, Layout::Contiguous, 0.4},
    {1, 36, 24, 6, 5, 2, 3, 4, DType::Int8, kLast, 2.5},
    {1, 8, 8, 12, 13, 3, 8, 2},
    {1, 24, 600, 5, 4, 1, 1, 1},
    {1, 20, 12, 3, 40, 5, 1, 1, DType::Int8, Layout::Contiguous, 1, 40},
    {1, 48, 16, 70, 66, 3, 1, 1, DType::UInt8, Layout::Contiguous, 1, 300},  // no window fits
    {1, 64, 16, 1, 1, 3, 1, 1, DType::UInt8, Layout::Contiguous, 1, 1, false, false},
    {0, 16, 8, 9, 9, 3, 1, 1},
};

struct Numbers {
  unsigned seed;
  float real() {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<float>(seed >> 8) / 16777216.0f;
  }
  int byte() { return static_cast<int>(real() * 256); }
};

struct Data {
  std::vector<uint8_t> X;  // row-major
  std::vector<int8_t> W;
  std::vector<float> offset, bias, mask, W_scale;
  float X_scale = 0.013f;
  uint8_t zero_point = 0;

  Data(const Case& c, unsigned seed) {
    Numbers numbers{seed};
    const int64_t taps = c.kernel * c.kernel, pixels = c.batch * c.height * c.width;
    X.resize(static_cast<size_t>(pixels * c.channels));
    for (auto& item : X) item = static_cast<uint8_t>(numbers.byte());
    W.resize(static_cast<size_t>(c.outputs * c.channels / c.group * taps));
    for (auto& item : W) item = static_cast<int8_t>(numbers.byte() - 128);
    offset.resize(static_cast<size_t>(2 * pixels * taps * c.offset_group));
    for (auto& item : offset) item = (numbers.real() - 0.5f) * 2 * c.spread;
    mask.resize(offset.size() / 2);
    for (auto& item : mask) item = (numbers.real() * 1.4f - 0.2f);
    if (mask.size() > 50) {
      offset[7] = NAN, offset[18] = INFINITY, offset[20] = 0, offset[21] = 1, offset[22] = -1e30f;
      mask[3] = NAN, mask[5] = -INFINITY, mask[8] = 1e30f, mask[9] = 1;
    }
    bias.resize(static_cast<size_t>(c.outputs));
    W_scale.resize(bias.size());
    for (auto& item : bias) item = numbers.real();
    for (auto& item : W_scale) item = 0.001f + numbers.real() * 0.002f;
    zero_point = static_cast<uint8_t>(numbers.byte());
  }
};

int as_integer(uint8_t byte, DType dtype) {
  return dtype == DType::Int8 ? static_cast<int8_t>(byte) : byte;
}

int fraction(float weight, float mask) {
  const float value = weight * mask;
  return static_cast<int>(std::nearbyint(std::fmin(std::fmax(value, -32767.0f), 32767.0f)));
}

// The sample of one channel, as an integer.
int sample(const Case& c, const Data& data, const uint8_t* plane, float y, float x, float mask) {
  if (!(y > -1 && y < static_cast<float>(c.height) && x > -1 && x < static_cast<float>(c.width))) {
    return 0;
  }
  const int zero = as_integer(data.zero_point, c.dtype);
  const float top = std::floor(y), left = std::floor(x), fy = y - top, fx = x - left;
  float m = mask * (1 / static_cast<float>(c.mask_limit));
  if (std::isnan(m)) m = 0;
  m = std::fmin(std::fmax(m, -1.0f), 1.0f) * 32768;
  const float weights[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  int total = 0;
  for (int j = 0; j < 4; ++j) {
    const int64_t row = static_cast<int64_t>(top) + j / 2,
                  column = static_cast<int64_t>(left) + j % 2;
    int q = 0;
    if (row >= 0 && row < c.height && column >= 0 && column < c.width) {
      q = as_integer(plane[row * c.width + column], c.dtype) - zero;
    }
    total += (128 * q * fraction(weights[j], m) + 16384) >> 15;
  }
  const int low = (c.dtype == DType::Int8 ? -128 : 0) - zero;
  return std::min(std::max((total + 64) >> 7, low), low + 255);
}

std::vector<float> expected(const Case& c, const Data& data) {
  const int64_t taps = c.kernel * c.kernel, area = c.height * c.width, pad = c.kernel / 2;
  const int64_t group_channels = c.channels / c.group, group_outputs = c.outputs / c.group;
  std::vector<float> result(static_cast<size_t>(c.batch * c.outputs * area));
  std::vector<int> columns(static_cast<size_t>(c.channels * taps));
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t p = 0; p < area; ++p) {
      for (int64_t ch = 0; ch < c.channels; ++ch) {
        const int64_t d = ch / (c.channels / c.offset_group);
        for (int64_t k = 0; k < taps; ++k) {
          const int64_t plane = (n * c.offset_group + d) * taps + k;
          const float* offset = data.offset.data() + 2 * plane * area + p;
          const auto y =
              static_cast<float>(p / c.width - pad) + static_cast<float>(k / c.kernel) + offset[0];
          const auto x = static_cast<float>(p % c.width - pad) + static_cast<float>(k % c.kernel) +
                         offset[area];
          const float mask = c.mask ? data.mask[static_cast<size_t>(plane * area + p)] : 1;
          columns[static_cast<size_t>(ch * taps + k)] =
              sample(c, data, data.X.data() + (n * c.channels + ch) * area, y, x, mask);
        }
      }
      for (int64_t o = 0; o < c.outputs; ++o) {
        int sum = 0;
        const int64_t first = o / group_outputs * group_channels;
        for (int64_t i = 0; i < group_channels * taps; ++i) {
          sum += data.W[static_cast<size_t>(o * group_channels * taps + i)] *
                 columns[static_cast<size_t>(first * taps + i)];
        }
        const float scale =
            data.X_scale * static_cast<float>(c.mask_limit) * data.W_scale[static_cast<size_t>(o)];
        const float scaled = static_cast<float>(sum) * scale;
        result[static_cast<size_t>((n * c.outputs + o) * area + p)] =
            scaled + (c.bias ? data.bias[static_cast<size_t>(o)] : 0);
      }
    }
  }
  return result;
}

void test_case(const Case& c, size_t number, const Set& set) {
  Op op = *find_op("deform_conv2d_int8");
  op.compute = set.compute;
  Data data(c, static_cast<unsigned>(number) + 1);
  std::vector<uint8_t> X = laid_out(data.X, c.batch, c.channels, c.height * c.width, c.layout);
  Attributes attributes(op.attributes);
  const int64_t pad = c.kernel / 2, rest = c.kernel - 1 - pad;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const std::string& name = op.attributes[i].name;
    if (name == "pads") attributes.set(i, std::vector<int64_t>{pad, pad, rest, rest});
    if (name == "group") attributes.set(i, c.group);
    if (name == "offset_group") attributes.set(i, c.offset_group);
    if (name == "mask_limit") attributes.set(i, c.mask_limit);
  }
  Case used = c;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    if (op.attributes[i].name == "mask_limit") used.mask_limit = attributes.real("mask_limit");
  }
  const int64_t taps = c.kernel * c.kernel;
  const Shape field = {c.batch, c.offset_group * taps, c.height, c.width};
  Tensors inputs = {
      Tensor(X.data(), c.dtype, {c.batch, c.channels, c.height, c.width}, c.layout),
      Tensor(&data.X_scale, DType::Float32, {1}),
      Tensor(&data.zero_point, c.dtype, {1}),
      Tensor(data.W.data(), DType::Int8, {c.outputs, c.channels / c.group, c.kernel, c.kernel}),
      Tensor(data.W_scale.data(), DType::Float32, {c.outputs}),
      Tensor(data.offset.data(), DType::Float32, {c.batch, 2 * field[1], c.height, c.width}),
      c.bias ? Tensor(data.bias.data(), DType::Float32, {c.outputs}) : Tensor(),
      c.mask ? Tensor(data.mask.data(), DType::Float32, field) : Tensor()};
  Tensors constants(inputs.size());
  constants[3] = inputs[3];
  const Prepared prepared = set.prepare(PrepareContext(op, constants, attributes));
  const std::vector<float> wanted =
      laid_out(expected(used, data), c.batch, c.outputs, c.height * c.width, c.layout);
  for (const Order order : {Order::Forward, Order::Backward, Order::Threads}) {
    for (const void* packed : {static_cast<const void*>(nullptr), prepared.get()}) {
      TestRuntime runtime(order);
      invoke(op, inputs, attributes, runtime, packed);
      const std::string what = str(set.name, ", case ", number);
      expect(runtime.guards_intact(), what + ": wrote outside");
      const std::vector<uint8_t> result = runtime.result();
      size_t wrong = 0;
      if (result.size() == wanted.size() * sizeof(float)) {
        for (size_t i = 0; i < wanted.size(); ++i) {
          wrong += std::memcmp(result.data() + 4 * i, wanted.data() + i, 4) != 0;
        }
      } else {
        wrong = 1;
      }
      expect(wrong == 0, str(what, ": ", wrong, " numbers of ", wanted.size(), " differ"));
    }
  }
}

// The sums closest to the bounds of 32 bits, and of saturating instructions.
void test_largest_sums(const Set& set) {
  Op op = *find_op("deform_conv2d_int8");
  op.compute = set.compute;
  constexpr int64_t kChannels = 65536;
  for (const int x : {0, 255}) {
    for (const int w : {-128, 127}) {
      std::vector<uint8_t> X(kChannels, static_cast<uint8_t>(x));
      std::vector<int8_t> W(kChannels, static_cast<int8_t>(w));
      uint8_t zero_point = x == 0 ? 255 : 0;
      float one = 1;
      std::vector<float> offset(2, 0.0f);
      TestRuntime runtime;
      invoke(
          op,
          {Tensor(X.data(), DType::UInt8, {1, kChannels, 1, 1}), Tensor(&one, DType::Float32, {1}),
           Tensor(&zero_point, DType::UInt8, {1}),
           Tensor(W.data(), DType::Int8, {1, kChannels, 1, 1}), Tensor(&one, DType::Float32, {1}),
           Tensor(offset.data(), DType::Float32, {1, 2, 1, 1}), Tensor(), Tensor()},
          Attributes(op.attributes), runtime);
      const auto sum = static_cast<int64_t>(x - zero_point) * w * kChannels;
      float got = 0;
      std::memcpy(&got, runtime.result().data(), sizeof got);
      expect(got == static_cast<float>(sum), str(set.name, ": largest sums: got ", got, ", ", sum));
    }
  }
}

}  // namespace

int main() {
  for (const Set& set : sets()) {
    for (size_t number = 0; number < kCases.size(); ++number)
      test_case(kCases[number], number, set);
    test_largest_sums(set);
    std::printf("%s\n", set.name);
  }
  return finish("tests of deform_conv2d_int8");
}
