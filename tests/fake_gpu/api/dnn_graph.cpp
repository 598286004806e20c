// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/dnn_graph.cpp: the part of cuDNN's graph API that plugins use. Refuses the rest.
#include "dnn_graph.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "blas.h"

#ifndef FAKE_GPU_HIP
namespace fake_gpu {

Objects<GraphObject>& graph_objects() {
  static auto* const all = new Objects<GraphObject>("descriptor of a graph", 0x74);
  return *all;
}

namespace {

constexpr int kOfDescriptors = 15;

std::uint64_t size_of_element(int type) {
  return type == 0 || type == 3 || type == 6 || type == kOfDescriptors ? 8 : type == 2 ? 1 : 4;
}

// Engine 0 adds in any order, and engine 1 has no plan.
constexpr std::int64_t kEngines = 3;

void read_config(const char* name, const GraphObject& config, int attribute, std::int64_t wanted,
                 std::int64_t* count, void* elements) {
  *count = 1;
  if (wanted == 0 && attribute == 302) {
    return;
  }
  void* handle = nullptr;
  std::memcpy(&handle, elements, sizeof handle);
  GraphObject& target = *graph_objects().get(handle);
  const std::int64_t engine = config.number(-1);
  if (attribute == 300 && target.type == kEngineType) {
    target.numbers[1301] = {engine};
    target.numbers[1303] = engine == 0 ? std::vector<std::int64_t>{0, 4} : std::vector<std::int64_t>{0};
  } else if (attribute == 302 && target.type == kKnobType) {
    target.numbers[600] = {32};
    target.numbers[601] = {10 + engine};
  } else {
    refuse_dnn(name, "attribute " + std::to_string(attribute) + " is not modeled");
  }
  target.is_final = true;
}

void read_results(const GraphObject& heuristic, std::int64_t wanted, std::int64_t* count, void* elements) {
  *count = kEngines;
  for (std::int64_t i = 0; i < std::min(wanted, kEngines); ++i) {
    void* handle = nullptr;
    std::memcpy(&handle, static_cast<char*>(elements) + i * 8, sizeof handle);
    GraphObject& config = *graph_objects().get(handle);
    if (config.type != kConfigType) {
      refuse_dnn("dnn_descriptor_get", "a result is not a configuration");
    }
    config.numbers[-1] = {i};
    config.objects[-1] = heuristic.objects.at(201);
    config.is_final = true;
  }
}

void launch_plan(const char* name, void* handle, const std::shared_ptr<GraphObject>& plan,
                 const GraphObject& pack) {
  auto owner = dnn_handles().get(handle);
  if (owner->device != current_device(name)) {
    refuse_dnn(name, "the handle is of another device than the current context");
  }
  const auto stream = streams().get(owner->stream);
  throw_sticky(stream->device);
  const GraphObject& config = plan->object(401);
  if (config.number(-1) == 0) {
    refuse_dnn(name, "the engine adds in any order");
  }
  const std::shared_ptr<GraphObject> graph = config.objects.at(-1)[0];
  Work work = {.name = "kernel"};
  std::map<std::int64_t, Address> pointers;
  std::map<std::int64_t, float> values;
  std::map<std::int64_t, GraphTensor> missing = passed_tensors(*graph);
  const std::vector<std::int64_t>& ids = pack.numbers.at(1000);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int64_t number = pack.numbers.at(1001)[i];
    const auto found = missing.find(ids[i]);
    if (found == missing.end()) {
      refuse_dnn(name, "the id " + std::to_string(ids[i]) + " is none of the graph's");
    }
    if (found->second.is_by_value) {
      std::memcpy(&values[ids[i]], reinterpret_cast<const void*>(number), sizeof(float));  // NOLINT
    } else {
      const auto address = static_cast<Address>(number);
      if (address % 16 != 0) {
        refuse_dnn(name, "an address is not a multiple of 16");
      }
      pointers[ids[i]] = address;
      work.ranges.push_back({address, found->second.byte_count()});
    }
    missing.erase(found);
  }
  if (!missing.empty()) {
    refuse_dnn(name, "no pointer for the id " + std::to_string(missing.begin()->first));
  }
  const auto workspace = static_cast<Address>(pack.number(1003));
  const std::uint64_t bytes = workspace_of(*graph);
  for (const Range& range : work.ranges) {
    if (range.address < workspace + bytes && workspace < range.address + range.byte_count) {
      refuse_dnn(name, "the workspace overlaps a tensor");
    }
  }
  if (bytes != 0) {
    work.ranges.push_back({workspace, bytes});
  }
  work.run = [=, used_handle = owner.get()] {
    const std::unique_lock lock(used_handle->running, std::try_to_lock);
    if (!lock.owns_lock()) {
      complain("work with one handle of the library of convolutions runs on two streams at once");
    }
    if (bytes != 0) {
      std::memset(pointer(workspace), 0xff, bytes);
    }
    run_graph(*graph, pointers, values);
  };
  work.uses = std::move(owner);
  stream->push(std::move(work));
}

}  // namespace

