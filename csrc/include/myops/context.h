// The interface between an op (shape rule, kernel) and the runtime that calls it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "myops/attributes.h"
#include "myops/error.h"
#include "myops/memory.h"
#include "myops/tensor.h"

namespace myops {

struct Op;
class Report;  // core/report.h
namespace cuda {
class Device;  // cuda.h
}

namespace detail {
// Errors for mistakes in the code of an op: an index that no input or output has, and a request for
// the lengths of an input that the call leaves out.
[[noreturn]] void refuse_place(const char* what, size_t index, size_t count);
[[noreturn]] void refuse_absent(size_t input);
}  // namespace detail

// A length of an output that the data decides: the kernel knows it only after it has computed
// (KernelContext::allocate_output). Lengths with the same name are equal, also in several outputs
// of the op; lengths without a name are independent of each other.
struct DecidedLength {
  std::string name;
  int64_t most = -1;  // the largest that it can be; -1: not known
};

// One axis length during shape inference: a number, a name (a symbolic dimension), or neither; in
// an output also one that the kernel decides.
struct Dim {
  int64_t value = -1;
  std::string symbol;  // of one that the kernel decides, the name of the length

  Dim() = default;
  Dim(int64_t value_) : value(value_) {}
  explicit Dim(std::string symbol_) : symbol(std::move(symbol_)) {}

  // For outputs: decided by the kernel, and not larger than `bound` where that is known.
  static Dim at_most(const Dim& bound, std::string name = "") {
    Dim dim(std::move(name));
    dim.value = kDecided - 1 - std::min(bound.known() ? bound.value : bound.most(), kLargest);
    return dim;
  }
  // The same without a bound.
  static Dim any(std::string name = "") { return at_most(Dim(), std::move(name)); }

  bool known() const { return value >= 0; }
  bool decided() const { return value <= kDecided; }                      // by the kernel
  int64_t most() const { return decided() ? kDecided - 1 - value : -1; }  // its bound, or -1
  bool operator==(const Dim& other) const {
    return known() ? value == other.value : !symbol.empty() && symbol == other.symbol;
  }

 private:
  // The `value` of a decided length without a bound; a bound of 0, 1, ... is stored as the values
  // below. No additional member is needed, because a call makes dozens of these objects. No rule
  // computes so small a number, and infer() sees one below 0 that a rule has computed.
  static constexpr int64_t kDecided = -(int64_t{1} << 62);
  static constexpr int64_t kLargest = int64_t{1} << 61;
};

using Dims = SmallVector<Dim, 6>;
using DTypes = SmallVector<std::optional<DType>, 8>;  // nullopt: unknown

// For the shape rule, which is used for calls (all lengths known), for shape inference in ONNX
// Runtime and onnx (some lengths are names), and to refuse bad arguments. It is called only when
// the rank of every present input is known.
//
// Asking for an input or an output that the op does not declare, and for the lengths of an input
// that was left out, is an Error that names the op.
class ShapeContext {
 public:
  ShapeContext(const Op& op, const Attributes& attributes) : op_(op), attributes_(attributes) {}
  virtual ~ShapeContext() = default;

  const std::string& op_name() const;
  // For a tensor of a variadic input: "tensors[2]".
  std::string input_name(size_t input) const;
  const Attributes& attributes() const { return attributes_; }

  // The number of inputs that the op declares; each tensor of a variadic input counts.
  size_t input_count() const { return inputs_.size(); }
  size_t declared_inputs() const;
  bool has(size_t input) const { return inputs_[checked(input)].has_value(); }
  const Dims& dims(size_t input) const {
    if (!has(input)) detail::refuse_absent(input);
    return *inputs_[input];
  }
  // nullopt: not known yet.
  std::optional<DType> dtype(size_t input) const { return dtypes_[checked(input)]; }
  // The numbers in an input that the op declared with `.values()`; nullopt when they are not known
  // yet because the graph computes them.
  const std::optional<std::vector<double>>& values(size_t input) const {
    return values_[checked(input)];
  }

  void set_output(size_t output, Dims dims);
  const std::optional<Dims>& output(size_t index) const { return outputs_[index]; }

  // Filled by the caller of the rule.
  SmallVector<std::optional<Dims>, 6> inputs_;
  DTypes dtypes_;
  SmallVector<std::optional<std::vector<double>>, 6> values_;
  SmallVector<std::optional<Dims>, 3> outputs_;

