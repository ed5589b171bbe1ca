// deform_conv2d of bfloat16 under each instruction set that this CPU has, by name: sums of plain
// loops, which are exact for the numbers used here, so results are compared bit for bit. Products
// of pairs are also tested without the instruction, in plain code.
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "channels_last.h"
#include "checking.h"
#include "deform_conv2d/conv_shape.h"
#include "deform_conv2d/kernels.h"
#include "guarded_runtime.h"
#include "myops/isa/bfloat16_products.h"
#include "myops/op.h"
// Shared code comes before the instruction set.
#include "emulated_bfloat16.h"
// Uses it.
#include "deform_conv2d/forward.h"
#if defined(__x86_64__)
#include "bfloat16_instructions.h"
#endif

namespace {

using namespace myops;

struct Set {
  const char* name;
  bool rounds;  // samples, to bfloat16
  void (*compute)(KernelContext&);
  Prepared (*prepare)(const PrepareContext&);
};

std::vector<Set> sets() {
  std::vector<Set> found = {
      {"emulated", true, deform::emulated_bfloat16::forward, deform::emulated_bfloat16::prepare},
      {"portable", false, deform::portable::forward, deform::portable::prepare}};
  for (const Isa isa : available_isas()) {
#if defined(__x86_64__)
    if (isa == Isa::Avx2) {
      found.push_back({"avx2", false, deform::avx2::forward, deform::avx2::prepare});
    }
    if (isa == Isa::Avx512) {
      found.push_back({"avx512", false, deform::avx512::forward, deform::avx512::prepare});
    }
#elif defined(__aarch64__)
    if (isa == Isa::Neon) {
      found.push_back({"neon", false, deform::neon::forward, deform::neon::prepare});
    }
#endif
  }
#if defined(__x86_64__)
  if (has_bfloat16_products()) {
    found.push_back(
        {"avx512_bf16", true, deform::avx512_bf16::forward, deform::avx512_bf16::prepare});
  }
#endif
  return found;
}

struct Case {
  int64_t batch, channels, outputs, height, width, kernel, group, offset_group;
  Layout layout = Layout::Contiguous;
  float spread = 2;  // of offsets, in pixels
  bool mask = true, bias = true;
};

constexpr Layout kLast = Layout::ChannelsLast;
// All of them can be computed with pairs, see ConvShape::sums_pairs().
const std::vector<Case> kCases = {
    {1, 16, 32, 9, 17, 3, 1, 1},
    {2, 3, 37, 11, 9, 3, 1, 1},  // 27 products: half a pair is left
    {1, 1, 70, 5, 7, 1, 1, 1},
    {1, 9, 1, 13, 8, 1, 1, 1},
    {1, 64, 40, 8, 21, 3, 1, 1, kLast},
    {1, 33, 70, 7, 6, 3, 1, 3},                            // 11 channels for each offset
    {1, 24, 24, 6, 5, 2, 3, 2, kLast},                     // a block has 8 and 4 channels of groups
    {1, 32, 64, 6, 7, 3, 8, 1},                            // and four of each
    {2, 9, 105, 5, 8, 3, 3, 3},                            // 3 of one group alone
    {1, 20, 12, 3, 40, 5, 1, 1, Layout::Contiguous, 40},   // two blocks of taps
    {1, 48, 8, 46, 50, 3, 1, 1, Layout::Contiguous, 300},  // no window fits
    {1, 64, 300, 4, 3, 3, 1, 1},                           // chunks of outputs
    {1, 40, 960, 3, 2, 3, 1, 2},                           // weights that each task packs
    {1, 64, 16, 1, 1, 3, 1, 1, Layout::Contiguous, 1, false, false},
    {0, 16, 8, 9, 9, 3, 1, 1},
};

// Exact: offsets are multiples of a quarter, and samples have at most 8 bits. Rounded: offsets are
// integers, and masks make samples of more than 8 bits. Strange: Exact with numbers that are not
// finite. In all three, sums are exact in float32, or not finite.
enum class Numbers { Exact, Rounded, Strange };

struct Random {
  unsigned seed;
  int below(int count) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<int>((seed >> 8) % static_cast<unsigned>(count));
  }
};

