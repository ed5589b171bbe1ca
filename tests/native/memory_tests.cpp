// Scratch memory: aligned, reused by equal calls, never by two at a time. The limit of a container,
// from copies of cgroup file trees.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "../../csrc/core/memory_limit.h"
#include "checking.h"
#include "myops/error.h"
#include "myops/memory.h"

namespace {

using myops::Scratch;

bool aligned(const Scratch& memory) {
  return reinterpret_cast<uintptr_t>(memory.as<char>()) % 64 == 0;
}

void test_alignment() {
  for (const size_t bytes : {0, 1, 63, 64, 4096, 20000, 1 << 20, 5 << 20}) {
    const Scratch memory(bytes);
    expect(aligned(memory), "aligned to a cache line");
    std::fill_n(memory.as<char>(), bytes, 'x');  // sanitizers see a block that is too short
  }
}

void test_equal_blocks_are_reused() {
#if !MYOPS_TEST_ADDRESS_SANITIZER
  const auto place = [](size_t bytes) { return Scratch(bytes).as<char>(); };
  const char* const first = place(1 << 20);
  const Scratch beside(100);  // what malloc() alone would do is not what is tested
  expect(place(1 << 20) == first, "a block of the same size");
  expect(place((1 << 20) - 5000) == first, "a block that is little longer");
  const Scratch one(1 << 20), two(1 << 20);
  expect(one.as<char>() != two.as<char>(), "never for two at a time");
#endif
}

void test_threads() {
  std::vector<std::thread> threads;
  for (char name = 0; name < 4; ++name) {
    threads.emplace_back([name] {
      for (int round = 0; round < 200; ++round) {
        const size_t bytes = 20000 + static_cast<size_t>(round % 7) * 50000;
        const Scratch memory(bytes);
        std::fill_n(memory.as<char>(), bytes, name);
        bool own = true;
        for (size_t i = 0; i < bytes; i += 512) own = own && memory.as<char>()[i] == name;
        expect(own, "no other thread writes to it");
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// The limit of a process on a system with these files.
int64_t limit_of(const std::vector<std::pair<std::string, std::string>>& files) {
  namespace fs = std::filesystem;
  const fs::path root = fs::temp_directory_path() / myops::str("myops_memory_tests_", getpid());
  fs::remove_all(root);
  for (const auto& [path, content] : files) {
    fs::create_directories((root / path).parent_path());
    std::ofstream(root / path) << content;
  }
  const int64_t limit = myops::container_memory(root.string());
  fs::remove_all(root);
  return limit;
}

void test_limits_of_containers() {
  const std::string groups = "proc/self/cgroup", v2 = "sys/fs/cgroup", v1 = "sys/fs/cgroup/memory";
  const std::string file = "/memory.max", old_file = "/memory.limit_in_bytes";
  const auto is = [](int64_t got, int64_t expected, const std::string& what) {
    expect(got == expected, myops::str(what, ": got ", got, ", expected ", expected));
  };
  is(limit_of({}), kNone, "no files");
  is(limit_of({{groups, "0::/\n"}}), kNone, "no limits");
  is(limit_of({{groups, ""}, {v2 + file, "77\n"}}), kNone, "in no group");
  // Version 2: the limit of the group, of a parent, of the root.
  is(limit_of({{groups, "0::/a/b\n"}, {v2 + "/a/b" + file, "1000000\n"}}), 1000000, "its own");
  is(limit_of({{groups, "0::/a/b/c\n"},
               {v2 + "/a/b/c" + file, "max\n"},
               {v2 + "/a" + file, "2000000\n"},
               {v2 + "/other" + file, "5\n"}}),
     2000000, "of a parent");
  is(limit_of({{groups, "0::/a/b\n"},
               {v2 + "/a/b" + file, "3000000\n"},
               {v2 + "/a" + file, "2000000\n"},
               {v2 + file, "2500000\n"}}),
     2000000, "the least");
  is(limit_of({{groups, "0::/system.slice/docker-1f.scope\n"}, {v2 + file, "4000000\n"}}), 4000000,
     "a name from outside of the container");
  is(limit_of({{groups, "0::/../../job\n"}, {v2 + file, "4000000\n"}}), 4000000,
     "a name above the root");
  is(limit_of({{groups, "0::/\n"}, {v2 + file, "4000000"}}), 4000000, "the root, no end of line");
  // Version 1, alone and beside version 2; other controllers do not count.
  const std::string absurd = "9223372036854771712\n";
  is(limit_of({{groups, "12:cpu,cpuacct:/x\n4:memory:/job/1\n0::/\n"},
               {v1 + "/job/1" + old_file, absurd},
               {v1 + "/job" + old_file, "123456789\n"},
               {v1 + old_file, absurd},
               {v2 + "/cpu,cpuacct/x" + old_file, "7\n"}}),
     123456789, "version 1");
  is(limit_of({{groups, "4:memory:/job\n"}, {v1 + old_file, "99999999\n"}}), 99999999,
     "version 1, a name from outside");
  is(limit_of({{groups, "4:cpu,memory:/job\n"}, {v2 + "/cpu,memory/job" + old_file, "5555\n"}}),
     5555, "version 1, together with another controller");
  is(limit_of({{groups, "4:memory:/job\n0::/unit\n"},
               {v1 + "/job" + old_file, "600\n"},
               {v2 + "/unified/unit" + file, "500\n"}}),
     500, "both");
  is(limit_of({{groups, "4:memory_recursiveprot:/job\n"}, {v1 + "/job" + old_file, "600\n"}}),
     kNone, "another controller");
  // Contents that are not a limit.
  for (const char* text : {"max", "0", "-1", "", "12G", "18446744073709551616", "\n", "x"}) {
    is(limit_of({{groups, "0::/a\n"}, {v2 + "/a" + file, text}, {v2 + file, "800\n"}}), 800, text);
  }
  for (const char* lines : {"nonsense", "0:/a", ":::", "0::", "\n\n0::/a\n", "0::/a/", "0::a"}) {
    const int64_t limit = limit_of({{groups, lines}, {v2 + file, "800\n"}});
    is(limit, std::string(lines).find("::") == std::string::npos ? kNone : 800, lines);
  }
}

}  // namespace

int main() {
  test_limits_of_containers();
  test_alignment();
  test_equal_blocks_are_reused();
  test_threads();
  return finish("memory tests");
}
