// A stand-in for NVRTC: its output names the element type, for the stand-in of the driver.
// A line of a source with the word MISTAKE is an error. Each compilation adds a line to the file
// that
// FAKE_NVRTC_LOG names.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

struct FakeProgram {
  std::string name, source, log, code;
  bool is_text = false;  // compiled to PTX
};

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default")))

FAKE int nvrtcVersion(int* major, int* minor) {
  *major = 13;
  *minor = 0;
  return 0;
}
// FAKE_NVRTC_NEWEST: the newest GPU that it supports.
FAKE int nvrtcGetNumSupportedArchs(int* count) {
  *count = 5;
  return 0;
}
FAKE int nvrtcGetSupportedArchs(int* known) {
  const int all[] = {75, 80, 90, 100, 120};
  const char* newest = std::getenv("FAKE_NVRTC_NEWEST");
  for (int i = 0; i < 5; ++i) {
    known[i] = newest != nullptr && all[i] > std::atoi(newest) ? 75 : all[i];
  }
  return 0;
}
FAKE int nvrtcCreateProgram(FakeProgram** program, const char* source, const char* name, int count,
                            const char* const* headers, const char* const* names) {
  for (int i = 0; i < count; ++i) {
    if (headers[i] == nullptr || names[i] == nullptr) return 1;
  }
  *program = new FakeProgram{name, source, "", "", false};
  return 0;
}
FAKE int nvrtcCompileProgram(FakeProgram* program, int count, const char* const* options) {
  if (const char* file = std::getenv("FAKE_NVRTC_LOG")) {
    if (std::FILE* log = std::fopen(file, "a")) {
      std::fprintf(log, "%s\n", program->name.c_str());
      std::fclose(log);
    }
  }
  int line = 1;
  size_t begin = 0;
  for (size_t end; begin < program->source.size(); begin = end + 1, ++line) {
    end = program->source.find('\n', begin);
    if (end == std::string::npos) end = program->source.size();
    if (program->source.substr(begin, end - begin).find("MISTAKE") == std::string::npos) continue;
    program->log += program->name + "(" + std::to_string(line) + "): error: a mistake\n";
  }
  if (!program->log.empty()) return 6;
  for (int i = 0; i < count; ++i) {
    const char* text = "-DMYOPS_T=::myops::";
    program->is_text = program->is_text || std::strstr(options[i], "=compute_") != nullptr;
    if (std::strncmp(options[i], text, std::strlen(text)) == 0) {
      program->code = std::string("fake ") + (options[i] + std::strlen(text));
    }
  }
  program->code += '\0';
  return 0;
}
FAKE int nvrtcGetProgramLogSize(FakeProgram* program, size_t* size) {
  *size = program->log.size() + 1;
  return 0;
}
FAKE int nvrtcGetProgramLog(FakeProgram* program, char* log) {
  std::memcpy(log, program->log.c_str(), program->log.size() + 1);
  return 0;
}
FAKE int nvrtcGetPTXSize(FakeProgram* program, size_t* size) {
  *size = program->is_text ? program->code.size() : 0;
  return 0;
}
FAKE int nvrtcGetPTX(FakeProgram* program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return 0;
}
FAKE int nvrtcGetCUBINSize(FakeProgram* program, size_t* size) {
  *size = program->is_text ? 0 : program->code.size();
  return 0;
}
FAKE int nvrtcGetCUBIN(FakeProgram* program, char* code) {
  std::memcpy(code, program->code.data(), program->code.size());
  return 0;
}
FAKE int nvrtcDestroyProgram(FakeProgram** program) {
  delete *program;
  *program = nullptr;
  return 0;
}
