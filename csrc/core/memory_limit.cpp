#include "memory_limit.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <limits>

#if __has_include(<unistd.h>)
#include <unistd.h>
#endif

#include "myops/error.h"
#include "myops/memory.h"

namespace myops {
namespace {

constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

// 0 unless the text consists of digits and the number fits int64.
int64_t number_of_bytes(const std::string& text) {
  int64_t bytes = 0;
  for (const char digit : text) {
    const bool good = digit >= '0' && digit <= '9' && !__builtin_mul_overflow(bytes, 10, &bytes) &&
                      !__builtin_add_overflow(bytes, digit - '0', &bytes);
    if (!good) return 0;
  }
  return bytes;
}

// The limit in a cgroup file. Version 2 writes "max" for no limit, version 1 a number above any
// machine's memory.
int64_t read_limit(const std::string& path) {
  std::string word;
  std::ifstream(path) >> word;
  const int64_t bytes = number_of_bytes(word);
  return bytes > 0 ? bytes : kUnlimited;
}

// The smallest limit of a group and of its parent groups. A process in a container may see its
// group under the name that the host uses; then only the file of the root exists.
int64_t least_limit(const std::string& mounted, std::string group, const char* file) {
  int64_t least = kUnlimited;
  for (;;) {
    while (!group.empty() && group.back() == '/') group.pop_back();
    least = std::min(least, read_limit(mounted + group + "/" + file));
    if (group.empty()) return least;
    const size_t slash = group.rfind('/');
    group.resize(slash == std::string::npos ? 0 : slash);
  }
}

bool has_word(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}

int64_t machine_memory() {
#ifdef _SC_PHYS_PAGES
  const int64_t pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
  if (pages > 0 && size > 0) return pages * size;
#endif
  return kUnlimited;
}

int64_t decide_limit() {
  const char* given = std::getenv("MYOPS_MAX_BYTES");
  if (given == nullptr || *given == '\0') return std::min(machine_memory(), container_memory(""));
  const int64_t bytes = number_of_bytes(given);
  if (bytes == 0) {
    throw Error(str("MYOPS_MAX_BYTES: got ", quoted(given),
                    ", expected a number of bytes from 1 to ", kUnlimited,
                    ". Unset it to allow all memory of the machine or the container"));
  }
  return bytes;
}

}  // namespace

int64_t container_memory(const std::string& root) {
  int64_t least = kUnlimited;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {  // 4:cpu,memory:/a/group, or 0::/a/group
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1), mounted = root + "/sys/fs/cgroup";
    if (controllers.empty()) {
      least = std::min({least, least_limit(mounted, group, "memory.max"),
                        least_limit(mounted + "/unified", group, "memory.max")});
    } else if (has_word(controllers, "memory")) {
      for (const std::string& folder : {std::string("memory"), controllers}) {
        const std::string place = mounted + "/" + folder;
        least = std::min(least, least_limit(place, group, "memory.limit_in_bytes"));
      }
    }
  }
  return least;
}

int64_t max_bytes() {
  static const int64_t chosen = decide_limit();
  return chosen;
}

}  // namespace myops
