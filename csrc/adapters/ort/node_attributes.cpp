// Attributes of a node, as ONNX Runtime stores them: ints and floats, strings, lists of both.
#include <limits>
#include <optional>

#include "status.h"
#include "typed_op.h"
#include "wrong_kinds.h"

namespace myops::ort {
namespace {

constexpr size_t kMaxLength = size_t{1} << 20;  // elements of a list, characters of a string

// The value of one attribute of a node, for each type that it can be read as.
struct Found {
  std::optional<int64_t> integer;
  std::optional<float> real;
  std::optional<std::string> text;
  std::optional<std::vector<int64_t>> integers;
  std::optional<std::vector<float>> reals;
  const char* other = nullptr;  // description of any other kind, if it is known
};

void check_length(const Op& op, const Attribute& attribute, size_t length, const char* unit) {
  if (length > kMaxLength) {
    fail(op.name, attribute.name, str(length, " ", unit), str("at most ", kMaxLength));
  }
}

constexpr const char* kSomethingElse = "something else";  // a graph, a sparse tensor, a type ...

// ---- When a kernel is created.

class KernelSource {
 public:
  KernelSource(const Op& op, const Api& api, const KernelInfo* info)
      : op_(op), api_(api), info_(info) {
    create_next_kernel();
  }

  Found find(size_t index) const {
    const Attribute& attribute = op_.attributes[index];
    const char* name = attribute.name.c_str();
    Found found;
    int64_t integer = 0;
    float real = 0;
    size_t size = 0;
    if (succeeded(api_, api_.KernelInfoGetAttribute_int64(info_, name, &integer))) {
      found.integer = integer;
    } else if (succeeded(api_, api_.KernelInfoGetAttribute_float(info_, name, &real))) {
      found.real = real;
    } else if (succeeded(api_, api_.KernelInfoGetAttribute_string(info_, name, nullptr, &size))) {
      check_length(op_, attribute, size, "characters");
      std::string text(size, '\0');  // with the terminating zero
      check(api_, api_.KernelInfoGetAttribute_string(info_, name, text.data(), &size));
      text.resize(size - 1);
      found.text = std::move(text);
    } else {
      // An attribute of any type reads as an empty list of a type that it does not have.
      found.integers = list<int64_t>(attribute, api_.KernelInfoGetAttributeArray_int64);
      found.reals = list<float>(attribute, api_.KernelInfoGetAttributeArray_float);
      const bool is_there = found.integers && found.reals;
      if (is_there && found.integers->empty() && found.reals->empty()) found.other = other(index);
    }
    return found;
  }

 private:
  // Description of an attribute that reads as an empty list although it is none; null: it may be
  // one.
  const char* other(size_t index) const {
    Allocator* allocator = nullptr;
    check(api_, api_.GetAllocatorWithDefaultOptions(&allocator));
    const char* name = op_.attributes[index].name.c_str();
    Value* tensor = nullptr;
    if (succeeded(api_, api_.KernelInfoGetAttribute_tensor(info_, name, allocator, &tensor))) {
      api_.ReleaseValue(tensor);
      return "a tensor";
    }
    return noted_wrong_kind(op_, index);
  }

  template <class T, class Getter>
  std::optional<std::vector<T>> list(const Attribute& attribute, Getter get) const {
    const char* name = attribute.name.c_str();
    size_t size = 0;
    if (!succeeded(api_, get(info_, name, nullptr, &size))) return std::nullopt;
    check_length(op_, attribute, size, "elements");
    std::vector<T> values(size);
    if (size > 0) check(api_, get(info_, name, values.data(), &size));
    return values;
  }

  const Op& op_;
  const Api& api_;
  const KernelInfo* info_;
};

// ---- During shape inference.

AttributeKind expected_kind(AttributeType type) {
  constexpr AttributeKind kinds[] = {AttributeKind::Int,   AttributeKind::Int,
                                     AttributeKind::Float, AttributeKind::String,
                                     AttributeKind::Ints,  AttributeKind::Floats};
  return kinds[static_cast<int>(type)];
}

// An attribute of a kind that a kernel cannot read, or a list that may be empty.
const char* kind_name(AttributeKind kind) {
  switch (kind) {
    case AttributeKind::Ints:
      return "a list of ints";
    case AttributeKind::Floats:
      return "a list of floats";
    case AttributeKind::Strings:
      return "a list of strings";
    default:
      return kSomethingElse;
  }
}

class InferenceSource {
 public:
  InferenceSource(const Op& op, const Api& api, const ShapeInferContext* context)
      : op_(op), api_(api), context_(context) {
    infer_next_node();
  }

  Found find(size_t index) const {
    const Attribute& attribute = op_.attributes[index];
    Found found;
    const NodeAttribute* node = nullptr;
    const char* name = attribute.name.c_str();
    if (!succeeded(api_, api_.ShapeInferContext_GetAttribute(context_, name, &node))) return found;
    check_kind(index, node);
    switch (attribute.type()) {
      case AttributeType::Bool:
      case AttributeType::Int:
        found.integer = scalar<int64_t>(node, AttributeKind::Int);
        break;
      case AttributeType::Float:
        found.real = scalar<float>(node, AttributeKind::Float);
        break;
      case AttributeType::String:
        found.text = list<std::string>(attribute, node, AttributeKind::String);
        if (!found.text->empty() && found.text->back() == '\0') found.text->pop_back();
        break;
      case AttributeType::Ints:
        found.integers = list<std::vector<int64_t>>(attribute, node, AttributeKind::Ints);
        break;
      case AttributeType::Floats:
        found.reals = list<std::vector<float>>(attribute, node, AttributeKind::Floats);
        break;
    }
    return found;
  }

