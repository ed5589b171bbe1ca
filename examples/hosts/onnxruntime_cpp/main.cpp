// Runs an ONNX model that holds our ops, with the official C++ API of ONNX Runtime.
//
//   run_onnx net.onnx libmyops_ort.so OUTPUT.npy INPUT.npy...
//
// With "-" in place of the library the model runs through its function bodies.
#include <onnxruntime_cxx_api.h>

#include <iostream>

#include "../npy.h"

namespace {

// Names of all inputs, or of all outputs.
template <typename Count, typename Name>
std::vector<std::string> names(Count count, Name name) {
  std::vector<std::string> found;
  for (size_t i = 0; i < count(); ++i) found.emplace_back(name(i).get());
  return found;
}

std::vector<const char*> pointers(const std::vector<std::string>& texts) {
  std::vector<const char*> found;
  for (const std::string& text : texts) found.push_back(text.c_str());
  return found;
}

}  // namespace

int main(int count, char** words) try {
  if (count < 5)
    throw std::runtime_error("usage: run_onnx MODEL LIBRARY|- OUTPUT.npy INPUT.npy...");
  Ort::Env env(ORT_LOGGING_LEVEL_WARNING, "run_onnx");
  Ort::SessionOptions options;
  if (std::string(words[2]) != "-") options.RegisterCustomOpsLibrary(words[2]);
  Ort::Session session(env, words[1], options);

  Ort::AllocatorWithDefaultOptions allocator;
  const auto inputs = names([&] { return session.GetInputCount(); },
                            [&](size_t i) { return session.GetInputNameAllocated(i, allocator); });
  const auto outputs =
      names([&] { return session.GetOutputCount(); },
            [&](size_t i) { return session.GetOutputNameAllocated(i, allocator); });
  if (inputs.size() != static_cast<size_t>(count - 4)) {
    throw std::runtime_error("the model has " + std::to_string(inputs.size()) + " inputs, got " +
                             std::to_string(count - 4) + " files");
  }
  const auto memory = Ort::MemoryInfo::CreateCpu(OrtArenaAllocator, OrtMemTypeDefault);
  std::vector<npy::Array> arrays;
  for (int i = 4; i < count; ++i) arrays.push_back(npy::read(words[i]));
  std::vector<Ort::Value> values;  // views of the arrays
  for (npy::Array& array : arrays) {
    values.push_back(Ort::Value::CreateTensor<float>(memory, array.data.data(), array.data.size(),
                                                     array.shape.data(), array.shape.size()));
  }
  const std::vector<Ort::Value> results =
      session.Run(Ort::RunOptions(), pointers(inputs).data(), values.data(), values.size(),
                  pointers(outputs).data(), outputs.size());
  const std::vector<int64_t> shape = results.at(0).GetTensorTypeAndShapeInfo().GetShape();
  npy::write(words[3], shape, results.at(0).GetTensorData<float>());
  std::cout << "ONNX Runtime " << Ort::GetVersionString() << ": " << outputs.at(0) << " in "
            << words[3] << "\n";
} catch (const std::exception& error) {
  std::cerr << "run_onnx: " << error.what() << "\n";
  return 1;
}
