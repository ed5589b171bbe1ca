// The description of an op: everything that torch, ONNX and NumPy need to know about it.
//
//   MYOPS_OP(my_add) {
//     return Op("my_add")
//         .onnx("MyAdd", 1)
//         .doc("2a + b, with NumPy broadcasting.")
//         .type("T", {DType::Float32, DType::Float64})
//         .input({"a", "T", "The doubled addend."})
//         .input({"b", "T", "The other addend."})
//         .output({"c", "T", "2a + b."})
//         .shape(shape)
//         .kernel(compute);
//   }
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "myops/attributes.h"
#include "myops/context.h"
#include "myops/lengths.h"
#include "myops/view.h"

namespace myops {

// Which layouts of an input the kernel reads. The adapter copies other layouts.
enum class Access : uint8_t {
  Contiguous,    // row-major
  ChannelsLast,  // row-major or channels_last
  Strided,       // any strides
  StridedOnCpu,  // any strides; on a CUDA device as ChannelsLast
  ShapeOnly,     // the memory is never read
};

struct Input {
  std::string name;
  std::string type;  // a name given to Op::type
  std::string doc;
  bool is_optional = false;
  bool has_values = false;
  Access access_mode = Access::Contiguous;
  bool is_variadic = false;
  bool is_written = false;

  Input optional() && { return is_optional = true, std::move(*this); }
  // The input's numbers decide the output's shape (scales, sizes). It is a short list on the CPU;
  // torch also gets an overload that takes a Python list.
  Input values() && { return has_values = true, std::move(*this); }
  Input access(Access mode) && { return access_mode = mode, std::move(*this); }
  // A list of one or more tensors of the same dtype: Tensor[] in torch, a variadic input in ONNX, a
  // list in NumPy. Only the last input can be variadic. In the shape rule and the kernel, each of
  // its tensors is an input(i), up to i = input_count() - 1.
  Input variadic() && { return is_variadic = true, std::move(*this); }
  // The kernel writes into the input's memory: Tensor(a!) in torch. Such an op has no ONNX node and
  // no gradient; describe with functional_of() the op that exporters and compilers use instead.
  Input written() && { return is_written = true, std::move(*this); }

  // Whether the kernel accepts a tensor of this layout; otherwise it gets a contiguous copy.
  bool accepts_layout(const Tensor& tensor, bool on_cuda) const {
    const bool strided_on_cpu = access_mode == Access::StridedOnCpu;
    return access_mode == Access::Strided || access_mode == Access::ShapeOnly ||
           (strided_on_cpu && !on_cuda) || tensor.is(Layout::Contiguous) ||
           ((access_mode == Access::ChannelsLast || strided_on_cpu) &&
            tensor.is(Layout::ChannelsLast));
  }
};

struct Output {
  std::string name;
  std::string type;
  std::string doc;
  std::vector<std::string> overwritten = {};
  std::string condition = {};
  bool is_elementwise = false;

  // An optional output: it is computed only if the bool attribute of this name is true, or if the
  // optional input of this name is given. Otherwise callers get None, a node of a model leaves it
  // out, and in the kernel it is not `present`; the same holds where a model does not read it.
  // (torch.ops, and nodes that have the output anyway, get an empty tensor.)
  Output only_if(std::string name) && { return condition = std::move(name), std::move(*this); }

  // The inputs whose memory a runtime may reuse for this output, one of them at a time, if the
  // input has the output's shape and is not needed afterwards. The kernel must read each element of
  // these inputs before it writes the same element of the output. (ONNX Runtime does this for the
  // first output and the first four inputs.)
  Output may_overwrite(std::vector<std::string> names) && {
    return overwritten = std::move(names), std::move(*this);
  }

  // Each element is computed from the elements at the same place of the inputs, with broadcasting.
  // In PyTorch the axes of the output then lie in memory in the order in which those of the inputs
  // do, as in results of PyTorch's own functions of this kind, and out= may have this order too.
  // The kernel must follow the strides of the output.
  Output elementwise() && { return is_elementwise = true, std::move(*this); }
};

// What torch.autocast does to the floating tensors of a call, except those of float64. An input is
// cast if its type parameter has the dtype; an input with `.values()` is never cast.
enum class Autocast : uint8_t {
  None,     // no cast
  Lower,    // casts them to the dtype of autocast, such as bfloat16, as for a convolution
  Float32,  // casts them to float32, as for a sum of many numbers
  Widest,   // casts those of one type parameter to the widest dtype among them
};

struct TypeParameter {
  std::string name;
  std::vector<DType> dtypes;
};

namespace detail {
// torch calls a kernel through a plain function without context, so each op has functions of its
// own, one for each overload. `target` is a pointer that the torch adapter sets and gets back with
// the stack.
struct StackEntry {
  void (*function)(uint64_t* stack, uint64_t, uint64_t) = nullptr;
  const void** target = nullptr;
};
using StackEntries = std::array<StackEntry, 4>;
}  // namespace detail

// A kernel and the element types that it is written for (see MYOPS_TYPED).
struct TypedKernel {
  void (*function)(KernelContext&);
  std::vector<DType> dtypes;  // of the first input
};

struct Op {
  std::string name;       // torch and Python: snake_case
  std::string onnx_type;  // ONNX: CamelCase; empty when there is no node (a backward op)
  int since_version = 1;
  std::string summary;
  std::vector<TypeParameter> types;
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  std::vector<Attribute> attributes;
  std::function<void(ShapeContext&)> shape_rule;  // a prototype's is a Python function
  std::string shape_text;                         // of a textual rule; otherwise empty
  void (*compute)(KernelContext&) = nullptr;
  std::vector<DType> computed_dtypes;  // of a TypedKernel
  void (*compute_cuda)(KernelContext&) = nullptr;
  detail::StackEntries stack_entries;
  Prepared (*make_prepared)(const PrepareContext&) = nullptr;
  std::vector<std::string> prepared_inputs;  // empty: only sessions prepare
  Autocast autocast_policy = Autocast::None;
  bool is_random = false;
  std::shared_ptr<const Op> in_place;  // of functional_of()

