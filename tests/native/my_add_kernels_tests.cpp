// Each kernel of my_add by its name, under each instruction set of this CPU: random broadcasts of
// operands in any memory order, compared bit for bit with a loop over the elements.
#include <cstring>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "../../csrc/core/report.h"
#include "checking.h"
#include "each_isa.h"
#include "guarded_runtime.h"

namespace {

// The result has the order of the operands.
class StridedRuntime final : public Runtime {
 public:
  explicit StridedRuntime(Order order, void* overwritten = nullptr)
      : plain_(order), overwritten_(overwritten) {}
  Tensor allocate(size_t index, DType dtype, const Shape& shape, Layout layout) override {
    return allocate_strided(index, dtype, shape, strides_for(shape, layout));
  }
  Tensor allocate_strided(size_t index, DType dtype, const Shape& shape,
                          const Shape& strides) override {
    void* memory = overwritten_;
    if (memory == nullptr) memory = plain_.allocate(index, dtype, shape, Layout::Contiguous).data;
    return result = Tensor(memory, dtype, shape, strides);
  }
  void run(int64_t count, Task task, void* argument) override { plain_.run(count, task, argument); }
  bool guards_intact() const { return overwritten_ != nullptr || plain_.guards_intact(); }
  Tensor result;

 private:
  TestRuntime plain_;
  void* overwritten_;
};

struct Random {
  unsigned seed;
  int64_t below(int64_t limit) {
    seed = seed * 1664525u + 1013904223u;
    return static_cast<int64_t>(seed >> 8) % limit;
  }
};

// An operand of the lengths `shape`, whose axes lie in memory in the order `order`.
template <class T>
struct Operand {
  std::vector<T> memory;
  Tensor tensor;

  Operand(Random& random, DType dtype, const Shape& shape, const std::vector<size_t>& order)
      : memory(static_cast<size_t>(element_count(shape)) + 1) {
    for (T& element : memory) {
      if constexpr (std::is_integral_v<T>) {
        element = static_cast<T>(random.below(int64_t{1} << 24) * (int64_t{1} << 7));  // some wrap
      } else {
        element = static_cast<T>(static_cast<float>(random.below(1 << 20) - (1 << 19)) / 4096.0f);
      }
    }
    Shape strides(shape.size(), 0);
    int64_t stride = 1;
    for (size_t i = order.size(); i-- > 0; stride *= shape[order[i]]) strides[order[i]] = stride;
    tensor = Tensor(memory.data() + 1, dtype, shape, strides);  // not aligned to a vector
  }
};

template <class T>
T twice_plus(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using Unsigned = std::make_unsigned_t<T>;
    return static_cast<T>(2 * static_cast<Unsigned>(a) + static_cast<Unsigned>(b));
  } else if constexpr (std::is_same_v<T, double>) {
    return 2 * a + b;
  } else {
    return static_cast<T>(2 * static_cast<float>(a) + static_cast<float>(b));
  }
}

int64_t offset(const Tensor& tensor, const Shape& at) {
  int64_t sum = 0;
  const size_t lead = at.size() - tensor.shape.size();
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] != 1) sum += at[lead + i] * tensor.strides[i];
  }
  return sum;
}

std::string text(const Tensor& tensor) {
  return str(dtype_name(tensor.dtype), " ", tensor.shape, " strides ", tensor.strides);
}

// The first of these that a line of the report names.
std::string kernel_of(const std::string& line) {
  for (const char* name :
       {"in_order", "tiles", "packed", "contiguous", "repeated_a", "repeated_b"}) {
    if (line.find(str("\"kernel\": \"", name, "\"")) != std::string::npos) return name;
  }
  return "none";
}

