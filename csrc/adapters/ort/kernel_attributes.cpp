// The attributes of a node when its kernel is created.
#include "node_attributes.h"
#include "status.h"
#include "typed_op.h"
#include "wrong_kinds.h"

namespace myops::ort {
namespace {

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

}  // namespace

int64_t read_version(const TypedOp& typed, const KernelInfo* info) {
  const Op probe = version_probe(*typed.op);
  return read_attributes(probe, *typed.api, info).integer(kVersion);
}

Attributes read_attributes(const Op& op, const Api& api, const KernelInfo* info) {
  const KernelSource source(op, api, info);
  return read_attributes(op, [&](size_t index) { return source.find(index); });
}

}  // namespace myops::ort