  explicit Op(std::string name_) : name(std::move(name_)) {}

  Op onnx(std::string type, int since) && {
    onnx_type = std::move(type);
    since_version = since;
    return std::move(*this);
  }
  Op doc(std::string text) && { return summary = std::move(text), std::move(*this); }
  Op type(std::string type_name, std::vector<DType> dtypes) && {
    types.push_back({std::move(type_name), std::move(dtypes)});
    return std::move(*this);
  }
  Op input(Input declared) && { return inputs.push_back(std::move(declared)), std::move(*this); }
  Op output(Output declared) && { return outputs.push_back(std::move(declared)), std::move(*this); }
  // The default is rounded here, as a value that a call gives is, so that both are equal.
  Op attribute(Attribute declared) && {
    declared.default_value = declared.rounded(std::move(declared.default_value));
    return attributes.push_back(std::move(declared)), std::move(*this);
  }
  Op shape(std::function<void(ShapeContext&)> rule) && {
    return shape_rule = std::move(rule), std::move(*this);
  }
  // The rule as text, such as "N C H W, O C 3 3 -> N O H W"; see lengths.h.
  Op shape(const char* rule) && {
    shape_text = rule;
    return std::move(*this).shape(
        [text = shape_text](ShapeContext& context) { follow(context, text); });
  }
  Op kernel(void (*function)(KernelContext&)) && { return compute = function, std::move(*this); }
  Op kernel(TypedKernel typed) && {
    computed_dtypes = std::move(typed.dtypes);
    return compute = typed.function, std::move(*this);
  }

  // Optional: the kernel for tensors on a CUDA device (cuda.h). Without it, such tensors are
  // refused.
  Op cuda(void (*function)(KernelContext&)) && { return compute_cuda = function, std::move(*this); }

  // Optional: a computation on constant inputs (packing weights, for example) that runtimes with
  // sessions make once for all calls. `function` may return null, and the kernel must also work
  // without its result.
  Op prepare(Prepared (*function)(const PrepareContext&)) && {
    return make_prepared = function, std::move(*this);
  }
  // The same in PyTorch and NumPy too, from the named inputs: the second call with the same memory
  // calls `function`, and calls use the result until that memory changes. docs/your_own_op.md says
  // what counts as a change. `function` then gets no other constants than these.
  Op prepare(Prepared (*function)(const PrepareContext&), std::vector<std::string> names) && {
    prepared_inputs = std::move(names);
    return make_prepared = function, std::move(*this);
  }

  Op autocast(Autocast policy) && { return autocast_policy = policy, std::move(*this); }

  // The result depends on random numbers, and these only on KernelContext::seed() (random.h). The
  // op gets an attribute `seed` (an int, 0 by default) and, after its inputs, an optional input
  // `key`, an int64 that overrides the attribute.
  Op random() && { return is_random = true, std::move(*this); }

  const std::vector<DType>& dtypes(const std::string& type_name) const;