template <class T>
void check(const Tensor& a, const Tensor& b, StridedRuntime& runtime,
           std::map<std::string, int>& used) {
  std::vector<T> wanted;
  std::vector<Shape> places;
  Shape shape(std::max(a.shape.size(), b.shape.size()), 1);
  for (const Tensor* it : {&a, &b}) {
    for (size_t i = 0; i < it->shape.size(); ++i) {
      int64_t& length = shape[shape.size() - it->shape.size() + i];
      length = std::max(length, it->shape[i]);
    }
  }
  Shape at(shape.size(), 0);
  for (int64_t left = element_count(shape); left > 0; --left) {
    wanted.push_back(twice_plus(a.as<T>()[offset(a, at)], b.as<T>()[offset(b, at)]));
    places.push_back(at);
    for (size_t axis = shape.size(); axis-- > 0 && ++at[axis] == shape[axis];) at[axis] = 0;
  }
  record_calls();
  invoke(*find_op("my_add"), {a, b}, Attributes(find_op("my_add")->attributes), runtime);
  const std::string kernel = kernel_of(recorded_calls());
  ++used[kernel];
  const std::string what = str(kernel, ": ", text(a), " + ", text(b));
  expect(runtime.guards_intact(), what + ": wrote outside");
  for (size_t i = 0; i < wanted.size(); ++i) {
    const T got = runtime.result.as<T>()[offset(runtime.result, places[i])];
    if (std::memcmp(&got, &wanted[i], sizeof(T)) == 0) continue;
    return expect(false, str(what, ": differs at ", places[i]));
  }
}

template <class T>
void check_random(DType dtype, std::map<std::string, int>& used) {
  Random random{static_cast<unsigned>(dtype) + 1};
  constexpr int64_t lengths[] = {1, 2, 3, 5, 8, 9, 16, 21, 33, 40, 67, 100, 131, 260};
  for (int round = 0; round < 200; ++round) {
    Shape shape;
    int64_t elements = 1;
    for (int64_t rank = random.below(5); rank > 0; --rank) {
      const int64_t length = lengths[random.below(14)];
      if (elements * length > 30000) continue;
      shape.push_back(length);
      elements *= length;
    }
    Shape own[2] = {shape, shape};
    std::vector<size_t> order[2];
    for (int operand = 0; operand < 2; ++operand) {
      for (int64_t& length : own[operand]) {
        if (random.below(4) == 0) length = 1;
      }
      order[operand].resize(shape.size());
      std::iota(order[operand].begin(), order[operand].end(), size_t{0});
      for (size_t i = shape.size(); i > 1 && random.below(2) == 0; --i) {
        std::swap(order[operand][i - 1], order[operand][random.below(static_cast<int64_t>(i))]);
      }
    }
    const Operand<T> a(random, dtype, own[0], order[0]), b(random, dtype, own[1], order[1]);
    for (const Order pieces : {Order::Forward, Order::Backward}) {
      StridedRuntime runtime(pieces);
      check<T>(a.tensor, b.tensor, runtime, used);
    }
  }
}

// The result in the memory of an operand: no element may be read after it was overwritten.
template <class T>
void check_overwriting(DType dtype, std::map<std::string, int>& used) {
  Random random{7};
  for (const Shape& shape : {Shape{1001}, Shape{13, 67}, Shape{40, 5}, Shape{3, 17, 100}}) {
    Shape row = shape, column = shape;
    std::fill(row.begin(), row.end() - 1, 1);
    column.back() = 1;
    for (const Shape& other : {shape, row, column}) {
      for (const bool is_b : {false, true}) {
        std::vector<size_t> order(shape.size());
        std::iota(order.begin(), order.end(), size_t{0});
        Operand<T> whole(random, dtype, shape, order), second(random, dtype, other, order);
        StridedRuntime runtime(Order::Forward, whole.tensor.data);
        is_b ? check<T>(second.tensor, whole.tensor, runtime, used)
             : check<T>(whole.tensor, second.tensor, runtime, used);
      }
    }
  }
}

int run(Isa isa) {
  std::map<std::string, int> used;
  for (const DType dtype : {DType::Float16, DType::BFloat16, DType::Float32, DType::Float64,
                            DType::Int32, DType::Int64}) {
    dispatch<Half, BFloat16, float, double, int32_t, int64_t>(dtype, [&](auto tag) {
      using T = typename decltype(tag)::type;
      check_random<T>(dtype, used);
      check_overwriting<T>(dtype, used);
    });
  }
  for (const char* name :
       {"in_order", "tiles", "packed", "contiguous", "repeated_a", "repeated_b"}) {
    expect(used[name] > 20, str(name, ": only ", used[name], " calls"));
  }
  return finish((std::string("kernels of my_add, ") + isa_name(isa)).c_str());
}

}  // namespace

int main() { return for_each_isa(run); }
