// Reads and writes .npy files of little-endian float32 in C order: the little of the format that
// these examples exchange with Python.
#pragma once

#include <cstdint>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace npy {

struct Array {
  std::vector<int64_t> shape;
  std::vector<float> data;
};

inline Array read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  unsigned char start[10];
  if (!file.read(reinterpret_cast<char*>(start), 10) || start[0] != 0x93 || start[6] != 1) {
    throw std::runtime_error(path + ": expected a .npy file of version 1");
  }
  std::string header(start[8] + 256 * start[9], '\0');
  file.read(header.data(), header.size());
  // {'descr': '<f4', 'fortran_order': False, 'shape': (3, 2, 12, 9), }
  const size_t open = header.find("'shape': (");
  if (header.find("'<f4'") == std::string::npos || open == std::string::npos ||
      header.find("'fortran_order': False") == std::string::npos) {
    throw std::runtime_error(path + ": got " + header + ", expected float32 in C order");
  }
  Array array;
  size_t count = 1;
  for (size_t at = open + 10; header[at] != ')';) {
    size_t used = 0;
    array.shape.push_back(std::stoll(header.substr(at), &used));
    count *= array.shape.back();
    at = header.find_first_of("0123456789)", at + used);
  }
  array.data.resize(count);
  if (!file.read(reinterpret_cast<char*>(array.data.data()), count * sizeof(float))) {
    throw std::runtime_error(path + ": the end is missing");
  }
  return array;
}

inline void write(const std::string& path, const std::vector<int64_t>& shape, const float* data) {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  size_t count = 1;
  for (int64_t length : shape) {
    header += std::to_string(length) + ",";
    count *= length;
  }
  header += "), }";
  header += std::string(63 - (header.size() + 10) % 64, ' ') + "\n";  // data begins at 64 * n
  std::ofstream file(path, std::ios::binary);
  file.write("\x93NUMPY\x01\x00", 8);
  file.put(header.size() % 256).put(header.size() / 256);
  file.write(header.data(), header.size());
  file.write(reinterpret_cast<const char*>(data), count * sizeof(float));
  if (!file) throw std::runtime_error(path + ": cannot be written");
}

}  // namespace npy
