// Attributes of another kind than the op declares, which a kernel would read as empty lists.
//
// A kernel can read an attribute as a number, a string, a tensor or a list of numbers; a list of
// strings, a sparse tensor, a type and others read as an empty list of ints. Only shape inference
// can ask for the kind, from 1.24 on, but ONNX Runtime ignores its errors. So shape inference
// records wrong kinds for the kernels, which the same thread creates next. A record is about some
// node of the model that this thread loads, not about one particular node: the load fails whichever
// kernel reports it.
#pragma once

#include "myops/op.h"

namespace myops::ort {

// This thread may be about to load another model: discards its records.
void forget_wrong_kinds();

// During shape inference: called before the attributes of a node, and for an attribute of a wrong
// kind.
void infer_next_node();
void note_wrong_kind(const Op& op, size_t attribute, const char* literal);

// When a kernel is created: called before the attributes of a node, and for the record of an
// attribute, or null.
void create_next_kernel();
const char* noted_wrong_kind(const Op& op, size_t attribute);

}  // namespace myops::ort
