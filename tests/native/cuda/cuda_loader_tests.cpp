// Loading the driver and NVRTC, which are stand-ins here, and the cache of compiled kernels. Each
// check runs in a forked process, and this program itself loads nothing.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>

#include "../checking.h"
#include "cases.h"
#include "on_device.h"

using namespace fake_cuda;

namespace {

std::string refusal_of_add() {
  Random random(1);
  Case made("my_add");
  for (int i = 0; i < 2; ++i) made.add_numbers(random, DType::Float32, {4});
  return refusal_of(*made.op, made.inputs, made.attributes);
}

const char kWrong[] =
    "#include \"myops/device.h\"\n"
    "// the next line is a MISTAKE\n"
    "int\n";

void compute_wrong(KernelContext& context) {
  const cuda::File file{"wrong/kernels.h", kWrong, kWrong + sizeof kWrong - 1};
  cuda::Gpu(context, {file}, DType::Float32).launch("wrong", 1, 0);
}

void compute_unknown(KernelContext& context) {
  static const char text[] = "// nothing\n";
  const cuda::File file{"unknown/kernels.h", text, text + sizeof text - 1};
  cuda::Gpu(context, {file}, DType::Float32).launch("unknown", 1, 0);
}

std::string refusal_with(void (*kernel)(KernelContext&)) {
  Op op = *find_op("my_add");
  op.compute_cuda = kernel;
  Random random(1);
  Case made("my_add");
  for (int i = 0; i < 2; ++i) made.add_numbers(random, DType::Float32, {4});
  return refusal_of(op, made.inputs, made.attributes);
}

void in_new_process(const char* what, const std::function<void()>& body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    body();
    std::fflush(stdout);
    _exit(failures == 0 ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, what);
}

void expect_text(const std::string& got, const std::string& expected) {
  expect(got.find(expected) != std::string::npos,
         str("got \"", got, "\", expected \"", expected, "\""));
}

void test_loader() {
  in_new_process("no driver", [] {
    setenv("MYOPS_CUDA_DRIVER", "/nonexistent/libcuda.so.1", 1);
    expect_text(refusal_of_add(), "my_add: CUDA: got no driver (/nonexistent/libcuda.so.1");
    expect_text(refusal_of_add(), "expected an NVIDIA driver");  // the second call says so too
  });
  in_new_process("an old driver", [] {
    setenv("FAKE_CUDA_VERSION", "10020", 1);
    expect_text(refusal_of_add(),
                "my_add: CUDA: got a driver for CUDA 10.2, expected one for 11.0 or later");
  });
  in_new_process("no GPU", [] {
    setenv("FAKE_CUDA_INIT", "100", 1);
    expect_text(refusal_of_add(),
                "my_add: CUDA: got a driver that does not start, CUDA_ERROR_NO_DEVICE (100)");
  });
  in_new_process("a library that is no driver", [] {
    setenv("MYOPS_CUDA_DRIVER", FAKE_NVRTC, 1);
    expect_text(refusal_of_add(), "my_add: CUDA: got a driver without cuInit");
  });
  in_new_process("no compiler", [] {
    setenv("MYOPS_NVRTC", "/nonexistent/libnvrtc.so", 1);
    expect_text(refusal_of_add(),
                "my_add: CUDA: got no NVRTC, the compiler of CUDA sources (tried "
                "/nonexistent/libnvrtc.so), expected one: pip install nvidia-cuda-nvrtc");
  });
  in_new_process("a GPU that is newer than the compiler", [] {
    setenv("FAKE_NVRTC_NEWEST", "90", 1);
    setenv("FAKE_CUDA_ARCHITECTURE", "120", 1);
    expect(refusal_of_add().empty(), refusal_of_add());  // compiled to PTX for sm_90
  });
  in_new_process("a GPU that is older than the compiler", [] {
    setenv("FAKE_CUDA_ARCHITECTURE", "52", 1);
    expect_text(refusal_of_add(),
                "my_add: CUDA: got a GPU of architecture 52, expected one of those that NVRTC 13.0 "
                "compiles for, [75, 80, 90, 100, 120]");
  });
  in_new_process("a first call while a graph is captured", [] {
    control<void(int)>("fake_capture")(1);
    expect_text(refusal_of_add(),
                "my_add: CUDA: got the first call for float32 while a CUDA graph is captured, "
                "expected one before");
    control<void(int)>("fake_capture")(0);
    expect(refusal_of_add().empty(), "a call before");
    control<void(int)>("fake_capture")(1);
    expect(refusal_of_add().empty(), "and one that is captured");
  });
  in_new_process("a first call while another thread captures a graph", [] {
    control<void(int)>("fake_capture")(2);
    expect(refusal_of_add().empty(), refusal_of_add());
    expect(control<int()>("fake_capture_mode")() == 0, "the mode that was there before");
  });
  in_new_process("a device that has failed", [] {
    setenv("FAKE_CUDA_LAUNCH", "700", 1);
    const std::string text = refusal_of_add();
    expect_text(text, "my_add: CUDA: got CUDA_ERROR_OTHER (700)");
    expect_text(text, "from launching kernel my_add");
    expect_text(text, "Work that was queued earlier, by this op or another, may have failed");
  });
  in_new_process("a process that was forked", [] {
    setenv("FAKE_CUDA_LAUNCH", "3", 1);
    expect_text(refusal_of_add(), "A process that was forked from one that uses a GPU");
  });
  in_new_process("a mistake in a source", [] {
    const std::string text = refusal_with(compute_wrong);
    expect_text(text, "my_add: CUDA source wrong/kernels.h: got mistakes for sm_90 and float32_t");
    expect_text(text, "wrong/kernels.h(2): error: a mistake");
  });
  in_new_process("a kernel that is not in its source", [] {
    expect_text(
        refusal_with(compute_unknown),
        "my_add: CUDA: got CUDA_ERROR_OTHER (500): a fault that the test wants from looking "
        "for kernel unknown, expected success");
  });
}

// The next process finds what a process has compiled; a damaged entry is compiled again.
void test_cache() {
  char folder[] = "/tmp/myops-cuda-XXXXXX";
  expect(mkdtemp(folder) != nullptr, "a folder");
  const std::string place = folder, log = place + "/log";
  setenv("MYOPS_CUDA_CACHE", (place + "/a/b").c_str(), 1);
  setenv("FAKE_NVRTC_LOG", log.c_str(), 1);
  const auto compilations = [&] {
    std::ifstream stream(log);
    int lines = 0;
    for (std::string line; std::getline(stream, line);) ++lines;
    return lines;
  };
  const auto run = [&](int expected, const char* what) {
    in_new_process(what, [] { expect(refusal_of_add().empty(), refusal_of_add()); });
    expect(compilations() == expected, str(what, ": compiled ", compilations(), " times"));
  };
  run(1, "the first process");
  run(1, "the second process");
  setenv("FAKE_CUDA_ARCHITECTURE", "120", 1);
  run(2, "another GPU");
  unsetenv("FAKE_CUDA_ARCHITECTURE");
  setenv("FAKE_CUDA_VERSION", "13010", 1);
  run(3, "another driver");
  unsetenv("FAKE_CUDA_VERSION");
  const std::string damage = "for file in " + place + "/a/b/*; do printf x >> $file; done";
  expect(std::system(damage.c_str()) == 0, "damage");
  run(4, "a damaged entry");
  run(4, "an entry that was made again");
  const std::string open = "chmod 666 " + place + "/a/b/*.cubin";
  expect(std::system(open.c_str()) == 0, "permissions");
  run(5, "an entry that anybody could have written");
  run(5, "an entry that was made again for this reason");
  const std::string rest = "test -z \"$(find " + place + "/a/b -type f ! -name '*.cubin')\"";
  expect(std::system(rest.c_str()) == 0, "nothing but entries is left in the folder");
  setenv("MYOPS_CUDA_CACHE", "", 1);
  run(6, "no folder");
  setenv("MYOPS_CUDA_CACHE", "/proc/nowhere", 1);
  run(7, "a folder that cannot be made");
  expect(std::system(("rm -r " + place).c_str()) == 0, "removal");
  unsetenv("FAKE_NVRTC_LOG");
  setenv("MYOPS_CUDA_CACHE", "", 1);
}

}  // namespace

int main() {
  setenv("MYOPS_CUDA_DRIVER", FAKE_DRIVER, 1);
  setenv("MYOPS_NVRTC", FAKE_NVRTC, 1);
  setenv("MYOPS_CUDA_CACHE", "", 1);
  test_loader();
  test_cache();
  return finish("tests of loading CUDA");
}
