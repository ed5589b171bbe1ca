// Plausible calls of an op, drawn from the product of its options. Lengths are those at which the
// implementation changes its strategy, and their neighbours; numbers up to 1,000; primes.
#pragma once

#include <initializer_list>

#include "calls.h"

namespace fuzz {

struct Plan {
  enum class Fill : uint8_t {
    Any,   // uniform in [-range, range], now and then with something absurd
    Grid,  // multiples of 1/8 in [-range, range]: positions that no dtype rounds
    Zero,
  };
  struct Item {
    std::optional<myops::Shape> shape;               // nothing: left out
    std::optional<std::vector<double>> values = {};  // of a list
    Fill fill = Fill::Any;
    int64_t range = 0;  // 0: drawn
  };
  std::vector<Item> inputs;
  NamedAttributes attributes;
  std::vector<std::string> facts;
  int64_t most_elements = 1 << 11;  // of one input, once something is corrupted
};

using Ints = std::vector<int64_t>;

inline fake_ort::NodeAttribute attribute(fake_ort::NodeAttribute value) { return value; }

// A length of at most `most`: small, at one of `limits`, beside one, or a prime.
template <class Limits>
int64_t draw_length(Bytes& bytes, const Limits& limits, int64_t most) {
  for (int tries = 0; tries < 4; ++tries) {
    const size_t kind = bytes.below(8);
    const int64_t length =
        kind < 2   ? 1
        : kind < 4 ? bytes.between(2, 6)
        : kind < 7 ? std::data(limits)[bytes.below(std::size(limits))] + bytes.between(-1, 1)
                   : bytes.pick<int64_t>({5, 7, 11, 13, 17, 19, 23, 37, 61, 127, 257, 509, 997});
    if (length >= 1 && length <= most) return length;
  }
  return bytes.between(1, std::max<int64_t>(std::min<int64_t>(most, 4), 1));
}

// The allowed cost of a call, in elements or products: mostly small, for 1 in 8 eight times that,
// rarely large.
inline int64_t draw_budget(Bytes& bytes, int64_t least, int64_t usual, int64_t most) {
  const int64_t bits = bytes.one_in(64)  ? bytes.between(usual, most)
                       : bytes.one_in(8) ? usual + bytes.between(1, 3)
                                         : bytes.between(least, usual);
  return int64_t{1} << bits;
}

// The class of a number in the table: "1", "2 to 7", "8 and more".
inline std::string number_class(int64_t number, std::initializer_list<int64_t> begins) {
  const int64_t* at = begins.end();
  while (at[-1] > number && at != begins.begin() + 1) --at;
  const std::string first = std::to_string(at[-1]);
  if (at == begins.end()) return first + " and more";
  return at[0] == at[-1] + 1 ? first : first + " to " + std::to_string(at[0] - 1);
}

// A file plan_<op>.cpp gives the plan of its op, and of that op's gradients, by an object of this
// type.
struct AddPlan {
  AddPlan(std::initializer_list<const char*> ops, Plan (*make)(Bytes&, const myops::Op&));
};

}  // namespace fuzz
