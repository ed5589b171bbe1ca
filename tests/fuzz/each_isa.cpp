// Runs the fuzzer once with each instruction set of this CPU, alternately with and without
// non-temporal stores, with a new seed each time:
//
//   each_isa fuzz_ops [-seed=N] [OPTION...]
//
// A run that fails is the last one, and the command that repeats it is printed.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "myops/isa.h"

namespace {

int run(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    execv(arguments[0], arguments.data());
    std::perror(arguments[0]);
    _exit(127);
  }
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return 1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  const bool best = !words.empty() && words[0] == "--best";
  if (best) words.erase(words.begin());
  if (words.empty()) {
    std::fprintf(stderr, "usage: %s [--best] fuzz_ops [-seed=N] [OPTION...]\n", argv[0]);
    return 2;
  }
  uint32_t seed = std::random_device()();
  for (size_t i = words.size(); i-- > 1;) {
    if (words[i].rfind("-seed=", 0) != 0) continue;
    seed = static_cast<uint32_t>(std::strtoul(words[i].c_str() + 6, nullptr, 10));
    words.erase(words.begin() + static_cast<long>(i));
  }
  words.push_back("-seed=" + std::to_string(seed));
  const char* streams = seed % 2 == 0 ? "0" : "1";
  std::vector<myops::Isa> isas = myops::available_isas();
  if (best) isas.resize(1);
  for (const myops::Isa isa : isas) {
    setenv("MYOPS_ISA", myops::isa_name(isa), 1);
    setenv("MYOPS_STREAMING_STORES", streams, 1);
    std::string command =
        std::string("MYOPS_ISA=") + myops::isa_name(isa) + " MYOPS_STREAMING_STORES=" + streams;
    for (const std::string& word : words) command += " " + word;
    std::fprintf(stderr, "%s\n", command.c_str());
    if (run(words) == 0) continue;
    std::fprintf(stderr, "FAILED. To repeat it: %s\n", command.c_str());
    return 1;
  }
  return 0;
}
