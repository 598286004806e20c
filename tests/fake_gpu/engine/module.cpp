// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/engine/module.cpp: see module.h. Each load opens a new copy of the shared object.
#include "module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "settings.h"

namespace fake_gpu {
namespace {

#ifdef FAKE_GPU_ASAN
__attribute__((no_sanitize("address")))  // there are gaps between the variables
#endif
void fill_with_pattern(char* begin, char* end) {
  for (volatile char* byte = begin; byte != end; ++byte) {
    *byte = '\xcd';
  }
}

}  // namespace

Module::~Module() {
  if (library != nullptr) {
    dlclose(library);
  }
}

std::shared_ptr<Module> load_module(const void* image, int device) {
  ImageHeader header;
  std::memcpy(&header, image, sizeof(header));
  const char* bytes = static_cast<const char*>(image) + sizeof(header);
  if (header.magic != kImageMagic || hash_bytes(bytes, header.byte_count) != header.hash) {
    throw Error{kInvalidImage};
  }
  const std::string architecture(header.architecture.data(),
                                 strnlen(header.architecture.data(), header.architecture.size()));
  const std::string& own = architecture_of(device);
  const bool is_portable =
      architecture.rfind("compute_", 0) == 0 && std::stoi(architecture.substr(8)) <= std::stoi(own.substr(3));
  if (architecture != own && !is_portable) {
    throw Error{kNoBinaryForGpu};
  }
  std::string path = (std::filesystem::temp_directory_path() / "fake_gpu_kernels_XXXXXX").string();
  const int file = mkstemp(path.data());
  std::size_t written = 0;
  while (file >= 0 && written < header.byte_count) {
    const auto count = write(file, bytes + written, header.byte_count - written);
    if (count <= 0) {
      break;
    }
    written += static_cast<std::size_t>(count);
  }
  close(file);
  auto module = std::make_shared<Module>();
  module->device = device;
  module->library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  const char* reason = module->library == nullptr ? dlerror() : "";
  unlink(path.c_str());
  if (module->library == nullptr) {
    complain(std::string("the kernels cannot be loaded: ") + reason);
    throw Error{kInvalidImage};
  }
  module->table = static_cast<const fgpu_module*>(dlsym(module->library, "fgpu_kernels"));
  if (module->table == nullptr) {
    throw Error{kInvalidImage};
  }
  fill_with_pattern(module->table->zeroed_begin, module->table->zeroed_end);
  return module;
}

}  // namespace fake_gpu