struct Data {
  std::vector<BFloat16> X, W, offset, bias, mask;  // row-major

  Data(const Case& c, Numbers numbers, unsigned seed) {
    Random random{seed};
    const bool rounded = numbers == Numbers::Rounded;
    const int64_t taps = c.kernel * c.kernel, pixels = c.batch * c.height * c.width;
    const auto fill = [](std::vector<BFloat16>& to, int64_t count, const auto& next) {
      to.resize(static_cast<size_t>(count));
      for (BFloat16& item : to) item = BFloat16(next());
    };
    const int largest = rounded ? 127 : 4;
    fill(X, pixels * c.channels,
         [&] { return static_cast<float>(random.below(2 * largest + 1) - largest); });
    fill(W, c.outputs * c.channels / c.group * taps,
         [&] { return static_cast<float>(random.below(7) - 3); });
    const int steps = static_cast<int>(c.spread) * 4;
    fill(offset, 2 * pixels * taps * c.offset_group, [&] {
      const float quarters = static_cast<float>(random.below(2 * steps + 1) - steps);
      return rounded ? std::floor(quarters / 4) : quarters / 4;
    });
    fill(mask, pixels * taps * c.offset_group, [&] {
      return rounded ? static_cast<float>(random.below(256) - 128) / 64
                     : static_cast<float>(random.below(5) - 2);
    });
    fill(bias, c.outputs, [&] { return static_cast<float>(random.below(32)); });
    if (numbers != Numbers::Strange || mask.size() < 60) return;
    const BFloat16 inf(INFINITY), nan(NAN);
    offset[7] = nan, offset[18] = inf, offset[22] = BFloat16(-1e30f);
    mask[3] = nan, mask[5] = inf, mask[40] = BFloat16(-INFINITY);
    // Of the last tap, behind whose samples half a pair may be left.
    const int64_t area = c.height * c.width, last = (taps * c.offset_group - 1) * area;
    for (int64_t p = area / 3; p < area / 2; ++p) mask[static_cast<size_t>(last + p)] = inf;
    X[static_cast<size_t>(random.below(static_cast<int>(X.size())))] = inf;
    X[static_cast<size_t>(random.below(static_cast<int>(X.size())))] = nan;
    W[static_cast<size_t>(random.below(static_cast<int>(W.size())))] = inf;
  }
};

float sample(const Case& c, const BFloat16* plane, float y, float x, float mask) {
  if (!(y > -1 && y < static_cast<float>(c.height) && x > -1 && x < static_cast<float>(c.width))) {
    return 0 * mask;
  }
  const float top = std::floor(y), left = std::floor(x), fy = y - top, fx = x - left;
  const float weights[4] = {(1 - fy) * (1 - fx), (1 - fy) * fx, fy * (1 - fx), fy * fx};
  float total = 0;
  for (int j = 0; j < 4; ++j) {
    const int64_t row = static_cast<int64_t>(top) + j / 2,
                  column = static_cast<int64_t>(left) + j % 2;
    const bool inside = row >= 0 && row < c.height && column >= 0 && column < c.width;
    const float value = inside ? static_cast<float>(plane[row * c.width + column]) : 0;
    total += weights[j] * mask * value;
  }
  return total;
}

