// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/memory.cpp: allocations, pinned memory, copies and fills.
#include <cstring>

#include "context.h"

namespace fake_gpu {
namespace {

Address address_of(const void* memory) {
  return reinterpret_cast<Address>(memory);
}

std::shared_ptr<Stream> usable_stream(void* handle) {
  auto stream = stream_of(handle);
  throw_sticky(stream->device);
  return stream;
}

void allocate(int device, Address* address, std::size_t byte_count) {
  if (byte_count == 0) {
    *address = 0;
    if (!kHip) {
      throw Error{kInvalidValue};
    }
    return;
  }
  *address = memory().allocate(device, byte_count);
}

template <class Value>
int fill(const char* name, Address target, Value value, std::size_t count, void* handle) {
  return run_on_device(name, [&](int) {
    if (target % sizeof(Value) != 0) {
      complain(std::string(name) + ": the address is not aligned");
      throw Error{kInvalidValue};
    }
    usable_stream(handle)->push({.name = "fill",
                                 .run =
                                     [=] {
                                       for (std::size_t i = 0; i < count; ++i) {
                                         std::memcpy(pointer(target) + i * sizeof(Value), &value,
                                                     sizeof(Value));
                                       }
                                     },
                                 .ranges = {{target, count * sizeof(Value)}}});
  });
}

Work copy_between(Address target, Address source, std::size_t byte_count) {
  return {.name = "copy",
          .run = [=] { std::memmove(pointer(target), pointer(source), byte_count); },
          .ranges = {{target, byte_count}, {source, byte_count}}};
}

bool is_pinned(const void* memory_, std::size_t byte_count) {
  return memory().find(address_of(memory_), byte_count) != nullptr;
}

void refuse_pageable_capture(Stream& stream) {
  if (stream.is_capturing()) {
    stream.refuse_capture("a copy of pageable memory");
  }
}

}  // namespace

int fake_memory_info(std::size_t* free_bytes, std::size_t* total_bytes) {
  return run_on_device("memory_info", [&](int device) {
    *total_bytes = settings().memory;
    *free_bytes = settings().memory - memory().used(device);
  });
}

int fake_memory_allocate(Address* address, std::size_t byte_count) {
  return run_on_device("memory_allocate", [&](int device) {
    refuse_during_capture("memory_allocate");
    allocate(device, address, byte_count);
  });
}

int fake_memory_free(Address address) {
  return run_to_free("memory_free", [&] {
    if (address != 0) {
      const auto allocation = memory().find(address, 0);
      memory().free(address, false);
      wait_for_device(allocation->device);
    }
  });
}

int fake_host_allocate(void** address, std::size_t byte_count, unsigned flags) {
  return run_on_device("host_allocate", [&](int device) {
    refuse_during_capture("host_allocate");
    if (flags > 7 || byte_count == 0) {
      throw Error{kInvalidValue};
    }
    *address = memory().allocate_host(device, byte_count);
  });
}

int fake_host_free(void* address) {
  return run_to_free("host_free", [&] {
    if (address != nullptr) {
      memory().free(address_of(address), true);
    }
  });
}

int fake_host_register(void* address, std::size_t byte_count, unsigned flags) {
  return run_on_device("host_register", [&](int device) {
    refuse_during_capture("host_register");
    if (flags > 15) {
      throw Error{kInvalidValue};
    }
    memory().register_host(device, address_of(address), byte_count);
  });
}

int fake_host_unregister(void* address) {
  return run_to_free("host_unregister", [&] { memory().unregister_host(address_of(address)); });
}

int fake_host_device_address(Address* address, void* host, unsigned flags) {
  return run_on_device("host_device_address", [&](int) {
    const auto allocation = memory().find(address_of(host), 0);
    if (flags != 0 || allocation == nullptr || allocation->device != kHost) {
      throw Error{kInvalidValue};
    }
    *address = address_of(host);
  });
}

// Both drivers copy pageable memory to their own buffer before they return.
int fake_copy_from_host(Address target, const void* source, std::size_t byte_count, void* handle) {
  return run_on_device("copy_from_host", [&](int) {
    const auto stream = usable_stream(handle);
    if (is_pinned(source, byte_count)) {
      stream->push(copy_between(target, address_of(source), byte_count));
      return;
    }
    refuse_pageable_capture(*stream);
    const auto* bytes = static_cast<const char*>(source);
    const auto staged = std::make_shared<std::vector<char>>(bytes, bytes + byte_count);
    stream->push({.name = "copy",
                  .run = [=] { std::memcpy(pointer(target), staged->data(), staged->size()); },
                  .ranges = {{target, byte_count}}});
  });
}

// A copy to pageable memory is done when the call returns.
int fake_copy_to_host(void* target, Address source, std::size_t byte_count, void* handle) {
  return run_on_device("copy_to_host", [&](int) {
    const auto stream = usable_stream(handle);
    if (is_pinned(target, byte_count)) {
      stream->push(copy_between(address_of(target), source, byte_count));
      return;
    }
    refuse_pageable_capture(*stream);
    stream->push({.name = "copy",
                  .run = [=] { std::memcpy(target, pointer(source), byte_count); },
                  .ranges = {{source, byte_count}}});
    stream->wait();
    throw_sticky(stream->device);
  });
}

int fake_copy_on_device(Address target, Address source, std::size_t byte_count, void* handle) {
  return run_on_device("copy_on_device",
                       [&](int) { usable_stream(handle)->push(copy_between(target, source, byte_count)); });
}

int fake_copy_peer(Address target, FAKE_GPU_NAME(void*, int) target_context, Address source,
                   FAKE_GPU_NAME(void*, int) source_context, std::size_t byte_count, void* handle) {
  return run_on_device("copy_peer", [&](int) {
#ifdef FAKE_GPU_HIP
    const int devices[] = {target_context, source_context};
#else
    const int devices[] = {device_of_context(target_context), device_of_context(source_context)};
#endif
    const auto stream = usable_stream(handle);
    stream->refuse_capture("copy_peer");
    // The driver goes through the host where a device cannot access the other's memory.
    auto pins = std::make_shared<std::vector<Pins>>();
    pins->push_back(memory().pin({{target, byte_count}}, devices[0], "copy_peer"));
    pins->push_back(memory().pin({{source, byte_count}}, devices[1], "copy_peer"));
    stream->push({.name = "copy",
                  .run = [=] { std::memmove(pointer(target), pointer(source), byte_count); },
                  .uses = std::move(pins)});
  });
}

int fake_fill_bytes(Address target, unsigned char value, std::size_t count, void* stream) {
  return fill("fill_bytes", target, value, count, stream);
}

int fake_fill_halves(Address target, unsigned short value, std::size_t count, void* stream) {
  return fill("fill_halves", target, value, count, stream);
}

int fake_fill_words(Address target, unsigned value, std::size_t count, void* stream) {
  return fill("fill_words", target, value, count, stream);
}

}  // namespace fake_gpu
