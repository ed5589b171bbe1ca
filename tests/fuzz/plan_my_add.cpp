#include "plan.h"

namespace fuzz {
namespace {

using namespace myops;

Plan plan_my_add(Bytes& bytes, const Op&) {
  // Vectors; a grain of 32768 elements, by which work is cut into pieces.
  constexpr int64_t kLimits[] = {4, 8, 16, 32, 64, 512, 4096, 32768};
  Plan plan;
  int64_t budget = draw_budget(bytes, 0, 13, 18);
  Shape whole(bytes.below(6));
  for (int64_t& length : whole) {
    length = bytes.one_in(20) ? 0 : draw_length(bytes, kLimits, budget);
    budget = std::max<int64_t>(budget / std::max<int64_t>(length, 1), 1);
  }
  bool repeats = false;
  for (int operand = 0; operand < 2; ++operand) {
    const size_t lead = bytes.one_in(2) ? 0 : bytes.below(whole.size() + 1);
    Shape shape(whole.begin() + static_cast<long>(lead), whole.end());
    for (int64_t& length : shape) length = bytes.one_in(4) ? 1 : length;
    repeats = repeats || shape != whole;
    plan.inputs.push_back({shape});
  }
  plan.facts = {repeats ? "operands: broadcast" : "operands: of one shape",
                "rank: " + number_class(static_cast<int64_t>(whole.size()), {0, 1, 3, 5}),
                "elements: " + number_class(element_count(whole), {0, 1, 64, 4096, 32769})};
  return plan;
}

const AddPlan added({"my_add"}, plan_my_add);

}  // namespace
}  // namespace fuzz
