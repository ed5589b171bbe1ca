// A stand-in for ONNX Runtime: it loads the custom-op library through RegisterCustomOps and calls
// its callbacks as ONNX Runtime does, with models and tensors that ONNX Runtime itself would
// refuse. Every tensor has memory of exactly its size, so that AddressSanitizer detects any access
// outside.
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "../../csrc/adapters/ort/abi.h"
#include "myops/tensor.h"

namespace myops::ort {

// ONNX Runtime's own types, opaque to the library.
struct Status {
  ErrorCode code;
  std::string text;
};

struct TypeAndShape {
  ElementType type = ElementType::Undefined;
  std::vector<int64_t> dims;  // -1: not known
  std::vector<std::string> symbols;
};

// Kinds that hold more than numbers and strings. The C API has a name for the first two only.
enum class OtherKind { Graph, Tensor, SparseTensor, Type, Graphs, Tensors, SparseTensors, Types };

struct Value {
  ElementType type = ElementType::Undefined;
  std::vector<int64_t> dims;
  std::vector<uint8_t> bytes;
  std::vector<std::string> texts = {};  // of a tensor of strings
  bool on_device = false;               // which is memory of this process, too
};

struct NodeAttribute {
  std::variant<int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
               std::vector<std::string>, OtherKind, Value>
      value;
};

}  // namespace myops::ort

namespace fake_ort {

using myops::ort::ElementType;
using myops::ort::NodeAttribute;
using myops::ort::TypeAndShape;
using myops::ort::Value;

size_t element_size(ElementType type);

struct Input {
  Value value;
  TypeAndShape declared;     // what the model declares; the value may differ
  bool is_constant = false;  // an initializer
};

struct Node {
  std::string type;  // "Resize"
  std::map<std::string, NodeAttribute> attributes;
  std::vector<std::optional<Input>> inputs;  // nothing: left out
  bool on_cuda = false;                      // the execution provider that the session gives it to
  std::vector<size_t> left_out = {};         // outputs without a name
};

// How the session runs the pieces of a kernel's work.
enum class Order { Forward, Backward, Threads };

// 1.32, or 1.23 with a shorter table.
enum class Release { Newest, Older };

// A session with one node. Several threads may run it.
class Session {
 public:
  // Loads the library, infers shapes and creates the kernel.
  explicit Session(const Node& node, Release release = Release::Newest)
      : Session({node}, release) {}
  // Of several nodes: infers the shapes of all, then creates their kernels, and runs the last.
  explicit Session(std::initializer_list<Node> nodes, Release release = Release::Newest);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Why the library refused the node; empty: it did not.
  const std::string& refusal() const { return refusal_; }
  // The inferred shapes of the outputs; nullopt if the library inferred none.
  const std::vector<std::optional<TypeAndShape>>& inferred() const { return inferred_; }
  // The inputs that the first output may overwrite.
  std::vector<int> overwritten() const;

  struct Result {
    std::string refusal;
    std::vector<Value> outputs;
  };
  // `fill` is what the memory of outputs holds before the kernel writes it. `meanwhile` runs when
  // the library has decided about an output and asks for it.
  Result run(const Node& node, Order order, uint8_t fill,
             const std::function<void()>& meanwhile = {}) const;

 private:
  void infer(const Node& node);
  void create_kernel(const Node& node);

  const myops::ort::CustomOp* op_ = nullptr;
  void* kernel_ = nullptr;
  std::string refusal_;
  std::vector<std::optional<TypeAndShape>> inferred_;
};

// The option of this name of the execution provider of CUDA, from now on.
void use_tf32(bool wanted);
// What calls there are queued on.
void* cuda_stream();

// Statuses, and values and strings of attributes, that the library has not released yet; values
// with scratch memory and allocators.
int live_statuses();
int live_values();

}  // namespace fake_ort
