// The functions of ONNX Runtime for attributes of nodes.
#include <cstdlib>
#include <cstring>

#include "fake_ort_table.h"

namespace fake_ort {
namespace {

const NodeAttribute* find(const Node* node, const char* name) {
  const auto place = node->attributes.find(name);
  return place == node->attributes.end() ? nullptr : &place->second;
}

template <class T>
Status* get_number(const KernelInfo* info, const char* name, T* out) {
  const NodeAttribute* attribute = find(info->node, name);
  const T* value = attribute ? std::get_if<T>(&attribute->value) : nullptr;
  if (value == nullptr) return refuse("no such attribute");
  *out = *value;
  return nullptr;
}

// A list of another type reads as an empty one, as in ONNX Runtime.
template <class T>
Status* get_list(const KernelInfo* info, const char* name, T* out, size_t* size) {
  const NodeAttribute* attribute = find(info->node, name);
  if (attribute == nullptr) return refuse("no such attribute");
  const auto* list = std::get_if<std::vector<T>>(&attribute->value);
  const size_t count = list ? list->size() : 0;
  if (out != nullptr && *size < count) return refuse("too small");
  if (out != nullptr && count > 0) std::memcpy(out, list->data(), count * sizeof(T));
  *size = count;
  return nullptr;
}

Status* get_text(const KernelInfo* info, const char* name, char* out, size_t* size) {
  const NodeAttribute* attribute = find(info->node, name);
  const auto* text = attribute ? std::get_if<std::string>(&attribute->value) : nullptr;
  if (text == nullptr) return refuse("no such attribute");
  const size_t needed = text->size() + 1;
  if (out != nullptr && *size < needed) return refuse("too small");
  if (out != nullptr) std::memcpy(out, text->c_str(), needed);
  *size = needed;
  return nullptr;
}

// A list of another kind reads as an empty one here too.
Status* read_attribute(const NodeAttribute* attribute, AttributeKind kind, void* data,
                       size_t capacity, size_t* bytes) {
  const auto& value = attribute->value;
  const auto copy = [&](const void* from, size_t needed) -> Status* {
    *bytes = needed;
    if (capacity < needed) return refuse("too small");
    if (needed > 0) std::memcpy(data, from, needed);
    return nullptr;
  };
  const auto number = [&](const auto* held, size_t width) {
    *bytes = width;
    return held ? copy(held, width) : refuse("no such value");
  };
  const auto list = [&](const auto* held) {
    return held ? copy(held->data(), held->size() * sizeof(*held->data())) : copy(nullptr, 0);
  };
  switch (kind) {
    case AttributeKind::Int:
      return number(std::get_if<int64_t>(&value), sizeof(int64_t));
    case AttributeKind::Float:
      return number(std::get_if<float>(&value), sizeof(float));
    case AttributeKind::String:
      return list(std::get_if<std::string>(&value));
    case AttributeKind::Ints:
      return list(std::get_if<std::vector<int64_t>>(&value));
    case AttributeKind::Floats:
      return list(std::get_if<std::vector<float>>(&value));
    case AttributeKind::Strings: {
      std::string characters;
      if (const auto* held = std::get_if<std::vector<std::string>>(&value)) {
        for (const std::string& text : *held) characters += text + '\0';
      }
      return list(&characters);
    }
    default:
      return refuse("not read by this library");
  }
}

// In the order of NodeAttribute's alternatives; a graph and a tensor follow.
Status* kind_of(const NodeAttribute* attribute, AttributeKind* out) {
  constexpr AttributeKind kinds[] = {AttributeKind::Int,    AttributeKind::Float,
                                     AttributeKind::String, AttributeKind::Ints,
                                     AttributeKind::Floats, AttributeKind::Strings};
  if (std::holds_alternative<Value>(attribute->value)) {
    *out = AttributeKind::Tensor;
  } else if (const auto* other = std::get_if<OtherKind>(&attribute->value)) {
    if (*other > OtherKind::Tensor) return refuse("unexpected attribute type");
    *out = static_cast<AttributeKind>(7 + static_cast<int>(*other));
  } else {
    *out = kinds[attribute->value.index()];
  }
  return nullptr;
}

Status* get_tensor(const KernelInfo* info, const char* name, Allocator*, Value** out) {
  const NodeAttribute* attribute = find(info->node, name);
  if (const auto* held = attribute ? std::get_if<Value>(&attribute->value) : nullptr) {
    ++values;
    *out = new Value(*held);
    return nullptr;
  }
  const auto* other = attribute ? std::get_if<OtherKind>(&attribute->value) : nullptr;
  if (other == nullptr || *other != OtherKind::Tensor) return refuse("no such attribute");
  ++values;
  *out = new Value{ElementType::Int64, {1}, std::vector<uint8_t>(8)};
  return nullptr;
}

// A list of another type reads as an empty one.
Status* get_texts(const KernelInfo* info, const char* name, Allocator*, char*** out, size_t* size) {
  const NodeAttribute* attribute = find(info->node, name);
  if (attribute == nullptr) return refuse("no such attribute");
  const auto* list = std::get_if<std::vector<std::string>>(&attribute->value);
  *size = list ? list->size() : 0;
  *out = nullptr;
  if (*size == 0) return nullptr;
  values += static_cast<int>(*size) + 1;
  *out = static_cast<char**>(std::malloc(*size * sizeof(char*)));
  for (size_t i = 0; i < *size; ++i) (*out)[i] = strdup((*list)[i].c_str());
  return nullptr;
}

}  // namespace

void add_attribute_functions(Functions& f) {
  f.KernelInfoGetAttribute_float = get_number<float>;
  f.KernelInfoGetAttribute_int64 = get_number<int64_t>;
  f.KernelInfoGetAttribute_string = get_text;
  f.KernelInfoGetAttributeArray_float = get_list<float>;
  f.KernelInfoGetAttributeArray_int64 = get_list<int64_t>;
  f.KernelInfoGetAttribute_tensor = get_tensor;
  f.OpAttr_GetTensorAttributeAsOrtValue = [](const NodeAttribute* attribute,
                                             Value** out) -> Status* {
    const auto* held = std::get_if<Value>(&attribute->value);
    ++values;
    *out = held ? new Value(*held) : new Value{ElementType::Int64, {1}, std::vector<uint8_t>(8)};
    return nullptr;
  };
  f.KernelInfoGetAttributeArray_string = get_texts;
  f.ShapeInferContext_GetAttribute = [](const ShapeInferContext* context, const char* name,
                                        const NodeAttribute** out) -> Status* {
    *out = find(context->node, name);
    return *out ? nullptr : refuse("no such attribute");
  };
  f.ReadOpAttr = read_attribute;
  f.OpAttr_GetType = kind_of;
}

}  // namespace fake_ort
