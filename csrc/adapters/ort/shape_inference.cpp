// Output shapes when a model is loaded, from the op's own shape rule.
//
// ONNX Runtime ignores (and leaks) a status returned here, so mistakes of a node are reported by
// create_kernel() and compute(); until then the shape is unknown.
#include <atomic>
#include <map>
#include <string>

#include "../../core/checks.h"
#include "status.h"
#include "typed_op.h"

namespace myops::ort {
namespace {

// A length that is neither a number nor a name needs a name, because ONNX Runtime would take -1 for
// a number. The names must differ, as equal names mean equal lengths.
std::string fresh_name() {
  static std::atomic<uint64_t> count{0};
  return str("unk__", library_domain(), "_", count++);
}

Dims read_dims(const Api& api, const TypeAndShape* info) {
  size_t rank = 0;
  check(api, api.GetDimensionsCount(info, &rank));
  std::vector<int64_t> values(rank);
  std::vector<const char*> names(rank);
  check(api, api.GetDimensions(info, values.data(), rank));
  check(api, api.GetSymbolicDimensions(info, names.data(), rank));
  Dims dims;
  for (size_t i = 0; i < rank; ++i) {
    const bool named = names[i] != nullptr && names[i][0] != '\0';
    dims.push_back(named ? Dim(std::string(names[i])) : Dim(values[i]));
  }
  return dims;
}

// False when the rank of an input is not known.
bool read_inputs(const Op& op, const Api& api, const ShapeInferContext* context,
                 ShapeContext& shapes) {
  size_t count = 0;
  check(api, api.ShapeInferContext_GetInputCount(context, &count));
  const size_t used = op.is_variadic() ? count : op.inputs.size();
  shapes.inputs_.resize(used);
  shapes.values_.resize(used);  // never known here
  shapes.dtypes_.resize(used);
  for (size_t i = 0; i < used && i < count; ++i) {
    TypeAndShape* info = nullptr;  // owned by the context
    check(api, api.ShapeInferContext_GetInputTypeShape(context, i, &info));
    ElementType type;
    check(api, api.GetTensorElementType(info, &type));
    if (type == ElementType::Undefined) continue;  // left out
    Dims dims = read_dims(api, info);
    if (dims.empty()) {
      // An input of unknown rank looks like a scalar, so a scalar has to count as unknown;
      // an input of values, however, can only be a list.
      if (!op.declared(i).has_values) return false;
      dims.resize(1);
    }
    shapes.dtypes_[i] = from_element_type(type);
    shapes.inputs_[i] = std::move(dims);
  }
  return true;
}

class OutputShape {
 public:
  // `decided`: the names of the lengths that the kernel decides, which outputs may share.
  OutputShape(const Api& api, DType dtype, const Dims& dims,
              std::map<std::string, std::string>& decided)
      : api_(api) {
    std::vector<int64_t> values;
    std::vector<std::string> names;
    for (const Dim& dim : dims) {
      values.push_back(dim.known() ? dim.value : -1);
      if (dim.decided() && !dim.symbol.empty()) {
        std::string& shared = decided[dim.symbol];
        if (shared.empty()) shared = fresh_name();
        names.push_back(shared);
      } else {
        names.push_back(dim.known() ? "" : dim.symbol.empty() ? fresh_name() : dim.symbol);
      }
    }
    std::vector<const char*> pointers;
    for (const std::string& name : names) pointers.push_back(name.c_str());
    check(api, api.CreateTensorTypeAndShapeInfo(&info_));
    try {
      // Newer versions take the type from here too.
      check(api, api.SetTensorElementType(info_, to_element_type(dtype)));
      check(api, api.SetDimensions(info_, values.data(), values.size()));
      check(api, api.SetSymbolicDimensions(info_, pointers.data(), pointers.size()));
    } catch (...) {
      api.ReleaseTensorTypeAndShapeInfo(info_);
      throw;
    }
  }
  ~OutputShape() { api_.ReleaseTensorTypeAndShapeInfo(info_); }
  OutputShape(const OutputShape&) = delete;
  OutputShape& operator=(const OutputShape&) = delete;

  const TypeAndShape* get() const { return info_; }

 private:
  const Api& api_;
  TypeAndShape* info_ = nullptr;
};

}  // namespace

Status* infer_output_shape(const CustomOp* self, ShapeInferContext* context) noexcept {
  const TypedOp& typed = TypedOp::of(self);
  const Api& api = *typed.api;
  Status* refusal = guard(api, [&] {
    const Op& op = typed.of_version(read_version(typed, context));
    const Attributes attributes = read_attributes(op, api, context);
    ShapeContext shapes(op, attributes);
    if (!read_inputs(op, api, context, shapes)) return;
    infer(op, attributes, shapes);
    std::map<std::string, std::string> decided;
    for (size_t i = 0; i < op.outputs.size(); ++i) {
      // ONNX Runtime 1.17 ends the process if a shape is set for an output that a node leaves out.
      if (!shapes.output(i) || !is_wanted(op, op.outputs[i], shapes)) continue;
      const OutputShape shape(api, output_dtype(op, i, shapes.dtypes_), *shapes.output(i), decided);
      Status* status = api.ShapeInferContext_SetOutputTypeShape(context, i, shape.get());
      if (op.outputs[i].condition.empty()) {
        check(api, status);
      } else {
        (void)succeeded(api, status);  // the node may leave it out
      }
    }
  });
  (void)succeeded(api, refusal);
  return nullptr;
}

}  // namespace myops::ort
