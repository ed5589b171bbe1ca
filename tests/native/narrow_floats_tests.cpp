// The 8-bit floats: every value is converted to float32 and back; other numbers are compared with a
// search among all values.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

#include "checking.h"
#include "myops/error.h"
#include "myops/narrow_floats.h"

namespace {
using namespace myops;

// The value of a pattern by the definition of the format; `special` patterns are left to the tests.
double value_of(int bits, int mantissa, int bias) {
  const int exponent = (bits & 0x7f) >> mantissa, fraction = bits & ((1 << mantissa) - 1);
  const double size = exponent == 0
                          ? std::ldexp(fraction, 1 - bias - mantissa)
                          : std::ldexp(fraction + (1 << mantissa), exponent - bias - mantissa);
  return (bits & 0x80) != 0 ? -size : size;
}

struct Format {
  const char* name;
  int mantissa, bias, largest;  // the pattern of the largest finite number
  int beyond;                   // what larger numbers become
  uint8_t (*narrow)(float);
  float (*wide)(uint8_t);
};

// The nearest finite pattern, of two the even one; `beyond` from half a step above the largest on.
int nearest(const Format& format, float value) {
  const double size = std::fabs(static_cast<double>(value));
  const double top = value_of(format.largest, format.mantissa, format.bias);
  const double step = top - value_of(format.largest - 1, format.mantissa, format.bias);
  // The pattern behind the largest would be even where the largest is odd.
  const bool tie_goes_up = (format.largest & 1) != 0;
  int best = 0;
  if (size > top + step / 2 || (size == top + step / 2 && tie_goes_up)) {
    best = format.beyond;
  } else {
    for (int bits = 1; bits <= format.largest; ++bits) {
      const double old = std::fabs(value_of(best, format.mantissa, format.bias) - size);
      const double now = std::fabs(value_of(bits, format.mantissa, format.bias) - size);
      if (now < old || (now == old && (bits & 1) == 0)) best = bits;
    }
  }
  return best | (std::signbit(value) ? 0x80 : 0);
}

void test(const Format& format) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto pattern = static_cast<uint8_t>(bits);
    if ((bits & 0x7f) > format.largest) continue;
    const float wide = format.wide(pattern);
    expect(wide == value_of(bits, format.mantissa, format.bias), str(format.name, " ", bits));
    expect(format.narrow(wide) == pattern, str(format.name, ": there and back ", bits));
  }
  std::mt19937 random(std::random_device{}());
  for (int i = 0; i < 20000; ++i) {
    // Of any exponent near the range of the format; every other one on or beside a tie.
    float value = std::ldexp(1.0f + static_cast<float>(random() % 4096) / 4096,
                             static_cast<int>(random() % 48) - 24);
    if (i % 2 == 0) {
      const int bits = static_cast<int>(random() % static_cast<unsigned>(format.largest));
      value = static_cast<float>((value_of(bits, format.mantissa, format.bias) +
                                  value_of(bits + 1, format.mantissa, format.bias)) /
                                 2);
      if (random() % 3 == 0) value = std::nextafterf(value, random() % 2 == 0 ? 0.0f : 1e9f);
    }
    if (random() % 2 == 0) value = -value;
    expect(format.narrow(value) == nearest(format, value), str(format.name, " of ", value));
  }
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {infinity, -infinity, 1e9f, -3e38f}) {
    expect((format.narrow(value) & 0x7f) == format.beyond, str(format.name, " of ", value));
    expect(((format.narrow(value) & 0x80) != 0) == std::signbit(value), "its sign");
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  expect(std::isnan(format.wide(format.narrow(nan))), str(format.name, " of NaN"));
  expect(format.narrow(-0.0f) == 0x80, str(format.name, " of -0"));
}

}  // namespace

int main() {
  test({"float8_e4m3fn", 3, 7, 0x7e, 0x7f, [](float x) { return Float8E4M3FN(x).bits; },
        [](uint8_t bits) {
          Float8E4M3FN narrow;
          narrow.bits = bits;
          return static_cast<float>(narrow);
        }});
  test({"float8_e5m2", 2, 15, 0x7b, 0x7c, [](float x) { return Float8E5M2(x).bits; },
        [](uint8_t bits) {
          Float8E5M2 narrow;
          narrow.bits = bits;
          return static_cast<float>(narrow);
        }});
  Float8E5M2 infinite;
  infinite.bits = 0xfc;
  expect(static_cast<float>(infinite) == -std::numeric_limits<float>::infinity(), "infinity");
  return finish("narrow floats tests");
}
