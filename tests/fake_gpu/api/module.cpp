// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/module.cpp: modules, functions and launches.
#include "module.h"

#include <cstring>

#include "context.h"

namespace fake_gpu {
namespace {

constexpr unsigned kMaxThreads = 1024;
constexpr unsigned kMaxArgumentBytes = kHip ? 4096 : 32764;

Objects<Module>& modules() {
  static auto* const all = new Objects<Module>("module", 0x55);
  return *all;
}

// A module's functions live as long as the module.
Objects<Function>& functions() {
  static auto* const all = new Objects<Function>("function", 0x56);
  return *all;
}

[[noreturn]] void refuse(const fgpu_kernel& kernel, const std::string& reason, int code) {
  complain(std::string("launch of kernel ") + kernel.name + ": " + reason);
  throw Error{code};
}

constexpr unsigned kSharedBytes = kHip ? 64 * 1024 : 48 * 1024;

void check_shape(const Function& function, const Shape& shape) {
  const fgpu_kernel& kernel = *function.kernel;
  const std::uint64_t threads = std::uint64_t{shape.block[0]} * shape.block[1] * shape.block[2];
  for (unsigned axis = 0; axis < 3; ++axis) {
    if (shape.grid[axis] == 0 || shape.block[axis] == 0) {
      refuse(kernel, "a size of the grid or of the block is 0", kInvalidValue);
    }
    if (kHip ? std::uint64_t{shape.grid[axis]} * shape.block[axis] > 0xffffffffU
             : shape.grid[axis] > (axis == 0 ? 0x7fffffffU : 65535U)) {
      refuse(
          kernel,
          "the grid has " + std::to_string(shape.grid[axis]) + " blocks along axis " + std::to_string(axis),
          kInvalidValue);
    }
  }
  if (threads > kMaxThreads || shape.block[2] > (kHip ? kMaxThreads : 64U)) {
    refuse(kernel, "a block of " + std::to_string(threads) + " threads is too large", kInvalidValue);
  }
  if (kernel.max_threads != 0 && threads > kernel.max_threads) {
    refuse(kernel,
           std::to_string(threads) + " threads a block, but its launch bounds allow " +
               std::to_string(kernel.max_threads),
           kLaunchOutOfResources);
  }
  if (shape.shared_bytes > function.shared_bytes) {
    refuse(kernel,
           std::to_string(shape.shared_bytes) + " bytes of shared memory, but a block has " +
               std::to_string(function.shared_bytes),
           kInvalidValue);
  }
}

// The values of a launch's parameters, copied when it is queued.
struct Arguments {
  std::vector<unsigned long long> bytes;
  std::vector<void*> pointers;
};

std::shared_ptr<Arguments> copy_arguments(const fgpu_kernel& kernel, void** parameters,
                                          std::vector<Range>& ranges) {
  auto result = std::make_shared<Arguments>();
  unsigned total = 0;
  for (unsigned i = 0; i < kernel.argument_count; ++i) {
    total += (kernel.argument_sizes[i] + 7) / 8 * 8;
  }
  if (total > kMaxArgumentBytes) {
    refuse(kernel,
           std::to_string(total) + " bytes of arguments, at most " + std::to_string(kMaxArgumentBytes),
           kInvalidValue);
  }
  if (parameters == nullptr && kernel.argument_count != 0) {
    refuse(kernel, "it has parameters, but the launch has none", kInvalidValue);
  }
  result->bytes.resize(total / 8);
  std::size_t at = 0;
  for (unsigned i = 0; i < kernel.argument_count; ++i) {
    std::memcpy(&result->bytes[at], parameters[i], kernel.argument_sizes[i]);
    result->pointers.push_back(&result->bytes[at]);
    if (kernel.is_pointer[i] != 0 && result->bytes[at] != 0) {
      ranges.push_back({result->bytes[at], 0});
    }
    at += (kernel.argument_sizes[i] + 7) / 8;
  }
  return result;
}

}  // namespace

int fake_module_load(void** handle, const void* image) {
  return run_on_device("module_load", [&](int device) {
    refuse_during_capture("module_load");
    *handle = modules().add(load_module(image, device));
  });
}

int fake_module_unload(void* handle) {
  return run_to_free("module_unload", [&] {
    const auto module = modules().remove(handle);
    functions().remove_if([&](const Function& function) { return function.module.lock() == module; });
    if (module.use_count() > 1 && device_at(module->device).error == 0) {  // queued work or a graph holds it
      complain("a module is unloaded while queued work or a graph uses it");
    }
  });
}

int fake_module_function(void** handle, void* module_handle, const char* name) {
  return run_on_device("module_function", [&](int) {
    const auto module = modules().get(module_handle);
    for (unsigned i = 0; i < module->table->kernel_count; ++i) {
      if (std::strcmp(module->table->kernels[i].name, name) == 0) {
        *handle = functions().add(std::make_shared<Function>(
            Function{module->device, module, &module->table->kernels[i], kSharedBytes}));
        return;
      }
    }
    throw Error{kNotFound};
  });
}

#ifndef FAKE_GPU_HIP
int fake_function_attribute(void* handle, int attribute, int value) {
  return run_on_device("function_attribute", [&](int device) {
    constexpr int kMostDynamicShared = 8;
    const auto function = functions().get(handle);
    if (attribute != kMostDynamicShared || function->device != device) {
      complain("attribute " + std::to_string(attribute) + " of functions is not modeled");
      throw Error{kInvalidValue};
    }
    if (value < 0 || value > most_shared_bytes(device)) {
      refuse(*function->kernel, std::to_string(value) + " bytes of shared memory are too many",
             kInvalidValue);
    }
    function->shared_bytes = static_cast<unsigned>(value);
  });
}
#endif

int fake_launch(void* handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                unsigned block_y, unsigned block_z, unsigned shared_bytes, void* stream_handle,
                void** parameters, void** extra) {
  return run_on_device("launch", [&](int) {
    const auto function = functions().get(handle);
    auto module = function->module.lock();
    if (module == nullptr || stream_handle == nullptr || extra != nullptr) {
      complain(
          "a launch on the default stream, with `extra`, or during the unload of its module is not modeled");
      throw Error{kInvalidHandle};
    }
    const auto stream = streams().get(stream_handle);
    throw_sticky(stream->device);
    const fgpu_kernel& kernel = *function->kernel;
    if (stream->device != function->device) {
      refuse(kernel, "the stream is of another device", kInvalidHandle);
    }
    const Shape shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    check_shape(*function, shape);
    Work work = {.name = "kernel"};
    auto arguments = copy_arguments(kernel, parameters, work.ranges);
    work.run = [=, &kernel, owner = module.get()] {
      run_grid(*owner, kernel, shape, arguments->pointers.data());
    };
    work.uses = std::move(module);
    stream->push(std::move(work));
  });
}

}  // namespace fake_gpu
