// Named lengths and textual shape rules.
#include "myops/lengths.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "checks.h"
#include "myops/op.h"

namespace myops {
namespace {

Dim number(const std::string& word) {
  const bool is_number = word.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? Dim(std::strtoll(word.c_str(), nullptr, 10)) : Dim();
}

bool differ(const Dim& left, const Dim& right) {
  return left.known() && right.known() && left.value != right.value;
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::istringstream stream(text);
  std::vector<std::string> parts;
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
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

struct Rule {
  std::vector<std::string> inputs, outputs;
};

Rule parse(const std::string& op, const std::string& rule, size_t inputs, size_t outputs) {
  const size_t arrow = rule.find("->");
  Rule parsed;
  parsed.inputs = split(rule.substr(0, arrow), ',');
  parsed.outputs = arrow == std::string::npos ? parsed.inputs : split(rule.substr(arrow + 2), ',');
  if (parsed.inputs.size() == inputs && parsed.outputs.size() == outputs) return parsed;
  throw Error(str(op, ": the shape rule ", quoted(rule), " has ", parsed.inputs.size(),
                  " inputs and ", parsed.outputs.size(), " outputs, expected ", inputs, " and ",
                  outputs));
}

}  // namespace

void check_rule(const Op& op, const std::string& rule) {
  const Rule parsed = parse(op.name, rule, op.inputs.size(), op.outputs.size());
  std::string known = " ";
  for (const std::string& input : parsed.inputs) known += input + " ";
  std::replace_if(known.begin(), known.end(), [](char c) { return c == '{' || c == '}'; }, ' ');
  for (const std::string& output : parsed.outputs) {
    std::istringstream words(output);
    for (std::string word; words >> word;) {
      if (number(word).known() || known.find(" " + word + " ") != std::string::npos) continue;
      throw Error(str(op.name, ": the shape rule ", quoted(rule), " has the length ", quoted(word),
                      " in an output, expected one that an input has"));
    }
  }
}

void follow(ShapeContext& context, const std::string& rule) {
  const auto [inputs, outputs] =
      parse(context.op_name(), rule, context.declared_inputs(), context.outputs_.size());
  Lengths lengths(context);
  for (size_t i = 0; i < context.input_count(); ++i) {
    const std::string& pattern = i < inputs.size() ? inputs[i] : inputs.back();  // of a list
    const size_t open = pattern.find('{');
    if (open == std::string::npos) {
      lengths.match(i, pattern);
    } else {
      lengths.values(i, pattern.substr(open + 1, pattern.find('}') - open - 1));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    std::istringstream words(outputs[i]);
    Dims dims;
    for (std::string word; words >> word;) {
      const Dim fixed = number(word);
      dims.push_back(fixed.known() ? fixed : lengths[word]);
    }
    context.set_output(i, dims);
  }
}

Dim* Lengths::find(const std::string& name) {
  for (auto& [known, dim] : bound_) {
    if (known == name) return &dim;
  }
  return nullptr;
}

}  // namespace myops
