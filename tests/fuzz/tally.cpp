#include "tally.h"

#include <array>
#include <cstdio>
#include <map>

namespace fuzz {
namespace {

using Counts = std::array<int64_t, 2>;  // refused, accepted
using Table = std::map<std::string, std::map<std::string, Counts>>;

Table& table() {
  static Table counts;
  return counts;
}

void print() {
  for (const auto& [op, facts] : table()) {
    for (const auto& [fact, counts] : facts) {
      std::printf("| %s | %s | %lld | %lld |\n", op.c_str(), fact.c_str(),
                  static_cast<long long>(counts[1]), static_cast<long long>(counts[0]));
    }
  }
}

}  // namespace

void count(const Call& call, bool accepted) {
  std::map<std::string, Counts>& facts = table()[call.op->name];
  ++facts[" all"][accepted];
  for (const std::string& fact : call.facts) ++facts[fact][accepted];
}

void print_counts_at_exit() {
  table();  // made before, and so destroyed after, what is registered here
  std::printf("| op | kind of call | accepted | refused |\n|---|---|---|---|\n");
  std::atexit(print);
}

}  // namespace fuzz
