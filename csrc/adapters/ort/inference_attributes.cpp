// The attributes of a node during shape inference.
#include <algorithm>

#include "node_attributes.h"
#include "status.h"
#include "typed_op.h"
#include "wrong_kinds.h"

namespace myops::ort {
namespace {

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

}  // namespace

int64_t read_version(const TypedOp& typed, const ShapeInferContext* context) {
  const Op probe = version_probe(*typed.op);
  return read_attributes(probe, *typed.api, context).integer(kVersion);
}

Attributes read_attributes(const Op& op, const Api& api, const ShapeInferContext* context) {
  const InferenceSource source(op, api, context);
  return read_attributes(op, [&](size_t index) { return source.find(index); });
}

}  // namespace myops::ort
