#include "compiler.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "myops/error.h"

namespace myops::cuda {
namespace {

using Program = struct ProgramOpaque*;
using Status = int;  // 0: success

// clang-format off
#define MYOPS_NVRTC_CALLS(call)                                                                \
  call(nvrtcVersion, int* major, int* minor)                                                   \
  call(nvrtcCreateProgram, Program*, const char* source, const char* name, int count,          \
       const char* const* headers, const char* const* names)                                   \
  call(nvrtcCompileProgram, Program, int count, const char* const* options)                    \
  call(nvrtcGetProgramLogSize, Program, size_t*)                                               \
  call(nvrtcGetProgramLog, Program, char*)                                                     \
  call(nvrtcGetCUBINSize, Program, size_t*)                                                    \
  call(nvrtcGetCUBIN, Program, char*)                                                          \
  call(nvrtcGetPTXSize, Program, size_t*)                                                      \
  call(nvrtcGetPTX, Program, char*)                                                            \
  call(nvrtcGetNumSupportedArchs, int*)                                                        \
  call(nvrtcGetSupportedArchs, int*)                                                           \
  call(nvrtcDestroyProgram, Program*)
// clang-format on

struct Nvrtc {
#define MYOPS_NVRTC_MEMBER(name, ...) Status (*name)(__VA_ARGS__) = nullptr;
  MYOPS_NVRTC_CALLS(MYOPS_NVRTC_MEMBER)
#undef MYOPS_NVRTC_MEMBER
  std::string version;
  std::string failure;  // why there is none
};

// The folders of Python packages from which this process has loaded libraries. pip installs NVRTC
// there for PyTorch and ONNX Runtime, in nvidia/<package>/lib.
std::vector<std::string> package_folders() {
  std::vector<std::string> folders;
  const auto visit = [](dl_phdr_info* info, size_t, void* found) {
    const std::string path = info->dlpi_name;
    for (const char* name : {"/site-packages/", "/dist-packages/"}) {
      const size_t place = path.find(name);
      if (place == std::string::npos) continue;
      const std::string folder = path.substr(0, place) + name;
      auto& all = *static_cast<std::vector<std::string>*>(found);
      bool known = false;
      for (const std::string& other : all) known = known || other == folder;
      if (!known) all.push_back(folder);
    }
    return 0;
  };
  dl_iterate_phdr(visit, &folders);
  return folders;
}

// Files to try, in this order: NVRTC of the driver's CUDA version, then older versions, whose code
// the driver runs too, then newer ones.
std::vector<std::string> candidates(int driver_version) {
  const char* wanted = std::getenv("MYOPS_NVRTC");
  if (wanted != nullptr && *wanted != '\0') return {wanted};
  constexpr int kOldest = 11, kNewest = 14;
  std::vector<int> versions;
  const int own = std::clamp(driver_version / 1000, kOldest, kNewest);
  for (int version = own; version >= kOldest; --version) versions.push_back(version);
  for (int version = own + 1; version <= kNewest; ++version) versions.push_back(version);
  const std::vector<std::string> folders = package_folders();
  std::vector<std::string> files;
  for (const int version : versions) {
    const std::string name = str("libnvrtc.so.", version == 11 ? "11.2" : str(version));
    files.push_back(name);
    for (const std::string& folder : folders) {
      glob_t matches{};
      if (glob((folder + "nvidia/*/lib/" + name).c_str(), 0, nullptr, &matches) == 0) {
        for (size_t i = 0; i < matches.gl_pathc; ++i) files.emplace_back(matches.gl_pathv[i]);
      }
      globfree(&matches);
    }
  }
  files.emplace_back("libnvrtc.so");
  return files;
}

Nvrtc load(int driver_version) {
  Nvrtc found;
  void* library = nullptr;
  std::string tried;
  for (const std::string& file : candidates(driver_version)) {
    library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) break;
    tried += (tried.empty() ? "" : ", ") + file;
  }
  if (library == nullptr) {
    found.failure = str("no NVRTC, the compiler of CUDA sources (tried ", tried,
                        "), expected one: pip install nvidia-cuda-nvrtc, or name its file in "
                        "MYOPS_NVRTC");
    return found;
  }
#define MYOPS_NVRTC_LOAD(name, ...)                                                    \
  found.name = reinterpret_cast<decltype(found.name)>(dlsym(library, #name));          \
  if (found.name == nullptr && found.failure.empty()) {                                \
    found.failure = "an NVRTC without " #name ", expected that of CUDA 11.2 or later"; \
  }
  MYOPS_NVRTC_CALLS(MYOPS_NVRTC_LOAD)
#undef MYOPS_NVRTC_LOAD
  if (!found.failure.empty()) return found;
  int major = 0, minor = 0;
  (void)found.nvrtcVersion(&major, &minor);
  found.version = str(major, ".", minor);
  return found;
}

const Nvrtc& nvrtc(const std::string& op, int driver_version) {
  static const Nvrtc loaded = load(driver_version);
  if (!loaded.failure.empty()) throw Error(str(op, ": CUDA: got ", loaded.failure));
  return loaded;
}

// The architecture for which a source is compiled.
struct Target {
  std::string name;  // sm_90
  bool is_text;      // PTX of an older architecture, which the driver translates for the GPU
};

Target target_for(const Nvrtc& compiler, const std::string& op, const Request& request) {
  int count = 0;
  std::vector<int> known;
  if (compiler.nvrtcGetNumSupportedArchs(&count) == 0 && count > 0) {
    known.resize(static_cast<size_t>(count));
    if (compiler.nvrtcGetSupportedArchs(known.data()) != 0) known.clear();
  }
  int best = 0;
  for (const int each : known) {
    if (each <= request.architecture) best = std::max(best, each);
  }
  if (best == 0) {
    throw Error(str(op, ": CUDA: got a GPU of architecture ", request.architecture,
                    ", expected one of those that NVRTC ", compiler.version, " compiles for, ",
                    known));
  }
  if (best == request.architecture) return {str("sm_", best), false};
  return {str("compute_", best), true};
}

std::string log_of(const Nvrtc& compiler, Program program) {
  size_t size = 0;
  if (compiler.nvrtcGetProgramLogSize(program, &size) != 0 || size < 2) return "no message";
  std::string log(size, '\0');
  (void)compiler.nvrtcGetProgramLog(program, log.data());
  log.resize(size - 1);  // without the zero at its end
  return log;
}

}  // namespace

std::string compiler_version(const std::string& op, int driver_version) {
  return nvrtc(op, driver_version).version;
}

std::vector<std::string> options(const Request& request) {
  return {
      "--std=c++17",
      "--device-as-default-execution-space",
      // The same arithmetic as on the CPU: no fused, flushed or approximate operations.
      "--fmad=false",
      "--ftz=false",
      "--prec-div=true",
      "--prec-sqrt=true",
      str("-DMYOPS_T=::myops::", request.element),
      "-DMYOPS_A=::myops::Accumulate<MYOPS_T>",
  };
}

std::string compile(const std::string& op, const Request& request, int driver_version) {
  const Nvrtc& compiler = nvrtc(op, driver_version);
  const auto text = [](const File& file) { return std::string(file.begin, file.end); };
  std::vector<std::string> texts;
  std::vector<const char*> names, headers, flags;
  std::vector<File> files = standard_files();
  files.insert(files.end(), request.source.headers.begin(), request.source.headers.end());
  for (const File& file : files) {
    texts.push_back(text(file));
    names.push_back(file.name);
  }
  for (const std::string& each : texts) headers.push_back(each.c_str());
  const Target target = target_for(compiler, op, request);
  std::vector<std::string> wanted = options(request);
  wanted.push_back("--gpu-architecture=" + target.name);
  for (const std::string& flag : wanted) flags.push_back(flag.c_str());

  const std::string main = text(request.source.main);
  Program program = nullptr;
  if (const Status status = compiler.nvrtcCreateProgram(
          &program, main.c_str(), request.source.main.name, static_cast<int>(names.size()),
          headers.data(), names.data())) {
    throw Error(
        str(op, ": CUDA: got error ", status, " from nvrtcCreateProgram, expected success"));
  }
  const auto destroy = [&](ProgramOpaque* made) { (void)compiler.nvrtcDestroyProgram(&made); };
  const std::unique_ptr<ProgramOpaque, decltype(destroy)> owner(program, destroy);
  if (compiler.nvrtcCompileProgram(program, static_cast<int>(flags.size()), flags.data()) != 0) {
    throw Error(str(op, ": CUDA source ", request.source.main.name, ": got mistakes for ",
                    target.name, " and ", request.element, ", expected CUDA C++ that NVRTC ",
                    compiler.version, " compiles:\n", log_of(compiler, program)));
  }
  size_t size = 0;
  std::string code;
  const auto get_size = target.is_text ? compiler.nvrtcGetPTXSize : compiler.nvrtcGetCUBINSize;
  const auto get = target.is_text ? compiler.nvrtcGetPTX : compiler.nvrtcGetCUBIN;
  if (get_size(program, &size) == 0 && size > 0) {
    code.resize(size);
    if (get(program, code.data()) != 0) code.clear();
  }
  if (code.empty()) {
    throw Error(str(op, ": CUDA source ", request.source.main.name, ": got no code for ",
                    target.name, " from NVRTC ", compiler.version, ", expected some"));
  }
  return code;
}

}  // namespace myops::cuda
