// Attributes of another kind than the op declares, which a kernel would take for empty lists.
//
// What ONNX Runtime tells a kernel of an attribute is its number, string, tensor or list of
// numbers; a list of strings, a sparse tensor, a type and the like read as an empty list of ints.
// Only shape inference is told the kind, from 1.24 on, but its refusals are ignored. So it leaves a
// note for the kernels, which the same thread creates next. A note is about some node of the model
// that this thread loads, not about one node: the load fails whichever reports it.
#pragma once

#include "myops/op.h"

namespace myops::ort {

// A model may be about to be loaded by this thread: notes about another one are gone.
void forget_wrong_kinds();

// During shape inference: before all attributes of a node, and for one of another kind.
void infer_next_node();
void note_wrong_kind(const Op& op, size_t attribute, const char* literal);

// When a kernel is created: before all attributes of a node, and what was noted of one, or null.
void create_next_kernel();
const char* noted_wrong_kind(const Op& op, size_t attribute);

}  // namespace myops::ort
