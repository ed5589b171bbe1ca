// Evaluates a textual shape rule: lengths of the inputs get names, outputs are computed from them.
#include "text_rule.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "myops/error.h"
#include "myops/lengths.h"

namespace myops::text_rule {
namespace {

using Kind = Instruction::Kind;

bool differ(const Dim& left, const Dim& right) {
  return left.known() && right.known() && left.value != right.value;
}

// Python's // and %, which round down.
int64_t floor_div(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

class Run {
 public:
  explicit Run(ShapeContext& context) : context_(context) {}

  void follow(const Rule& rule) {
    // Each tensor of a variadic input, which is the last, has its pattern.
    const auto pattern = [&](size_t i) -> const Pattern& {
      return i < rule.inputs.size() ? rule.inputs[i] : rule.inputs.back();
    };
    for (size_t i = 0; i < context_.input_count(); ++i) {
      if (!context_.has(i)) continue;
      if (pattern(i).has_numbers) {
        bind_numbers(i, pattern(i));
      } else {
        match(i, pattern(i));
      }
    }
    for (size_t i = 0; i < context_.input_count(); ++i) {
      if (context_.has(i) && !pattern(i).has_numbers) check_computed(i, pattern(i));
    }
    for (size_t i = 0; i < context_.outputs_.size(); ++i) {
      Dims dims;
      for (const Word& word : rule.outputs[i].words) append(word, dims);
      context_.set_output(i, std::move(dims));
    }
  }

 private:
  // ---- Inputs.

  void match(size_t input, const Pattern& pattern) {
    const Dims& dims = context_.dims(input);
    const std::vector<Word>& words = pattern.words;
    const auto many = std::find_if(words.begin(), words.end(), [](const Word& word) {
      return word.kind == Word::Kind::Rest || word.kind == Word::Kind::Group;
    });
    const auto before = static_cast<size_t>(many - words.begin());
    const size_t fixed = words.size() - (many == words.end() ? 0 : 1);
    const bool rank_fits = many == words.end() ? dims.size() == fixed : dims.size() >= fixed;
    const size_t old_lengths = lengths_.size(), old_groups = groups_.size();
    bool good = rank_fits;
    for (size_t k = 0; good && k < words.size(); ++k) {
      if (k == before) {
        const size_t count = dims.size() - fixed;
        const Dims axes(dims.begin() + k, dims.begin() + k + count);
        good = words[k].kind == Word::Kind::Group ? bind_group(words[k].name, axes)
                                                  : broadcast(input, k, axes);
      } else {
        const size_t axis = k < before ? k : dims.size() - (words.size() - k);
        good = bind(words[k], dims[axis]);
      }
    }
    if (good) return;
    lengths_.resize(old_lengths);
    groups_.resize(old_groups);
    refuse(input, pattern);
  }

  [[noreturn]] void refuse(size_t input, const Pattern& pattern) const {
    std::string expected;
    std::vector<std::string> names;
    for (const Word& word : pattern.words) {
      expected += (expected.empty() ? "" : ", ") + word.text;
      if (!word.name.empty()) names.push_back(word.name);
      for (const Instruction& instruction : word.instructions) names.push_back(instruction.name);
    }
    fail(context_.op_name(), context_.input_name(input),
         "shape " + shape_text(context_.dims(input)), "[" + expected + "]" + known(names));
  }

  // " with N = 2, S = [3, 4]": what is known of these names.
  std::string known(const std::vector<std::string>& names) const {
    std::string text;
    const auto add = [&](const std::string& name, const std::string& value) {
      if (std::find(names.begin(), names.end(), name) == names.end()) return;
      text += str(text.empty() ? " with " : ", ", name, " = ", value);
    };
    for (const auto& [name, dim] : lengths_) {
      if (dim.known()) add(name, std::to_string(dim.value));
    }
    for (const auto& [name, dims] : groups_) add(name, shape_text(dims));
    const std::vector<Attribute>& declared = context_.attributes().declared();
    for (size_t i = 0; i < declared.size(); ++i) {
      const AttributeValue& value = context_.attributes().value(i);
      if (length(declared[i].name) != nullptr) continue;
      if (const auto* number = std::get_if<int64_t>(&value)) add(declared[i].name, str(*number));
      if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
        add(declared[i].name, str(*list));
      }
    }
    return text;
  }

  // Whether the length fits what is known; remembers what is new.
  bool bind(const Word& word, const Dim& dim) {
    if (word.kind == Word::Kind::Computed) return true;  // when all names are known
    if (word.kind == Word::Kind::Number) return !differ(Dim(word.number), dim);
    Dim* wanted = length(word.name);
    if (wanted == nullptr) {
      lengths_.emplace_back(word.name, dim);
    } else if (differ(*wanted, dim)) {
      return false;
    } else if (!wanted->known() && (dim.known() || wanted->symbol.empty())) {
      *wanted = dim;
    }
    return true;
  }

  bool bind_group(const std::string& name, const Dims& axes) {
    Dims* wanted = group(name);
    if (wanted == nullptr) {
      groups_.emplace_back(name, axes);
      return true;
    }
    if (wanted->size() != axes.size()) return false;
    for (size_t i = 0; i < axes.size(); ++i) {
      Dim& one = (*wanted)[i];
      if (differ(one, axes[i])) return false;
      if (!one.known() && (axes[i].known() || one.symbol.empty())) one = axes[i];
    }
    return true;
  }

  // The axes of "..." of all inputs are broadcast with each other, as in NumPy.
  bool broadcast(size_t input, size_t first_axis, const Dims& axes) {
    if (!rest_) {
      rest_ = axes;
      return true;
    }
    Dims wider = axes.size() > rest_->size() ? axes : *rest_;
    const Dims& narrow = axes.size() > rest_->size() ? *rest_ : axes;
    const size_t shift = wider.size() - narrow.size();
    for (size_t i = 0; i < narrow.size(); ++i) {
      const Dim a = wider[i + shift], b = narrow[i];
      if (a == b || b.value == 1) continue;
      if (a.value == 1) {
        wider[i + shift] = b;
      } else if (a.known() && b.known()) {
        const bool mine_is_wider = axes.size() > rest_->size();
        const size_t axis = first_axis + (mine_is_wider ? i + shift : i);
        fail(context_.op_name(), context_.input_name(input),
             str("length ", (mine_is_wider ? a : b).value, " on axis ", axis),
             str("1 or ", (mine_is_wider ? b : a).value));
      } else {
        wider[i + shift] = a.known() ? a : b.known() ? b : Dim();  // it can only be 1 or that one
      }
    }
    rest_ = std::move(wider);
    return true;
  }

  void bind_numbers(size_t input, const Pattern& pattern) {
    const auto& numbers = context_.values(input);
    const Dims& dims = context_.dims(input);
    const std::string& op = context_.op_name();
    const std::string name = context_.input_name(input);
    if (dims.size() != 1) fail(op, name, str("rank ", dims.size()), "a list (rank 1)");
    std::string expected;
    bool good = true;
    for (size_t i = 0; i < pattern.words.size(); ++i) {
      const Word& word = pattern.words[i];
      expected += (i == 0 ? "" : ", ") + word.text;
      Dim dim;
      if (numbers && i < numbers->size()) {
        const double value = (*numbers)[i];
        good = good && value >= 0 && value <= 0x1p53 && value == std::floor(value);
        if (good) dim = Dim(static_cast<int64_t>(value));
      }
      good = bind(word, dim) && good;
    }
    // The message is the same whether the numbers are known yet or not.
    const bool fits =
        !dims[0].known() || dims[0].value == static_cast<int64_t>(pattern.words.size());
    if (good && fits) return;
    fail(op, name, fits ? str(*numbers) : str(dims[0].value, " numbers"),
         "lengths [" + expected + "]");
  }

  void check_computed(size_t input, const Pattern& pattern) {
    const Dims& dims = context_.dims(input);
    for (size_t k = 0; k < pattern.words.size(); ++k) {
      const Word& word = pattern.words[k];
      if (word.kind != Word::Kind::Computed) continue;
      const auto is_many = [](const Word& one) {
        return one.kind == Word::Kind::Rest || one.kind == Word::Kind::Group;
      };
      const bool behind = std::any_of(
          pattern.words.begin(), pattern.words.begin() + static_cast<std::ptrdiff_t>(k), is_many);
      const size_t axis = behind ? dims.size() - (pattern.words.size() - k) : k;
      if (differ(value(word), dims[axis])) refuse(input, pattern);
    }
  }

  // ---- Outputs.

  void append(const Word& word, Dims& dims) {
    switch (word.kind) {
      case Word::Kind::Rest:
        // If "..." is of an input that was left out, only the kernel knows these lengths.
        if (!rest_) lost(word.text);
        for (const Dim& dim : *rest_) dims.push_back(dim);
        return;
      case Word::Kind::Group: {
        const Dims* axes = group(word.name);
        if (axes == nullptr) lost(word.text);
        for (const Dim& dim : *axes) dims.push_back(dim);
        return;
      }
      case Word::Kind::Number:
        dims.push_back(Dim(word.number));
        return;
      case Word::Kind::Name:
        dims.push_back(named(word.name));
        return;
      case Word::Kind::Computed:
        dims.push_back(value(word));
        return;
      case Word::Kind::AtMost:
        dims.push_back(Dim::at_most(value(word), word.name));
        return;
    }
  }

  [[noreturn]] void lost(const std::string& name) const {
    throw Error(str(context_.op_name(), ": the shape rule asks for the length ", quoted(name),
                    ", which no input of this call has: it stands in the patterns of optional "
                    "inputs alone"));
  }

  // ---- Arithmetic. A number that is not known makes the result unknown.

  struct Number {
    bool known;
    int64_t value;
  };

  Dim named(const std::string& name) const {
    if (const Dim* dim = length(name)) return *dim;
    const std::vector<Attribute>& declared = context_.attributes().declared();
    for (size_t i = 0; i < declared.size(); ++i) {
      if (declared[i].name != name) continue;
      if (const auto* number = std::get_if<int64_t>(&context_.attributes().value(i))) {
        return result(*number, name);
      }
    }
    lost(name);
  }

  Number element(const Instruction& instruction) const {
    const std::vector<int64_t>& list = context_.attributes().integers(instruction.name.c_str());
    if (instruction.number >= static_cast<int64_t>(list.size())) {
      fail(context_.op_name(), instruction.name, str(list.size(), " numbers"),
           str("at least ", instruction.number + 1));
    }
    return {true, list[static_cast<size_t>(instruction.number)]};
  }

  Dim result(int64_t value, const std::string& text) const {
    if (value >= 0) return Dim(value);
    fail(context_.op_name(), "shape", str("a length of ", value, " from ", text, known({text})),
         "0 or more");
  }

  Dim value(const Word& word) const {
    std::vector<Number> stack;
    for (const Instruction& instruction : word.instructions) {
      if (instruction.kind == Kind::Number) {
        stack.push_back({true, instruction.number});
      } else if (instruction.kind == Kind::Element) {
        stack.push_back(element(instruction));
      } else if (instruction.kind == Kind::Name) {
        stack.push_back(operand(instruction.name));
      } else if (instruction.kind == Kind::Negate) {
        stack.back() = compute(Kind::Sub, {true, 0}, stack.back(), word);
      } else {
        const Number right = stack.back();
        stack.pop_back();
        stack.back() = compute(instruction.kind, stack.back(), right, word);
      }
    }
    const Number found = stack.back();
    if (!found.known) {  // a name alone stays one
      const bool alone = word.instructions.size() == 1 && word.instructions[0].kind == Kind::Name;
      return alone ? named(word.instructions[0].name) : Dim();
    }
    if (found.value >= 0) return Dim(found.value);
    std::vector<std::string> names;
    for (const Instruction& instruction : word.instructions) names.push_back(instruction.name);
    fail(context_.op_name(), "shape",
         str("a length of ", found.value, " from ", word.text, known(names)), "0 or more");
  }

  Number operand(const std::string& name) const {
    if (const Dim* dim = length(name)) return {dim->known(), dim->value};
    const std::vector<Attribute>& declared = context_.attributes().declared();
    for (size_t i = 0; i < declared.size(); ++i) {
      if (declared[i].name != name) continue;
      if (const auto* number = std::get_if<int64_t>(&context_.attributes().value(i))) {
        return {true, *number};
      }
    }
    lost(name);
  }

  Number compute(Kind kind, const Number& a, const Number& b, const Word& word) const {
    const bool divides = kind == Kind::Div || kind == Kind::Mod;
    if (divides && b.known && b.value == 0) {
      std::vector<std::string> names;
      for (const Instruction& instruction : word.instructions) names.push_back(instruction.name);
      fail(context_.op_name(), "shape", str("a division by 0 in ", word.text, known(names)),
           "another number there");
    }
    if (!a.known || !b.known) return {false, 0};
    int64_t value = 0;
    bool fits = true;
    switch (kind) {
      case Kind::Add:
        fits = !__builtin_add_overflow(a.value, b.value, &value);
        break;
      case Kind::Sub:
        fits = !__builtin_sub_overflow(a.value, b.value, &value);
        break;
      case Kind::Mul:
        fits = !__builtin_mul_overflow(a.value, b.value, &value);
        break;
      case Kind::Div:
      case Kind::Mod:  // the one quotient that does not fit
        fits = a.value != std::numeric_limits<int64_t>::min() || b.value != -1;
        if (!fits) break;
        value = floor_div(a.value, b.value);
        if (kind == Kind::Mod) value = a.value - b.value * value;
        break;
      case Kind::Min:
        value = std::min(a.value, b.value);
        break;
      default:
        value = std::max(a.value, b.value);
        break;
    }
    if (fits) return {true, value};
    fail(context_.op_name(), "shape", str("a number beyond 2^63 in ", word.text), "a length");
  }

  template <class Value>
  static Value* find(std::vector<std::pair<std::string, Value>>& items, const std::string& name) {
    for (auto& item : items) {
      if (item.first == name) return &item.second;
    }
    return nullptr;
  }
  Dim* length(const std::string& name) { return find(lengths_, name); }
  const Dim* length(const std::string& name) const {
    return find(const_cast<Run*>(this)->lengths_, name);
  }
  Dims* group(const std::string& name) { return find(groups_, name); }

  ShapeContext& context_;
  std::vector<std::pair<std::string, Dim>> lengths_;
  std::vector<std::pair<std::string, Dims>> groups_;
  std::optional<Dims> rest_;
};

}  // namespace

void follow(const Rule& rule, ShapeContext& context) { Run(context).follow(rule); }

}  // namespace myops::text_rule
