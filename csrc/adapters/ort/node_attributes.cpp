// Attributes of a node, as ONNX Runtime stores them: ints and floats, strings, lists of both.
#include <algorithm>
#include <exception>
#include <limits>
#include <memory>
#include <optional>

#include "status.h"
#include "strings.h"
#include "typed_op.h"
#include "values.h"
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
  std::optional<std::vector<std::string>> texts;
  std::optional<double> exact;  // in a tensor of float64
  std::optional<std::vector<double>> exacts;
  const char* other = nullptr;  // description of any other kind, if it is known
  bool unread = false;          // it is there, and this host does not say what it is
};

void check_length(const Op& op, const Attribute& attribute, size_t length, const char* unit) {
  if (length > kMaxLength) {
    fail(op.name, attribute.name, str(length, " ", unit), str("at most ", kMaxLength));
  }
}

const char* type_name(AttributeType type) {
  constexpr const char* names[] = {"an int (0 or 1)",
                                   "an int",
                                   "a float",
                                   "a string",
                                   "a list of ints",
                                   "a list of floats",
                                   "a list of strings",
                                   "a tensor of one float64, without axes",
                                   "a list of float64, as a tensor with one axis"};
  return names[static_cast<int>(type)];
}

bool in_a_tensor(AttributeType type) {
  return type == AttributeType::Double || type == AttributeType::Doubles;
}

// Reads and releases the tensor that stands for an attribute: of float64 for floats of 64 bits,
// which ONNX has no other place for, or of strings for a list of them.
void read_tensor(const Op& op, const Attribute& attribute, const Api& api, Value* value,
                 Found& found) {
  const std::unique_ptr<Value, decltype(api.ReleaseValue)> owner(value, api.ReleaseValue);
  const auto [dtype, shape] = describe(api, value);
  const bool texts = attribute.type() == AttributeType::Strings;
  const size_t rank = attribute.type() == AttributeType::Double ? 0 : 1;
  if (dtype != (texts ? DType::String : DType::Float64) || shape.size() != rank) {
    fail(op.name, attribute.name, str("a tensor of ", dtype_name(dtype), " of shape ", shape),
         type_name(attribute.type()));
  }
  const int64_t count = element_count(shape);
  check_length(op, attribute, static_cast<size_t>(count), "elements");
  if (texts) {
    Strings strings;
    Budget budget;
    const auto* read = static_cast<const std::string*>(
        strings.read(op, attribute.name, api, value, count, budget));
    found.texts.emplace(read, read + count);
    return;
  }
  void* data = nullptr;
  check(api, api.GetTensorMutableData(value, &data));
  const auto* numbers = static_cast<const double*>(data);
  if (rank == 0) {
    found.exact = *numbers;
  } else {
    found.exacts.emplace(numbers, numbers + count);
  }
}

// Thrown for an attribute that shape inference cannot read.
struct NotYet : std::exception {
  const char* what() const noexcept override { return "an attribute that is not read yet"; }
};

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
    if (in_a_tensor(attribute.type()) && find_tensor(attribute, found)) return found;
    if (attribute.type() == AttributeType::Strings) {
      if (find_tensor(attribute, found)) return found;
      find_texts(attribute, found);
      // One of any other kind reads as an empty list.
      if (found.texts && !found.texts->empty()) return found;
    }
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
      if (is_there && found.integers->empty() && found.reals->empty()) {
        found.other = other(index);
        const bool texts = attribute.type() == AttributeType::Strings;
        if (texts && api_.KernelInfoGetAttributeArray_string == nullptr) refuse_texts(attribute);
      }
    }
    return found;
  }

 private:
  bool find_tensor(const Attribute& attribute, Found& found) const {
    Allocator* allocator = nullptr;
    check(api_, api_.GetAllocatorWithDefaultOptions(&allocator));
    Value* value = nullptr;
    const char* name = attribute.name.c_str();
    if (!succeeded(api_, api_.KernelInfoGetAttribute_tensor(info_, name, allocator, &value))) {
      return false;
    }
    read_tensor(op_, attribute, api_, value, found);
    return true;
  }

  // Strings of the kind that ONNX has for them. Older hosts have no function for it.
  void find_texts(const Attribute& attribute, Found& found) const {
    const char* name = attribute.name.c_str();
    if (api_.KernelInfoGetAttributeArray_string == nullptr) return;
    struct Texts {
      const Api& api;
      Allocator* allocator = nullptr;
      char** begin = nullptr;
      size_t count = 0;

      ~Texts() {
        for (size_t i = 0; begin != nullptr && i < count; ++i) release(begin[i]);
        if (begin != nullptr) release(begin);
      }
      void release(void* memory) const {
        (void)succeeded(api, api.AllocatorFree(allocator, memory));
      }
    } texts{api_};
    check(api_, api_.GetAllocatorWithDefaultOptions(&texts.allocator));
    if (!succeeded(api_, api_.KernelInfoGetAttributeArray_string(info_, name, texts.allocator,
                                                                 &texts.begin, &texts.count))) {
      return;
    }
    check_length(op_, attribute, texts.count, "elements");
    found.texts.emplace(texts.begin, texts.begin + texts.count);
  }

  [[noreturn]] void refuse_texts(const Attribute& attribute) const {
    fail(op_.name, attribute.name, "a list that this version of ONNX Runtime does not hand over",
         "ONNX Runtime 1.25 or later for a list of strings, or a tensor of strings with one axis");
  }

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
  constexpr AttributeKind kinds[] = {
      AttributeKind::Int,     AttributeKind::Int,    AttributeKind::Float,
      AttributeKind::String,  AttributeKind::Ints,   AttributeKind::Floats,
      AttributeKind::Strings, AttributeKind::Tensor, AttributeKind::Tensor};
  return kinds[static_cast<int>(type)];
}

