// Runs a TorchScript file or an AOTInductor package that holds our ops, without Python.
//
//   run_torch net.ts|net.pt2 libmyops_torch.so OUTPUT.npy INPUT.npy...
#include <dlfcn.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/script.h>

#include <iostream>

#include "../npy.h"

namespace {

// The library registers its ops with torch's dispatcher while it is loaded, and must stay loaded.
// That has to happen before a model that names the ops is read.
void load_ops(const char* library) {
  if (dlopen(library, RTLD_NOW | RTLD_LOCAL) == nullptr) throw std::runtime_error(dlerror());
}

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::vector<at::Tensor> run(const std::string& model, std::vector<at::Tensor> inputs) {
  if (ends_with(model, ".pt2")) {
    torch::inductor::AOTIModelPackageLoader package(model);
    return package.run(inputs);
  }
  torch::jit::Module module = torch::jit::load(model);
  return {module.forward({inputs.begin(), inputs.end()}).toTensor()};
}

}  // namespace

int main(int count, char** words) try {
  if (count < 5) throw std::runtime_error("usage: run_torch MODEL LIBRARY OUTPUT.npy INPUT.npy...");
  load_ops(words[2]);
  std::vector<npy::Array> arrays;
  for (int i = 4; i < count; ++i) arrays.push_back(npy::read(words[i]));
  std::vector<at::Tensor> inputs;  // views of the arrays
  for (npy::Array& array : arrays)
    inputs.push_back(torch::from_blob(array.data.data(), array.shape));

  torch::NoGradGuard no_grad;
  const at::Tensor output = run(words[1], inputs).at(0).contiguous();
  npy::write(words[3], output.sizes().vec(), output.const_data_ptr<float>());
  std::cout << words[1] << ": " << output.sizes() << " in " << words[3] << "\n";
} catch (const std::exception& error) {
  std::cerr << "run_torch: " << error.what() << "\n";
  return 1;
}
