// Compiled sources on disk. The name of an entry is a hash of everything on which its code depends.
// The entry contains the text that was hashed, to detect collisions, and a checksum of its code.
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "compiler.h"
#include "myops/error.h"

namespace myops::cuda {
namespace {

constexpr const char* kFormat = "myops cuda 1\n";

uint64_t hash(const std::string& text, uint64_t seed) {  // FNV-1a, with the high bits mixed in
  uint64_t value = 14695981039346656037u ^ seed;
  for (const char letter : text) {
    value = (value ^ static_cast<unsigned char>(letter)) * 1099511628211u;
    value ^= value >> 29;
  }
  return value;
}

std::string hash_text(const std::string& text) {
  char digits[33];
  std::snprintf(digits, sizeof digits, "%016llx%016llx",
                static_cast<unsigned long long>(hash(text, 0)),
                static_cast<unsigned long long>(hash(text, 0x9e3779b97f4a7c15u)));
  return digits;
}

// Every byte on which the code depends.
std::string key_of(const Request& request, const std::string& compiler, int driver_version) {
  std::string key = str("NVRTC ", compiler, ", driver ", driver_version, ", architecture ",
                        request.architecture, "\n");
  for (const std::string& option : options(request)) key += option + "\n";
  std::vector<File> files = standard_files();
  files.insert(files.end(), request.source.headers.begin(), request.source.headers.end());
  files.push_back(request.source.main);
  for (const File& file : files) {
    key += str(file.name, " ", file.end - file.begin, "\n", std::string(file.begin, file.end));
  }
  return key;
}

std::string folder() {
  if (const char* wanted = std::getenv("MYOPS_CUDA_CACHE")) return wanted;
  const char* cache = std::getenv("XDG_CACHE_HOME");
  if (cache != nullptr && *cache != '\0') return std::string(cache) + "/myops/cuda";
  const char* home = std::getenv("HOME");
  return home != nullptr && *home != '\0' ? std::string(home) + "/.cache/myops/cuda" : "";
}

bool make_folders(const std::string& path) {
  for (size_t place = 1; place != std::string::npos;) {
    place = path.find('/', place);
    const std::string part = path.substr(0, place);
    if (mkdir(part.c_str(), 0700) != 0 && access(part.c_str(), X_OK) != 0) return false;
    if (place != std::string::npos) ++place;
  }
  return true;
}

std::string head_of(const std::string& key, const std::string& code) {
  return str(kFormat, key.size(), " ", code.size(), " ", hash_text(code), "\n", key);
}

// Code that another user could have put there is not loaded into this process.
bool is_ours(const std::string& file) {
  struct stat status{};
  if (stat(file.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  const bool owned = status.st_uid == geteuid() || status.st_uid == 0;
  return owned && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

// Empty where there is no such entry, or only a part of it.
std::string read_entry(const std::string& file, const std::string& key) {
  if (!is_ours(file)) return {};
  std::ifstream stream(file, std::ios::binary);
  if (!stream) return {};
  std::ostringstream all;
  all << stream.rdbuf();
  const std::string content = all.str();
  const size_t place = content.find(key, 0);
  if (place == std::string::npos) return {};
  const std::string code = content.substr(place + key.size());
  return content.compare(0, place + key.size(), head_of(key, code)) == 0 ? code : std::string();
}

// Written under a temporary name first, because other processes, and other libraries of this one,
// write the same entry. A folder that cannot be written to is no error: the next process compiles
// again.
void write_entry(const std::string& file, const std::string& key, const std::string& code) {
  std::string temporary = file + ".XXXXXX";
  const int descriptor = mkstemp(temporary.data());
  if (descriptor < 0) return;
  const std::string content = head_of(key, code) + code;
  size_t written = 0;
  while (written < content.size()) {
    const ssize_t now = write(descriptor, content.data() + written, content.size() - written);
    if (now <= 0) break;
    written += static_cast<size_t>(now);
  }
  bool whole = written == content.size() && fchmod(descriptor, 0644) == 0;
  whole = close(descriptor) == 0 && whole;
  if (!whole || std::rename(temporary.c_str(), file.c_str()) != 0) {
    (void)std::remove(temporary.c_str());
  }
}

}  // namespace

std::string compiled(const std::string& op, const Request& request, int driver_version) {
  const std::string place = folder();
  if (place.empty()) return compile(op, request, driver_version);
  const std::string key = key_of(request, compiler_version(op, driver_version), driver_version);
  const std::string file = str(place, "/", hash_text(key), ".cubin");
  std::string code = read_entry(file, key);
  if (!code.empty()) return code;
  code = compile(op, request, driver_version);
  if (make_folders(place)) write_entry(file, key, code);
  return code;
}

}  // namespace myops::cuda
