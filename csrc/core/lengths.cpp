// Named lengths and textual shape rules.
#include "myops/lengths.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <sstream>

#include "checks.h"
#include "myops/op.h"
#include "text_rule.h"

namespace myops {
namespace {

Dim number(const std::string& word) {
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? Dim(std::strtoll(word.c_str(), nullptr, 10)) : Dim();
}

bool differ(const Dim& left, const Dim& right) {
  return left.known() && right.known() && left.value != right.value;
}

}  // namespace

std::string shape_text(const Dims& dims) {
  std::string result;
  for (const Dim& dim : dims) {
    const std::string name = dim.symbol.empty() ? "?" : dim.symbol;
    result += (result.empty() ? "" : ", ") + (dim.known() ? std::to_string(dim.value) : name);
  }
  return "[" + result + "]";
}

Lengths& Lengths::match(size_t input, const std::string& pattern) {
  if (!context_.has(input)) return *this;
  const Dims& dims = context_.dims(input);
  std::istringstream words(pattern);
  const auto before = static_cast<std::ptrdiff_t>(bound_.size());
  std::string expected, word;
  size_t rank = 0;
  bool good = true;
  for (; words >> word; ++rank) {
    expected += (rank ? ", " : "") + word;
    if (rank >= dims.size()) continue;
    Dim fixed = number(word);
    Dim* wanted = fixed.known() ? &fixed : find(word);
    if (wanted == nullptr) {
      bound_.emplace_back(word, dims[rank]);
    } else if (differ(*wanted, dims[rank])) {
      good = false;
    } else if (!wanted->known()) {
      if (dims[rank].known() || wanted->symbol.empty()) *wanted = dims[rank];
    }
  }
  if (good && rank == dims.size()) return *this;
  std::string known;
  for (auto item = bound_.begin(); item != bound_.begin() + before; ++item) {
    const bool used = (", " + expected + ",").find(", " + item->first + ",") != std::string::npos;
    if (used && item->second.known()) {
      known += str(known.empty() ? " with " : ", ", item->first, " = ", item->second.value);
    }
  }
  fail(context_.op_name(), context_.input_name(input), "shape " + shape_text(dims),
       "[" + expected + "]" + known);
}

Lengths& Lengths::values(size_t input, const std::string& names) {
  if (!context_.has(input)) return *this;
  const auto& numbers = context_.values(input);
  if (context_.dims(input).size() != 1) {
    fail(context_.op_name(), context_.input_name(input), str("rank ", context_.dims(input).size()),
         "a list (rank 1)");
  }
  const Dim& count = context_.dims(input)[0];
  std::istringstream words(names);
  std::string expected, word;
  size_t place = 0;
  bool good = true;
  for (; words >> word; ++place) {
    expected += (place ? ", " : "") + word;
    Dim dim;
    if (numbers && place < numbers->size()) {
      const double value = (*numbers)[place];
      good = good && value >= 0 && value <= 0x1p53 && value == std::floor(value);
      if (good) dim = Dim(static_cast<int64_t>(value));
    }
    if (Dim* known = find(word)) {
      good = good && !differ(*known, dim);
      if (dim.known()) *known = dim;
    } else {
      bound_.emplace_back(word, dim);
    }
  }
  // The message is the same whether the numbers are known yet or not.
  const bool fits = !count.known() || count.value == static_cast<int64_t>(place);
  if (good && fits) return *this;
  fail(context_.op_name(), context_.input_name(input),
       fits ? str(*numbers) : str(count.value, " numbers"), "lengths [" + expected + "]");
}

const Dim& Lengths::operator[](const std::string& name) const {
  for (const auto& [known, dim] : bound_) {
    if (known == name) return dim;
  }
  throw Error(str(context_.op_name(), ": the shape rule asks for the length ", quoted(name),
                  ", which none of its patterns has"));
}

namespace {

// Rules are texts of the library itself, so there are few of them.
std::shared_ptr<const text_rule::Rule> parsed(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const text_rule::Rule>> known;
  const std::lock_guard<std::mutex> lock(mutex);
  std::shared_ptr<const text_rule::Rule>& rule = known[text];
  if (!rule) rule = std::make_shared<const text_rule::Rule>(text_rule::parse(text));
  return rule;
}

}  // namespace

void check_rule(const Op& op, const std::string& rule) {
  try {
    const text_rule::Rule parsed = text_rule::parse(rule);
    const std::string fault =
        text_rule::fault(parsed, op.inputs.size(), op.outputs.size(), op.attributes);
    if (!fault.empty()) throw Mistake(str("the shape rule ", quoted(rule), " ", fault));
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (parsed.inputs[i].has_numbers && !op.inputs[i].has_values) {
        throw Mistake(str("the shape rule ", quoted(rule), " names the numbers of ",
                          op.inputs[i].name, ", which is not declared with values"));
      }
    }
  } catch (const Mistake& mistake) {
    throw Error(str(op.name, ": ", mistake.what()));
  }
}

void follow(ShapeContext& context, const std::string& rule) {
  const auto followed = parsed(rule);
  if (followed->inputs.size() != context.declared_inputs() ||
      !followed->describes_outputs(context.outputs_.size())) {
    throw Mistake(str("the shape rule ", quoted(rule), " ",
                      text_rule::fault(*followed, context.declared_inputs(),
                                       context.outputs_.size(), context.attributes().declared())));
  }
  text_rule::follow(*followed, context);
}

Dim* Lengths::find(const std::string& name) {
  for (auto& [known, dim] : bound_) {
    if (known == name) return &dim;
  }
  return nullptr;
}

}  // namespace myops
