// The key and the seed of random ops (Op::random).
#include "myops/random.h"

#include "myops/lengths.h"
#include "myops/op.h"

namespace myops {
namespace {

constexpr const char* kKey = "key";
constexpr const char* kKeyType = "Key";
constexpr const char* kSeed = "seed";

// A textual shape rule has a pattern for each input; that of the key is a list of one number.
std::string with_key(const std::string& rule) {
  const size_t arrow = rule.find("->");
  const std::string inputs = rule.substr(0, arrow);
  const std::string outputs = arrow == std::string::npos ? rule : rule.substr(arrow + 2);
  return str(inputs, ", 1 -> ", outputs);
}

}  // namespace

void complete(Op& op) {
  if (!op.is_random) return;
  op.types.push_back({kKeyType, {DType::Int64}});
  op.inputs.push_back(
      Input{kKey, kKeyType, "[1], in place of the seed: a number that the program computes."}
          .optional());
  op.attributes.push_back({kSeed, int64_t{0}, "Decides all random numbers, where no key does."});
  if (op.shape_text.empty()) return;
  const std::string rule = with_key(op.shape_text);
  op = std::move(op).shape(rule.c_str());
}

uint64_t KernelContext::seed() const {
  if (!op_.is_random) {
    throw Mistake("seed: got a kernel that reads it, expected an op declared with .random()");
  }
  const Tensor& key = input(op_.inputs.size() - 1);
  if (key.present) return static_cast<uint64_t>(*key.as<int64_t>());
  return static_cast<uint64_t>(attributes().integer(kSeed));
}

}  // namespace myops
