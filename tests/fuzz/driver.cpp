// A coverage-guided fuzzer for compilers that have no libFuzzer (GCC): the same target, the main
// options by the same names. With Clang this file is not used.
//
//   fuzz_ops [-max_total_time=SECONDS] [-runs=N] [-seed=N] [-max_len=N] [-timeout=SECONDS]
//   [PATH...]
//
// A PATH is a folder of inputs to begin with, to which inputs that reach new code are added, or a
// file to run once. An input that fails is written to ./crash-<number> or ./timeout-<number>.
//
// GCC's -fsanitize-coverage=trace-pc calls the function below from every basic block of what is
// being tested. An input is kept when it reaches a block for the first time, or more often than
// before (in powers of two). Every other input is a few random bytes, which are a call of their own
// (bytes.h): so all kinds of calls stay as frequent as they were planned.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv);
// Of whichever sanitizer is linked, if any.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {

using Input = std::vector<uint8_t>;

constexpr size_t kPlaces = 1 << 16;
uint8_t blocks[kPlaces];  // how often each was reached, by this input

size_t place_of(const void* address) {
  return static_cast<size_t>((reinterpret_cast<uintptr_t>(address) * 0x9e3779b97f4a7c15u) >> 48);
}

}  // namespace

extern "C" void __sanitizer_cov_trace_pc() {
  uint8_t& count = blocks[place_of(__builtin_return_address(0))];
  if (count < 255) ++count;
}

namespace {

Input current;

void save(const char* kind) {
  const std::string name = std::string(kind) + "-" + std::to_string(getpid());
  std::ofstream(name, std::ios::binary)
      .write(reinterpret_cast<const char*>(current.data()),
             static_cast<std::streamsize>(current.size()));
  std::fprintf(stderr, "the input is in %s\n", name.c_str());
}

void on_death() { save("crash"); }
void on_abort(int) {
  save("crash");
  _exit(1);
}
void on_alarm(int) {
  save("timeout");
  _exit(1);
}

struct Options {
  double seconds = 0;  // 0: no limit
  int64_t runs = -1;
  uint64_t seed = std::random_device()();
  size_t longest = 512;
  unsigned timeout = 20;
  std::vector<std::string> paths;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string text = argv[i];
    const size_t split = text.find('=');
    if (text[0] != '-') {
      options.paths.push_back(text);
      continue;
    }
    const std::string name = text.substr(0, split);
    const double value = split == std::string::npos ? 0 : std::atof(text.c_str() + split + 1);
    if (name == "-max_total_time") {
      options.seconds = value;
    } else if (name == "-runs") {
      options.runs = static_cast<int64_t>(value);
    } else if (name == "-seed") {
      options.seed = static_cast<uint64_t>(value);
    } else if (name == "-max_len") {
      options.longest = static_cast<size_t>(value);
    } else if (name == "-timeout") {
      options.timeout = static_cast<unsigned>(value);
    } else {
      std::fprintf(stderr, "unknown option %s\n", name.c_str());
      std::exit(2);
    }
  }
  return options;
}

Input read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return Input(std::istreambuf_iterator<char>(file), {});
}

class Fuzzer {
 public:
  explicit Fuzzer(Options options) : options_(std::move(options)), random_(options_.seed) {}

  int run() {
    for (const std::string& path : options_.paths) {
      if (!std::filesystem::is_directory(path)) {
        execute(read(path));
        continue;
      }
      if (folder_.empty()) folder_ = path;
      for (const auto& entry : std::filesystem::directory_iterator(path)) try_input(read(entry));
    }
    const bool files_only = folder_.empty() && !options_.paths.empty();
    try_input({});
    while (!files_only && !finished()) try_input(mutated());
    std::fprintf(stderr, "%lld runs, %zu inputs kept, %zu features, %.0f s\n",
                 static_cast<long long>(runs_), corpus_.size(), features_, elapsed());
    return 0;
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  bool finished() const {
    return (options_.runs >= 0 && runs_ >= options_.runs) ||
           (options_.seconds > 0 && elapsed() >= options_.seconds);
  }
  size_t below(size_t bound) { return static_cast<size_t>(random_() % bound); }

  void execute(Input input) {
    std::memset(blocks, 0, sizeof blocks);
    current = std::move(input);
    alarm(options_.timeout);
    LLVMFuzzerTestOneInput(current.data(), current.size());
    alarm(0);
    ++runs_;
  }

  void try_input(Input input) {
    execute(std::move(input));
    bool is_new = false;
    for (size_t i = 0; i < kPlaces; ++i) {
      if (blocks[i] == 0) continue;
      const auto bucket = static_cast<uint8_t>(1u << (31 - __builtin_clz(blocks[i])));
      if ((seen_[i] & bucket) != 0) continue;
      seen_[i] |= bucket;
      is_new = true;
      ++features_;
    }
    if (!is_new) return;
    corpus_.push_back(current);
    if (folder_.empty()) return;
    std::ofstream(folder_ / std::to_string(std::hash<std::string>{}(
                                std::string(current.begin(), current.end()))),
                  std::ios::binary)
        .write(reinterpret_cast<const char*>(current.data()),
               static_cast<std::streamsize>(current.size()));
  }

  Input mutated() {
    // Newer inputs reach rarer code: half of the choices are among the last.
    const size_t count = corpus_.size();
    const size_t recent = std::max<size_t>(1, count / 8);
    if (below(2) == 0) {
      Input few(8);
      for (uint8_t& byte : few) byte = static_cast<uint8_t>(random_());
      return few;
    }
    Input input = corpus_[below(2) == 0 ? below(count) : count - 1 - below(recent)];
    for (size_t changes = 1 + below(5); changes > 0; --changes) change(input);
    if (input.size() > options_.longest) input.resize(options_.longest);
    return input;
  }

  void change(Input& input) {
    const size_t at = input.empty() ? 0 : below(input.size());
    const size_t length = 1 + below(16);
    switch (input.empty() ? 0 : below(7)) {
      case 0:  // more
        for (size_t i = 0; i < 4 * length; ++i) input.push_back(static_cast<uint8_t>(random_()));
        break;
      case 1:
        input[at] = static_cast<uint8_t>(random_());
        break;
      case 2:
        input[at] ^= static_cast<uint8_t>(1u << below(8));
        break;
      case 3:
        input[at] = static_cast<uint8_t>(input[at] + below(9) - 4);
        break;
      case 4: {
        Input piece(length);
        for (uint8_t& byte : piece) byte = static_cast<uint8_t>(random_());
        input.insert(input.begin() + static_cast<long>(at), piece.begin(), piece.end());
        break;
      }
      case 5:
        input.erase(input.begin() + static_cast<long>(at),
                    input.begin() + static_cast<long>(std::min(input.size(), at + length)));
        break;
      default: {  // the rest of another input
        const Input& other = corpus_[below(corpus_.size())];
        input.resize(at);
        if (other.size() > at) {
          input.insert(input.end(), other.begin() + static_cast<long>(at), other.end());
        }
      }
    }
  }

  const Options options_;
  std::mt19937_64 random_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::filesystem::path folder_;
  std::vector<Input> corpus_;
  std::vector<uint8_t> seen_ = std::vector<uint8_t>(kPlaces);
  size_t features_ = 0;
  int64_t runs_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(on_death);
  signal(SIGABRT, on_abort);
  signal(SIGALRM, on_alarm);
  LLVMFuzzerInitialize(&argc, &argv);
  return Fuzzer(parse(argc, argv)).run();
}