bool is_legal(AttributeKind kind, AttributeType type) {
  switch (type) {
    case AttributeType::Strings:
      return kind == AttributeKind::Strings || kind == AttributeKind::Tensor;
    case AttributeType::Double:
      return kind == AttributeKind::Float || kind == AttributeKind::Tensor;
    case AttributeType::Doubles:
      return kind == AttributeKind::Floats || kind == AttributeKind::Tensor;
    default:
      return kind == expected_kind(type);
  }
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
      case AttributeType::Strings:
      case AttributeType::Double:
      case AttributeType::Doubles:
        find_in_several_kinds(attribute, node, found);
        break;
      case AttributeType::Floats:
        found.reals = list<std::vector<float>>(attribute, node, AttributeKind::Floats);
        break;
    }
    return found;
  }

 private:
  // Only newer hosts tell which kind it is, and read every kind as every other.
  void find_in_several_kinds(const Attribute& attribute, const NodeAttribute* node,
                             Found& found) const {
    AttributeKind kind = AttributeKind::Undefined;
    if (api_.OpAttr_GetType != nullptr) (void)succeeded(api_, api_.OpAttr_GetType(node, &kind));
    if (kind == AttributeKind::Tensor) {
      Value* value = nullptr;
      check(api_, api_.OpAttr_GetTensorAttributeAsOrtValue(node, &value));
      read_tensor(op_, attribute, api_, value, found);
    } else if (kind == AttributeKind::Strings) {
      found.texts = separated(list<std::string>(attribute, node, kind));
    } else if (kind == AttributeKind::Float) {
      found.real = scalar<float>(node, kind);
    } else if (kind == AttributeKind::Floats) {
      found.reals = list<std::vector<float>>(attribute, node, kind);
    } else {
      found.unread = true;
    }
  }

  // Of strings that end with a zero each.
  static std::vector<std::string> separated(const std::string& characters) {
    std::vector<std::string> texts;
    for (size_t begin = 0; begin < characters.size();) {
      const size_t end = std::min(characters.find('\0', begin), characters.size());
      texts.push_back(characters.substr(begin, end - begin));
      begin = end + 1;
    }
    return texts;
  }

  // The kernel may see an empty list and no more. (An older host does not tell the kind.)
  void check_kind(size_t index, const NodeAttribute* node) const {
    if (api_.OpAttr_GetType == nullptr) return;
    AttributeKind kind = AttributeKind::Undefined;  // stays if the C API has no name for the kind
    (void)succeeded(api_, api_.OpAttr_GetType(node, &kind));
    if (!is_legal(kind, op_.attributes[index].type())) {
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

[[noreturn]] void wrong_type(const Op& op, const Attribute& attribute, const Found& found) {
  const bool ints = found.integers && !found.integers->empty();
  const bool floats = found.reals && !found.reals->empty();
  const char* got = found.integer ? "an int"
                    : found.real  ? "a float"
                    : found.text  ? "a string"
                    : ints        ? "a list of ints"
                    : floats      ? "a list of floats"
                    : found.other ? found.other
                    : found.texts ? "a list of strings"
                                  : kSomethingElse;
  fail(op.name, attribute.name, got, type_name(attribute.type()));
}

bool absent(const Found& found) {
  return !found.integer && !found.real && !found.text && !found.integers && !found.reals &&
         !found.texts && !found.exact && !found.exacts;
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
    case AttributeType::Strings:
      if (found.texts && !found.integer && !found.real && !found.text && only_ints && only_floats &&
          !found.other) {
        return std::move(*found.texts);
      }
      break;
    case AttributeType::Double:
      if (found.exact) return *found.exact;
      if (found.real) return static_cast<double>(*found.real);  // written as a float once
      break;
    case AttributeType::Doubles:
      if (found.exacts) return std::move(*found.exacts);
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
  bool unread = false;
  for (size_t i = 0; i < op.attributes.size(); ++i) {
    Found found = source.find(i);
    if (found.unread) {
      unread = true;
      attributes.set(i, op.attributes[i].default_value);
    } else if (!absent(found)) {
      attributes.set(i, convert(op, op.attributes[i], std::move(found)));
    }
  }
  // Behind the loop, as another one may be of a kind that has to be noted. A rule that is text
  // reads ints only.
  if (unread && op.shape_text.empty()) throw NotYet();
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