int fake_dnn_descriptor_create(int type, void** descriptor) {
  return run("dnn_descriptor_create", [&] {
    auto made = std::make_shared<GraphObject>();
    made->device = current_device("dnn_descriptor_create");
    made->type = type;
    *descriptor = graph_objects().add(std::move(made));
  });
}

int fake_dnn_descriptor_destroy(void* descriptor) {
  return run_to_free("dnn_descriptor_destroy", [&] { graph_objects().remove(descriptor); });
}

int fake_dnn_descriptor_set(void* descriptor, int attribute, int type, std::int64_t count,
                            const void* elements) {
  constexpr const char* kName = "dnn_descriptor_set";
  return run(kName, [&] {
    GraphObject& object = *graph_objects().get(descriptor);
    if (object.is_final || !may_set(object, attribute, type, count)) {
      refuse_dnn(kName, "a descriptor of type " + std::to_string(object.type) +
                            " is final, or has no attribute " + std::to_string(attribute) + " with " +
                            std::to_string(count) + " elements of type " + std::to_string(type));
    }
    const std::uint64_t size = size_of_element(type);
    for (std::int64_t i = 0; i < count; ++i) {
      std::int64_t number = 0;
      std::memcpy(&number, static_cast<const char*>(elements) + i * static_cast<std::int64_t>(size), size);
      if (type == kOfDescriptors) {
        auto other =
            graph_objects().get(reinterpret_cast<void*>(number));  // NOLINT(performance-no-int-to-ptr)
        if (!other->is_final) {
          refuse_dnn(kName, "another descriptor is not final");
        }
        object.objects[attribute].push_back(std::move(other));
      } else {
        object.numbers[attribute].push_back(number);
      }
    }
  });
}

int fake_dnn_descriptor_finalize(void* descriptor) {
  constexpr const char* kName = "dnn_descriptor_finalize";
  return run(kName, [&] {
    GraphObject& object = *graph_objects().get(descriptor);
    if (object.type == kGraphType || object.type == kPlanType) {
      refuse_during_capture(kName);
      (void)current_device(kName);
    }
    check_final(kName, object);
    object.is_final = true;
  });
}

int fake_dnn_descriptor_get(void* descriptor, int attribute, int type, std::int64_t wanted,
                            std::int64_t* count, void* elements) {
  constexpr const char* kName = "dnn_descriptor_get";
  return run(kName, [&] {
    const GraphObject& object = *graph_objects().get(descriptor);
    if (!object.is_final) {
      refuse_dnn(kName, "the descriptor is not final");
    }
    if (object.type == kHeuristicType && attribute == 202) {
      read_results(object, wanted, count, elements);
    } else if (object.type == kConfigType) {
      read_config(kName, object, attribute, wanted, count, elements);
    } else {
      const std::vector<std::int64_t> own =
          object.type == kPlanType && attribute == 402
              ? std::vector{static_cast<std::int64_t>(workspace_of(object.object(401).object(-1)))}
              : object.numbers.at(attribute);
      *count = static_cast<std::int64_t>(own.size());
      const std::uint64_t size = size_of_element(type);
      for (std::int64_t i = 0; i < std::min(*count, wanted); ++i) {
        std::memcpy(static_cast<char*>(elements) + i * static_cast<std::int64_t>(size),
                    &own[static_cast<std::size_t>(i)], size);
      }
    }
  });
}

int fake_dnn_graph_execute(void* handle, void* plan, void* pack) {
  constexpr const char* kName = "dnn_graph_execute";
  return run(kName, [&] {
    const auto planned = graph_objects().get(plan);
    const auto packed = graph_objects().get(pack);
    if (planned->type != kPlanType || !planned->is_final || packed->type != kPackType || !packed->is_final) {
      refuse_dnn(kName, "the plan or the pack is not final");
    }
    launch_plan(kName, handle, planned, *packed);
  });
}

}  // namespace fake_gpu
#endif