std::vector<BFloat16> expected(const Case& c, const Data& data, bool rounds) {
  const int64_t taps = c.kernel * c.kernel, area = c.height * c.width, pad = c.kernel / 2;
  const int64_t group_channels = c.channels / c.group, group_outputs = c.outputs / c.group;
  std::vector<BFloat16> result(static_cast<size_t>(c.batch * c.outputs * area));
  std::vector<float> columns(static_cast<size_t>(c.channels * taps));
  for (int64_t n = 0; n < c.batch; ++n) {
    for (int64_t p = 0; p < area; ++p) {
      for (int64_t ch = 0; ch < c.channels; ++ch) {
        const int64_t d = ch / (c.channels / c.offset_group);
        for (int64_t k = 0; k < taps; ++k) {
          const int64_t plane = (n * c.offset_group + d) * taps + k;
          const BFloat16* offset = data.offset.data() + 2 * plane * area + p;
          const float y =
              static_cast<float>(p / c.width - pad + k / c.kernel) + static_cast<float>(offset[0]);
          const float x = static_cast<float>(p % c.width - pad + k % c.kernel) +
                          static_cast<float>(offset[area]);
          const float mask =
              c.mask ? static_cast<float>(data.mask[static_cast<size_t>(plane * area + p)]) : 1;
          const float value = sample(c, data.X.data() + (n * c.channels + ch) * area, y, x, mask);
          columns[static_cast<size_t>(ch * taps + k)] =
              rounds ? static_cast<float>(BFloat16(value)) : value;
        }
      }
      for (int64_t o = 0; o < c.outputs; ++o) {
        double sum =
            c.bias ? static_cast<double>(static_cast<float>(data.bias[static_cast<size_t>(o)])) : 0;
        const int64_t first = o / group_outputs * group_channels;
        for (int64_t i = 0; i < group_channels * taps; ++i) {
          const auto w = static_cast<double>(
              static_cast<float>(data.W[static_cast<size_t>(o * group_channels * taps + i)]));
          sum += w * static_cast<double>(columns[static_cast<size_t>(first * taps + i)]);
        }
        result[static_cast<size_t>((n * c.outputs + o) * area + p)] =
            BFloat16(static_cast<float>(sum));
      }
    }
  }
  return result;
}

// NaN equals NaN; 0 has no sign.
bool equal(BFloat16 a, BFloat16 b) {
  const auto x = static_cast<float>(a), y = static_cast<float>(b);
  return x == y || (std::isnan(x) && std::isnan(y));
}

void test_case(const Case& c, size_t number, Numbers numbers, Data& data, const Set& set,
               const std::vector<BFloat16>& wanted) {
  Op op = *find_op("deform_conv2d");
  op.compute = set.compute;
  std::vector<BFloat16> X = laid_out(data.X, c.batch, c.channels, c.height * c.width, c.layout);
  Attributes attributes(op.attributes);
  const int64_t pad = c.kernel / 2, rest = c.kernel - 1 - pad;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    const std::string& name = op.attributes[i].name;
    if (name == "pads") attributes.set(i, std::vector<int64_t>{pad, pad, rest, rest});
    if (name == "group") attributes.set(i, c.group);
    if (name == "offset_group") attributes.set(i, c.offset_group);
  }
  constexpr DType kType = DType::BFloat16;
  const int64_t taps = c.kernel * c.kernel;
  const Shape field = {c.batch, c.offset_group * taps, c.height, c.width};
  Tensors inputs = {
      Tensor(X.data(), kType, {c.batch, c.channels, c.height, c.width}, c.layout),
      Tensor(data.W.data(), kType, {c.outputs, c.channels / c.group, c.kernel, c.kernel}),
      Tensor(data.offset.data(), kType, {c.batch, 2 * field[1], c.height, c.width}),
      c.bias ? Tensor(data.bias.data(), kType, {c.outputs}) : Tensor(),
      c.mask ? Tensor(data.mask.data(), kType, field) : Tensor()};
  const std::string what =
      str(set.name, ", case ", number, ", numbers ", static_cast<int>(numbers));
  expect(deform::ConvShape(attributes, inputs[1]).sums_pairs(), what + ": pairs do not match");
  Tensors constants(inputs.size());
  constants[1] = inputs[1];
  const Prepared prepared = set.prepare(PrepareContext(op, constants, attributes));
  for (const Order order : {Order::Forward, Order::Backward, Order::Threads}) {
    for (const void* packed : {static_cast<const void*>(nullptr), prepared.get()}) {
      TestRuntime runtime(order);
      invoke(op, inputs, attributes, runtime, packed);
      expect(runtime.guards_intact(), what + ": wrote outside");
      const std::vector<uint8_t> bytes = runtime.result();
      std::vector<BFloat16> got(bytes.size() / sizeof(BFloat16));
      if (!got.empty()) std::memcpy(got.data(), bytes.data(), bytes.size());
      size_t wrong = got.size() == wanted.size() ? 0 : 1;
      for (size_t i = 0; i < got.size() && i < wanted.size(); ++i) {
        wrong += equal(got[i], wanted[i]) ? 0 : 1;
      }
      expect(wrong == 0, str(what, packed ? ", packed" : "", ": ", wrong, " numbers of ",
                             wanted.size(), " differ"));
    }
  }
}

