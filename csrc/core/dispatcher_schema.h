// The torch schema of an op, derived from its description: plain text, so that it needs no torch.
//
//   my_add(Tensor a, Tensor b) -> Tensor
//   resize(Tensor X, Tensor? roi=None, Tensor? scales=None, Tensor? sizes=None, *, bool
//   antialias=False, ...) -> Tensor
//
// A list of integers that is empty by default is `int[]? name=None`: packages of AOTInductor pass
// None for an empty list, and a plain int[] cannot take it. None stands for the default too
// where a schema cannot state it: of a list of strings and of a tensor.
//
// An int is a SymInt: a compiled program that computes it from a length is not compiled again for
// every length, and an exporter sees that it is no constant.
//
// An op with `.values()` inputs has a second overload, `values`, in which these are Python lists,
// so that the shape of the result is known while a program is traced:
//
//   resize.values(Tensor X, float[]? roi=None, float[]? scales=None, SymInt[]? sizes=None, *, ...)
//   -> Tensor
//
// An op with one output has an `out` variant of each overload, which writes into a tensor that the
// caller passes:
//
//   my_add.out(Tensor a, Tensor b, *, Tensor(a!) out) -> ()
//
// A variadic input is a list. An input that the kernel writes is marked with (a!):
//
//   concat(Tensor[] tensors, *, int axis=0) -> Tensor
//   scale_(Tensor(a!) x, *, float factor=2.0) -> ()
#pragma once

#include <string>

#include "myops/op.h"

namespace myops {

struct Overload {
  bool values = false;  // lists instead of tensors for `.values()` inputs
  bool out = false;     // the result is written into a tensor that the caller passes
};

bool may_be_none(const Attribute& attribute);
std::vector<Overload> overloads(const Op& op);
std::string overload_name(const Op& op, Overload overload);  // "resize.values_out"
bool integer_values(const Op& op, const Input& input);       // SymInt[] rather than float[]
std::string dispatcher_schema(const Op& op, Overload overload);

}  // namespace myops