  // The declaration of the tensor at `index` of a call.
  const Input& declared(size_t index) const {
    return index < inputs.size() ? inputs[index] : inputs.back();
  }
  bool is_variadic() const { return !inputs.empty() && inputs.back().is_variadic; }
  bool writes() const {
    for (const Input& input : inputs) {
      if (input.is_written) return true;
    }
    return false;
  }
  std::string input_name(size_t index) const;  // "x", or "tensors[2]"
};

// The description of the gradient of `op`, without a kernel:
//
//   MYOPS_OP(my_op_backward) { return backward_of(describe_my_op(), {"x"}).kernel(differentiate); }
//
// Its name is that of the op with "_backward". Its inputs are grad_<output> for each output (not
// `present` where the call left the output out), then the inputs of the op. Its outputs are
// grad_<input> for the inputs named in `differentiable`, in the op's order and of the input's
// shape. Its attributes are those of the op. It has no ONNX node. In Python,
// `library.define("my_op", backward="my_op_backward", ...)` makes it the gradient.
Op backward_of(const Op& op, const std::vector<std::string>& differentiable);

// From the description of an op with inputs that are .written(), that of the op without writes:
//
//   MYOPS_OP(scale) { return functional_of(describe_scale_()).onnx("Scale", 1); }
//
// Its name is that of the op without the last "_"; it must be the name in MYOPS_OP. For each
// written input it has an output <input>_out with what the op writes, then the outputs of the op.
// It runs the kernel of the op on a copy. torch.compile, exporters and functionalisation call it
// instead of the op, so an exported model contains it.
Op functional_of(const Op& op);

// Every op of this binary whose description is valid, sorted by name.
const std::vector<Op>& all_ops();
const Op* find_op(const std::string& name);

// The mistakes in the descriptions of this binary, one line each: "library domain: op: argument:
// got, expected". They are found when the binary is loaded, and reported by the adapters.
const std::vector<std::string>& faults();
// Throws an Error with all of them, if there are any.
void refuse_faults();

// Throws an Error if the description is wrong.
void check_description(const Op& op);

// Adds to the description what the author does not write: the key and the seed of a random op.
// Every op is completed once, before it is checked.
void complete(Op& op);

// The op and those with the same ONNX type, one for each version of its meaning, oldest first.
std::vector<const Op*> versions_of(const Op& op);

class ShapeCache;

// Checks dtypes and attributes, runs the shape rule, allocates the outputs, runs the kernel. Every
// call of a kernel is made by this function. Callers that repeat calls may own a ShapeCache
// (core/).
void invoke(const Op& op, const Tensors& inputs, const Attributes& attributes, Runtime& runtime,
            const void* prepared = nullptr, ShapeCache* last = nullptr);

// Refuses strings that are not among the choices, and numbers out of bounds. invoke() and infer()
// call it too; runtimes that know attributes before the call check them earlier.
void check_attributes(const Op& op, const Attributes& attributes);

// Makes the same checks and runs the shape rule. The caller has filled in the inputs of `context`.
void infer(const Op& op, const Attributes& attributes, ShapeContext& context);

// The dtype of an output, given those of the inputs (absent ones: nullopt).
DType output_dtype(const Op& op, size_t output, const DTypes& inputs);

// For adapters: refuses an element type that DType does not have.
[[noreturn]] void refuse_dtype(const Op& op, const Input& input, const std::string& got);

// Calls `listener` for every registered op, and later for each op that is registered afterwards, so
// that the order in which files are initialised does not matter.
void for_each_op(void (*listener)(const Op&));

// What Op::prepare makes of inputs that never change; null where the op has no such function.
Prepared prepare(const Op& op, const Tensors& constants, const Attributes& attributes);

namespace detail {
// The torch adapter's function for calls from the dispatcher; null in the other libraries.
extern void (*run_stack)(const void* target, uint64_t* stack);

template <Op (*describe)(), int overload>
struct StackFunction {
  static inline const void* target = nullptr;
  static void call(uint64_t* stack, uint64_t, uint64_t) { run_stack(target, stack); }
  static constexpr StackEntry entry() { return {call, &target}; }
};
template <Op (*describe)()>
StackEntries stack_entries() {
  return {StackFunction<describe, 0>::entry(), StackFunction<describe, 1>::entry(),
          StackFunction<describe, 2>::entry(), StackFunction<describe, 3>::entry()};
}

template <class... Ts>
std::vector<DType> dtypes_of() {
  return {dtype_of<Ts>...};
}

void add_fault(const std::string& fault);  // "op: argument: got, expected"

struct Registrar {
  Registrar(const char* name, Op (*make)(), const StackEntries& entries);
};
}  // namespace detail

}  // namespace myops

// For Op::kernel: instantiates `template <class T> void function(KernelContext&)` for the listed
// types and chooses by the dtype of the first input. The op must declare the same types; if it
// declares one more, its library is refused when it is loaded.
#define MYOPS_TYPED(function, ...)                                           \
  ::myops::TypedKernel {                                                     \
    [](::myops::KernelContext& context) {                                    \
      ::myops::dispatch<__VA_ARGS__>(context.input(0).dtype, [&](auto tag) { \
        function<typename decltype(tag)::type>(context);                     \
      });                                                                    \
    },                                                                       \
        ::myops::detail::dtypes_of<__VA_ARGS__>()                            \
  }

// Opens the function that describes an op and registers it when the binary is loaded.
#define MYOPS_OP(op_name)                                                                  \
  static ::myops::Op describe_##op_name();                                                 \
  static const ::myops::detail::Registrar register_##op_name{                              \
      #op_name, describe_##op_name, ::myops::detail::stack_entries<describe_##op_name>()}; \
  static ::myops::Op describe_##op_name()