 private:
  size_t checked(size_t input) const {
    if (input >= inputs_.size()) detail::refuse_place("input", input, inputs_.size());
    return input;
  }

  const Op& op_;
  const Attributes& attributes_;
};

// What a runtime provides to a kernel. Implemented once per adapter.
class Runtime {
 public:
  using Task = void (*)(void* argument, int64_t index);  // never throws

  virtual ~Runtime() = default;
  // Memory for one output, owned by the runtime. If nobody reads an output with Output::only_if(),
  // the result may be not `present`.
  virtual Tensor allocate(size_t output, DType dtype, const Shape& shape, Layout layout) = 0;
  // The same for an output of Output::elementwise(), with the strides that PyTorch would choose.
  virtual Tensor allocate_strided(size_t output, DType dtype, const Shape& shape,
                                  const Shape& /*strides*/) {
    return allocate(output, dtype, shape, Layout::Contiguous);
  }
  // Called instead of allocate() for an output that this call leaves out.
  virtual void leave_out(size_t /*output*/, DType /*dtype*/) {}
  // Called before a kernel that allocates outputs itself, or that writes into inputs.
  virtual void begin_kernel() {}
  // Calls task(argument, i) once for each i in [0, count), in any order, on any threads.
  virtual void run(int64_t count, Task task, void* argument) = 0;
  // For reports of calls: the name of the runtime, and of the node if a model makes the call.
  virtual const char* name() const { return "cpp"; }
  virtual std::string node() const { return {}; }
  // The device of a call whose tensors are on a CUDA device; otherwise null.
  virtual cuda::Device* cuda_device() { return nullptr; }
  // The memory of this call. invoke() takes the outputs from it; an adapter that copies an input
  // takes the copy.
  Budget& budget() { return budget_; }

 private:
  Budget budget_;
};

// What Op::prepare computed from constant inputs before the first call.
using Prepared = std::shared_ptr<const void>;

// What a kernel stores in one call for the next one (see KernelContext::set_call_cache).
using CallCache = std::shared_ptr<const void>;
using Work = CallCache;  // the earlier name

// For Op::prepare: the attributes, and the inputs that will be the same in every call.
class PrepareContext {
 public:
  PrepareContext(const Op& op, const Tensors& constants, const Attributes& attributes)
      : op_(op), constants_(constants), attributes_(attributes) {}

  const std::string& op_name() const;
  const Attributes& attributes() const { return attributes_; }
  // Not `present` when the input is computed by the graph, or left out. Nothing is checked yet.
  const Tensor& constant(size_t index) const {
    if (index >= constants_.size()) detail::refuse_place("input", index, constants_.size());
    return constants_[index];
  }

 private:
  const Op& op_;
  const Tensors& constants_;
  const Attributes& attributes_;
};

class DecidedOutputs;  // core/

class KernelContext {
 public:
  KernelContext(const Op& op, const TensorPointers& inputs, Tensors& outputs,
                const Attributes& attributes, Runtime& runtime, const void* prepared,
                CallCache call_cache = nullptr, Report* report = nullptr,
                DecidedOutputs* decided = nullptr)
      : op_(op),
        inputs_(inputs),
        outputs_(outputs),
        attributes_(attributes),
        runtime_(runtime),
        prepared_(prepared),
        call_cache_(std::move(call_cache)),
        report_(report),
        decided_(decided) {}

  const std::string& op_name() const;
  const Attributes& attributes() const { return attributes_; }
  // The tensors of a variadic input, which is the last, follow each other.
  const Tensor& input(size_t index) const {
    if (index >= inputs_.size()) detail::refuse_place("input", index, inputs_.size());
    return *inputs_[index];
  }
  size_t input_count() const { return inputs_.size(); }
  // Not `present`: left out (see Output::only_if), or not allocated yet (see allocate_output). A
  // call is refused whose kernel writes an output before that.
  const Tensor& output(size_t index) const {
    if (index >= outputs_.size()) detail::refuse_place("output", index, outputs_.size());
    return outputs_[index];
  }

