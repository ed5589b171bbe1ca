// Named lengths: shape rules written like the documentation of an op.
//
//   Lengths lengths(context);
//   lengths.match(0, "N D 4 H W").match(1, "N D 3 3");
//   context.set_output(0, {lengths["N"], 3, lengths["H"], lengths["W"]});
//
// A wrong rank or length is refused in the usual form:
//
//   warp: homographies: got shape [2, 5, 3, 4], expected [N, D, 3, 3] with N = 2, D = 5
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "myops/context.h"

namespace myops {

class Lengths {
 public:
  explicit Lengths(const ShapeContext& context) : context_(context) {}

  // Compares an input with a pattern, which has one word for each axis: a number is the length; a
  // name is bound to the length, or must equal the length that it is already bound to. An optional
  // input that was left out and lengths that are not known yet match every pattern.
  Lengths& match(size_t input, const std::string& pattern);

  // Binds the numbers in an input that was declared with .values(), such as a height and a width.
  Lengths& values(size_t input, const std::string& names);

  // A length that match() has bound; not known() if no input determined it.
  const Dim& operator[](const std::string& name) const;

 private:
  Dim* find(const std::string& name);

  const ShapeContext& context_;
  std::vector<std::pair<std::string, Dim>> bound_;
};

// A whole rule as text, for Op::shape: patterns of the inputs and of the outputs. Numbers in a
// `.values()` input are named in braces.
//
//   .shape("N C H W, {oH oW} -> N C oH oW")
//
// The kernel decides lengths with a bound (Dim::at_most); K is one length in both outputs:
//
//   .shape("N 4, N -> K<=N 4, K<=N")
void follow(ShapeContext& context, const std::string& rule);

// [2, rows, ?]: the lengths that are known, names, and question marks, for messages.
std::string shape_text(const Dims& dims);

}  // namespace myops