 private:
  // The kernel may see an empty list and no more. (An older host does not tell the kind.)
  void check_kind(size_t index, const NodeAttribute* node) const {
    if (api_.OpAttr_GetType == nullptr) return;
    AttributeKind kind = AttributeKind::Undefined;  // stays if the C API has no name for the kind
    (void)succeeded(api_, api_.OpAttr_GetType(node, &kind));
    if (kind != expected_kind(op_.attributes[index].type())) {
      note_wrong_kind(op_, index, kind_name(kind));
    }
  }

  template <class T>
  T scalar(const NodeAttribute* node, AttributeKind kind) const {
    T value{};
    size_t bytes = 0;
    check(api_, api_.ReadOpAttr(node, kind, &value, sizeof value, &bytes));
    return value;
  }

  template <class List>
  List list(const Attribute& attribute, const NodeAttribute* node, AttributeKind kind) const {
    constexpr size_t width = sizeof(typename List::value_type);
    List values;
    size_t bytes = 0;
    // Fails because there is no buffer, but returns the size; an empty list does not fail.
    if (succeeded(api_, api_.ReadOpAttr(node, kind, nullptr, 0, &bytes))) return values;
    check_length(op_, attribute, bytes / width, "elements");
    values.resize(bytes / width);
    check(api_, api_.ReadOpAttr(node, kind, values.data(), bytes, &bytes));
    return values;
  }

  const Op& op_;
  const Api& api_;
  const ShapeInferContext* context_;
};

// ---- Conversion to the declared type.

const char* type_name(AttributeType type) {
  constexpr const char* names[] = {"an int (0 or 1)", "an int",         "a float",
                                   "a string",        "a list of ints", "a list of floats"};
  return names[static_cast<int>(type)];
}

[[noreturn]] void wrong_type(const Op& op, const Attribute& attribute, const Found& found) {
  const bool ints = found.integers && !found.integers->empty();
  const bool floats = found.reals && !found.reals->empty();
  const char* got = found.integer ? "an int"
                    : found.real  ? "a float"
                    : found.text  ? "a string"
                    : ints        ? "a list of ints"
                    : floats      ? "a list of floats"
                    : found.other ? found.other
                                  : kSomethingElse;
  fail(op.name, attribute.name, got, type_name(attribute.type()));
}

bool absent(const Found& found) {
  return !found.integer && !found.real && !found.text && !found.integers && !found.reals;
}

// ONNX has no boolean attributes: 0 and 1 stand for them.
bool truth(const Op& op, const Attribute& attribute, int64_t value) {
  if (value != 0 && value != 1) fail(op.name, attribute.name, str(value), "0 or 1");
  return value == 1;
}

AttributeValue convert(const Op& op, const Attribute& attribute, Found found) {
  const bool only_ints = !found.reals || found.reals->empty();
  const bool only_floats = !found.integers || found.integers->empty();
  switch (attribute.type()) {
    case AttributeType::Bool:
      if (found.integer) return truth(op, attribute, *found.integer);
      break;
    case AttributeType::Int:
      if (found.integer) return *found.integer;
      break;
    case AttributeType::Float:
      if (found.real) return static_cast<double>(*found.real);
      break;
    case AttributeType::String:
      if (found.text) return std::move(*found.text);
      break;
    case AttributeType::Ints:
      if (found.integers && only_ints && !found.other) return std::move(*found.integers);
      break;
    case AttributeType::Floats:
      if (found.reals && only_floats && !found.other) {
        return std::vector<double>(found.reals->begin(), found.reals->end());
      }
      break;
  }
  wrong_type(op, attribute, found);
}

template <class Source>
Attributes read(const Op& op, const Source& source) {
  Attributes attributes(op.attributes);
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    Found found = source.find(i);
    if (!absent(found)) attributes.set(i, convert(op, op.attributes[i], std::move(found)));
  }
  check_attributes(op, attributes);
  return attributes;
}

// An op with the name of `op` and nothing but the attribute for the version.
Op version_probe(const Op& op) {
  return Op(op.name).attribute(
      Attribute{kVersion, int64_t{1}, "The version of the op that the node means."}.at_least(1));
}

}  // namespace

int64_t read_version(const TypedOp& typed, const KernelInfo* info) {
  const Op probe = version_probe(*typed.op);
  return read_attributes(probe, *typed.api, info).integer(kVersion);
}

int64_t read_version(const TypedOp& typed, const ShapeInferContext* context) {
  const Op probe = version_probe(*typed.op);
  return read_attributes(probe, *typed.api, context).integer(kVersion);
}

Attributes read_attributes(const Op& op, const Api& api, const KernelInfo* info) {
  return read(op, KernelSource(op, api, info));
}

Attributes read_attributes(const Op& op, const Api& api, const ShapeInferContext* context) {
  return read(op, InferenceSource(op, api, context));
}

}  // namespace myops::ort