#if defined(__x86_64__)
// The instructions compute what plain code computes, for numbers of every magnitude. (The smallest
// normal number is left out: whether a sum that rounding would make normal counts as subnormal is
// not specified. On Zen 4 it does.)
void test_instructions() {
  constexpr uint32_t kOften[] = {0x00000000u, 0x80000000u, 0x00010001u, 0x807fffffu,
                                 0x00801234u, 0x7f800000u, 0xff800000u, 0x7fc00000u,
                                 0x3f800000u, 0x7f7fffffu, 0x3f808000u, 0x3f818000u};
  Random random{1};
  const auto bits = [&] {
    if (random.below(4) == 0) return kOften[random.below(12)];
    const auto upper = static_cast<uint32_t>(random.below(65536));
    return upper << 16 | static_cast<uint32_t>(random.below(65536));
  };
  const auto number = [](uint32_t from) {
    float value;
    std::memcpy(&value, &from, sizeof value);
    return value;
  };
  const auto same = [](float a, float b) {
    return std::memcmp(&a, &b, sizeof a) == 0 || (std::isnan(a) && std::isnan(b));
  };
  size_t sums = 0, roundings = 0;
  for (int i = 0; i < 200000; ++i) {
    const uint32_t a = bits(), b = bits();
    const float sum = number(bits());
    sums += same(instructions::add_products(a, b, sum), emulated_bfloat16::add_products(a, b, sum))
                ? 0
                : 1;
    const auto rounded = static_cast<float>(instructions::rounded(sum));
    const auto wanted = static_cast<float>(BFloat16(emulated_bfloat16::flushed(sum)));
    roundings += same(rounded, wanted) ? 0 : 1;
  }
  expect(sums == 0, str("instructions: ", sums, " sums of 200000 differ from plain code"));
  expect(roundings == 0, str("instructions: ", roundings, " roundings of 200000 differ"));
}
#endif

}  // namespace

int main() {
  for (size_t number = 0; number < kCases.size(); ++number) {
    const Case& c = kCases[number];
    for (const Numbers numbers : {Numbers::Exact, Numbers::Rounded, Numbers::Strange}) {
      Data data(c, numbers, static_cast<unsigned>(number) + 1);
      const auto wanted = [&](bool rounds) {
        return laid_out(expected(c, data, rounds), c.batch, c.outputs, c.height * c.width,
                        c.layout);
      };
      const std::vector<BFloat16> rounded = wanted(true), unrounded = wanted(false);
      for (const Set& set : sets()) {
        test_case(c, number, numbers, data, set, set.rounds ? rounded : unrounded);
      }
    }
  }
  for (const Set& set : sets()) std::printf("%s\n", set.name);
#if defined(__x86_64__)
  if (has_bfloat16_products()) {
    test_instructions();
    std::printf("instructions\n");
  } else {
    std::printf("no AVX512-BF16: its instructions are not tested\n");
  }
#endif
  return finish("tests of deform_conv2d in bfloat16");
}
