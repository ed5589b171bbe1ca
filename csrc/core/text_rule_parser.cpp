// The syntax of textual shape rules, and what can be wrong with one.
#include <algorithm>
#include <cctype>
#include <set>

#include "text_rule.h"

namespace myops::text_rule {
namespace {

using Kind = Instruction::Kind;

bool begins_name(char c) { return std::isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) {}

  Rule rule() {
    check_text();
    Rule rule;
    rule.inputs = patterns(true);
    if (take("->")) rule.outputs = patterns(false);
    skip();
    if (at_ != text_.size()) refuse("a length, \",\" or \"->\"");
    if (text_.find("->") == std::string::npos) rule.outputs = rule.inputs;
    return rule;
  }

 private:
  void check_text() const {
    constexpr size_t kMost = 1000;  // text_rule.py evaluates sums recursively
    const bool plain =
        std::all_of(text_.begin(), text_.end(), [](char c) { return ' ' <= c && c <= '~'; });
    if (!plain) throw Mistake(str("the shape rule ", quoted(text_), ": expected ASCII characters"));
    if (text_.size() > kMost) {
      throw Mistake(str("a shape rule of ", text_.size(), " characters, expected at most ", kMost));
    }
  }

  std::vector<Pattern> patterns(bool of_inputs) {
    std::vector<Pattern> found;
    do {
      found.push_back(pattern(of_inputs));
    } while (take(","));
    return found;
  }

  Pattern pattern(bool of_inputs) {
    Pattern pattern;
    for (skip(); at_ < text_.size() && text_[at_] != ',' && !sees("->"); skip()) {
      if (of_inputs && text_[at_] == '{' && pattern.words.empty() && names_only()) {
        numbers(pattern);
        return pattern;
      }
      pattern.words.push_back(word());
    }
    return pattern;
  }

  // "{h w}" or "{h}": what follows in braces is a list of names and nothing else.
  bool names_only() const {
    size_t at = at_ + 1;
    bool any = false;
    for (; at < text_.size() && text_[at] != '}'; ++at) {
      const char c = text_[at];
      if (!begins_name(c) && !is_digit(c) && c != ' ') return false;
      any = any || begins_name(c);
    }
    if (!any || at == text_.size()) return false;
    // If another word follows, it is a computed length of one name.
    at = text_.find_first_not_of(' ', at + 1);
    return at == std::string::npos || text_[at] == ',' || text_.compare(at, 2, "->") == 0;
  }

  void numbers(Pattern& pattern) {
    ++at_;
    pattern.has_numbers = true;
    for (skip(); text_[at_] != '}'; skip()) {
      Word word;
      word.name = word.text = name();
      pattern.words.push_back(std::move(word));
    }
    ++at_;
  }

  Word word() {
    Word word;
    const size_t begin = at_;
    if (take("...")) {
      word.kind = Word::Kind::Rest;
    } else if (take("<=")) {
      word.kind = Word::Kind::AtMost;
      bound(word);
    } else if (text_[at_] == '(' || text_[at_] == '{') {
      word.kind = Word::Kind::Computed;
      bracketed(word);
    } else if (is_digit(text_[at_])) {
      word.kind = Word::Kind::Number;
      word.number = number();
    } else {
      word.name = name();
      // Without a space before it.
      if (sees("...") && take("...")) {
        word.kind = Word::Kind::Group;
      } else if (sees("<=") && take("<=")) {
        word.kind = Word::Kind::AtMost;
        bound(word);
      }
    }
    word.text = text_.substr(begin, at_ - begin);
    return word;
  }

  void bound(Word& word) {
    skip();
    if (at_ < text_.size() && (text_[at_] == '(' || text_[at_] == '{')) {
      bracketed(word);
    } else {
      primary(word.instructions);
    }
  }

  void bracketed(Word& word) {
    const char end = text_[at_++] == '(' ? ')' : '}';
    sum(word.instructions);
    expect(end);
  }

  void sum(std::vector<Instruction>& instructions) {
    product(instructions);
    for (;;) {
      if (!sees("->") && take("-")) {
        product(instructions);
        instructions.push_back({Kind::Sub, 0, ""});
      } else if (take("+")) {
        product(instructions);
        instructions.push_back({Kind::Add, 0, ""});
      } else {
        return;
      }
    }
  }

  void product(std::vector<Instruction>& instructions) {
    factor(instructions);
    for (;;) {
      const Kind kind = take("//")  ? Kind::Div
                        : take("*") ? Kind::Mul
                        : take("%") ? Kind::Mod
                                    : Kind::Number;
      if (kind == Kind::Number) return;
      factor(instructions);
      instructions.push_back({kind, 0, ""});
    }
  }

  void factor(std::vector<Instruction>& instructions) {
    if (!take("-")) return primary(instructions);
    enter();
    factor(instructions);
    --depth_;
    instructions.push_back({Kind::Negate, 0, ""});
  }

  void primary(std::vector<Instruction>& instructions) {
    enter();
    skip();
    if (at_ < text_.size() && is_digit(text_[at_])) {
      instructions.push_back({Kind::Number, number(), ""});
    } else if (take("(")) {
      sum(instructions);
      expect(')');
    } else {
      std::string found = name();
      if ((found == "min" || found == "max") && take("(")) {
        sum(instructions);
        while (take(",")) {
          sum(instructions);
          instructions.push_back({found == "min" ? Kind::Min : Kind::Max, 0, ""});
        }
        expect(')');
      } else if (take("[")) {
        skip();
        instructions.push_back({Kind::Element, number(), std::move(found)});
        expect(']');
      } else {
        instructions.push_back({Kind::Name, 0, std::move(found)});
      }
    }
    --depth_;
  }