  // Makes an output with a length that the kernel decides (Dim::at_most in the shape rule). `shape`
  // has the lengths that the rule computed, and the decided lengths within their bounds. Must be
  // called once for each such output, on the thread that runs the kernel and outside parallel_for.
  // The result is not `present` where the call leaves the output out.
  const Tensor& allocate_output(size_t index, const Shape& shape) const;
  // The same for every output that has the decided length of this name. An output with several
  // decided lengths is made when the last of them is set.
  void set_length(const std::string& name, int64_t length) const;
  // For a kernel given to Op::cuda(), which uses it through cuda::Gpu.
  cuda::Device* cuda_device() const { return runtime_.cuda_device(); }

  // What Op::prepare returned; null in most calls.
  template <class T>
  const T* prepared() const {
    return static_cast<const T*>(prepared_);
  }

  // For an op declared with random(): the seed from which all random numbers of this call follow.
  uint64_t seed() const;

  // What this kernel stored in the previous call, or null. Dtypes, shapes, attributes and lists of
  // numbers are then equal to those of that call; layouts and the elements of other inputs may
  // differ. It may be null in any call.
  template <class T>
  std::shared_ptr<const T> call_cache() const {
    return std::static_pointer_cast<const T>(call_cache_);
  }
  // Stores an object for the next call, if that call is equal in the same way. The object may live
  // as long as the node of a model or, for calls from Python, as the process, so it must be small.
  void set_call_cache(CallCache cache) const { new_call_cache_ = std::move(cache); }
  const CallCache& new_call_cache() const { return new_call_cache_; }

  // Earlier names of the two functions above.
  template <class T>
  std::shared_ptr<const T> work() const {
    return call_cache<T>();
  }
  void keep(CallCache cache) const { set_call_cache(std::move(cache)); }

  // Must precede allocations by other means, such as a std::vector: throws if the call would exceed
  // its memory budget.
  void take(const std::string& what, size_t bytes) const {
    runtime_.budget().take(op_name(), "inputs", what, bytes);
  }
  Scratch scratch(size_t bytes) const { return Scratch(bytes, op_name(), runtime_.budget()); }
  // The same for `count` elements; also refuses a count whose bytes overflow an integer.
  template <class T>
  ScratchArray<T> scratch_array(int64_t count) const {
    return ScratchArray<T>(scratch(bytes_of<T>(count)), count);
  }
  template <class T>
  ScratchArray<T> scratch_array(int64_t count, T value) const {
    ScratchArray<T> array = scratch_array<T>(count);
    std::fill(array.begin(), array.end(), value);
    return array;
  }

  // Reports what the kernel chose: the name of the strategy, what it computes (an axis, an output,
  // a part of the work), and why. MYOPS_VERBOSE=1 and myops.explain() show it with the number of
  // pieces of the parallel_for() that follows, the scratch memory and the time. Call it on the
  // thread of the call, before the work. Where reports are off it does nothing, so build longer
  // texts inside `if (context.reports())`.
  void report(std::string_view kernel, std::string_view axis = {},
              std::string_view reason = {}) const {
    if (report_ != nullptr) add_step(kernel, axis, reason);
  }
  bool reports() const { return report_ != nullptr; }

  // Splits [0, count) into pieces of `grain` (the last may be shorter) and calls body(begin, end)
  // once for each, in parallel. The pieces depend on `count` and `grain` only, never on the number
  // of threads, so the results do not depend on it either. An exception in a piece is rethrown to
  // the caller; of several, that of the first piece.
  template <class Body>
  void parallel_for(int64_t count, int64_t grain, const Body& body) const {
    using Erased = void (*)(const void*, int64_t, int64_t);
    const Erased call = [](const void* erased, int64_t begin, int64_t end) {
      (*static_cast<const Body*>(erased))(begin, end);
    };
    run_pieces(count, std::max<int64_t>(grain, 1), call, &body);
  }

 private:
  void add_step(std::string_view kernel, std::string_view axis, std::string_view reason) const;
  void run_pieces(int64_t count, int64_t grain, void (*call)(const void*, int64_t, int64_t),
                  const void* body) const;

  const Op& op_;
  const TensorPointers& inputs_;
  Tensors& outputs_;
  const Attributes& attributes_;
  Runtime& runtime_;
  const void* prepared_;
  const CallCache call_cache_;
  mutable CallCache new_call_cache_;
  Report* const report_;           // null: reports are off
  DecidedOutputs* const decided_;  // null: the shape rule knows every length
};

// The numbers of a small tensor (scales, sizes, roi) as doubles; exact for |int64| < 2^53.
std::vector<double> read_values(const Tensor& tensor);

}  // namespace myops
