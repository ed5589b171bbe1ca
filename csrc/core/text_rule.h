// Shape rules as text: their syntax (myops/lengths.h describes it), and how they are evaluated.
#pragma once

#include <string>
#include <vector>

#include "myops/attributes.h"
#include "myops/context.h"

namespace myops::text_rule {

// Arithmetic on lengths and integer attributes, in the order in which it is computed.
struct Instruction {
  enum class Kind : uint8_t { Number, Name, Element, Add, Sub, Mul, Div, Mod, Min, Max, Negate };
  Kind kind = Kind::Number;
  int64_t number = 0;  // also the place of an Element
  std::string name;
};

struct Word {
  enum class Kind : uint8_t {
    Number,
    Name,
    Rest,      // ...
    Group,     // S...
    Computed,  // (H * 2), {H // s}
    AtMost,    // <=N, <=(H * W); K<=N gives the length a name that outputs may share
  };
  Kind kind = Kind::Name;
  std::string text;  // as written, for messages
  std::string name;  // of a length or a group
  int64_t number = 0;
  std::vector<Instruction> instructions;  // of Computed and AtMost
};

struct Pattern {
  bool has_numbers = false;  // "{h w}": names for the numbers of an input
  std::vector<Word> words;
};

struct Rule {
  std::vector<Pattern> inputs, outputs;

  // "N ->" is the rule of one output without axes, and of an op that has no outputs.
  bool describes_outputs(size_t count) const {
    return outputs.size() == count ||
           (count == 0 && outputs.size() == 1 && outputs[0].words.empty());
  }
};

// Throws a Mistake that names the place where the text makes no sense.
Rule parse(const std::string& text);

// What is wrong with a rule for an op with these inputs, outputs and attributes; or "".
std::string fault(const Rule& rule, size_t inputs, size_t outputs,
                  const std::vector<Attribute>& attributes);

void follow(const Rule& rule, ShapeContext& context);

}  // namespace myops::text_rule