  // Brackets and signs are parsed recursively, so their depth has a limit.
  void enter() {
    if (++depth_ > 50) refuse("at most 50 brackets or signs in each other");
  }

  std::string name() {
    skip();
    const size_t begin = at_;
    if (at_ < text_.size() && begins_name(text_[at_])) {
      while (at_ < text_.size() && (begins_name(text_[at_]) || is_digit(text_[at_]))) ++at_;
    }
    if (at_ == begin) refuse("a name or a number");
    return text_.substr(begin, at_ - begin);
  }

  int64_t number() {
    int64_t value = 0;
    const size_t begin = at_;
    for (; at_ < text_.size() && is_digit(text_[at_]); ++at_) {
      if (at_ - begin >= 12) refuse("a number below 10^12");
      value = value * 10 + (text_[at_] - '0');
    }
    if (at_ == begin) refuse("a number");
    if (text_[begin] == '0' && at_ > begin + 1) {
      at_ = begin;
      refuse("a number without zeros before it");
    }
    if (at_ < text_.size() && (begins_name(text_[at_]) || text_[at_] == '.')) {
      refuse("a space behind the number");
    }
    return value;
  }

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool sees(const char* token) const {
    return text_.compare(at_, std::char_traits<char>::length(token), token) == 0;
  }
  bool take(const char* token) {
    const size_t before = at_;
    skip();
    if (sees(token)) {
      at_ += std::char_traits<char>::length(token);
      return true;
    }
    at_ = before;  // the space behind a word is no part of it
    return false;
  }
  void expect(char end) {
    const char token[] = {end, '\0'};
    if (!take(token)) refuse(str("\"", token, "\" or an operator: + - * // % min() max()"));
  }
  [[noreturn]] void refuse(const std::string& expected) const {
    const std::string rest = at_ < text_.size() ? quoted(text_.substr(at_)) : "its end";
    throw Mistake(str("the shape rule ", quoted(text_), ": got ", rest, ", expected ", expected));
  }

  const std::string& text_;
  size_t at_ = 0;
  int depth_ = 0;
};

// The names to which the inputs of a rule give a value.
struct Names {
  std::set<std::string> lengths, groups;
  bool rest = false;
};

bool is_many(const Word& word) {
  return word.kind == Word::Kind::Rest || word.kind == Word::Kind::Group;
}

std::string input_fault(const Pattern& pattern, Names& names) {
  size_t many = 0;
  for (const Word& word : pattern.words) {
    many += is_many(word) ? 1 : 0;
    if (word.kind == Word::Kind::AtMost) return str(quoted(word.text), " in an input");
    if (word.kind == Word::Kind::Name) names.lengths.insert(word.name);
    if (word.kind == Word::Kind::Group) names.groups.insert(word.name);
    names.rest = names.rest || word.kind == Word::Kind::Rest;
  }
  return many > 1 ? "two words that stand for any number of axes in one input" : "";
}

std::string instruction_fault(const Instruction& instruction, const Names& names,
                              const std::vector<Attribute>& attributes) {
  if (instruction.kind != Kind::Name && instruction.kind != Kind::Element) return "";
  if (instruction.kind == Kind::Name && names.lengths.count(instruction.name) != 0) return "";
  const auto wanted = instruction.kind == Kind::Name ? AttributeType::Int : AttributeType::Ints;
  for (const Attribute& attribute : attributes) {
    if (attribute.name != instruction.name || attribute.type() != wanted) continue;
    return attribute.is_optional ? "the optional attribute " + quoted(instruction.name) : "";
  }
  return instruction.kind == Kind::Name
             ? "the length " + quoted(instruction.name)
             : str(quoted(instruction.name), "[], which is no list of ints");
}

std::string word_fault(const Word& word, const Names& names,
                       const std::vector<Attribute>& attributes) {
  if (word.kind == Word::Kind::Rest && !names.rest) return "\"...\"";
  if (word.kind == Word::Kind::Group && names.groups.count(word.name) == 0) {
    return "the axes " + quoted(word.text);
  }
  if (word.kind == Word::Kind::Name) {
    return instruction_fault({Kind::Name, 0, word.name}, names, attributes);
  }
  for (const Instruction& instruction : word.instructions) {
    const std::string fault = instruction_fault(instruction, names, attributes);
    if (!fault.empty()) return fault;
  }
  return "";
}

}  // namespace

Rule parse(const std::string& text) { return Parser(text).rule(); }

std::string fault(const Rule& rule, size_t inputs, size_t outputs,
                  const std::vector<Attribute>& attributes) {
  if (rule.inputs.size() != inputs || !rule.describes_outputs(outputs)) {
    return str("has ", rule.inputs.size(), " inputs and ", rule.outputs.size(),
               " outputs, expected ", inputs, " and ", outputs);
  }
  Names names;
  for (const Pattern& pattern : rule.inputs) {
    const std::string found = input_fault(pattern, names);
    if (!found.empty()) return "has " + found;
  }
  for (const Pattern& pattern : rule.inputs) {
    for (const Word& word : pattern.words) {
      if (word.kind != Word::Kind::Computed) continue;
      const std::string found = word_fault(word, names, attributes);
      if (!found.empty()) return "has " + found + " in an input, expected one that is bound there";
    }
  }
  for (const Pattern& pattern : rule.outputs) {
    for (const Word& word : pattern.words) {
      if (word.kind == Word::Kind::AtMost && names.lengths.count(word.name) != 0) {
        return str("has ", quoted(word.text), " in an output, but ", word.name,
                   " is a length of an input, expected another name");
      }
      const std::string found = word_fault(word, names, attributes);
      if (!found.empty()) return "has " + found + " in an output, expected one that an input has";
    }
  }
  return "";
}

}  // namespace myops::text_rule
