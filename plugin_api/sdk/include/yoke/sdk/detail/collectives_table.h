// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/collectives_table.h: implements
// "yoke.collectives/1" with the classes of plugin.h.
#pragma once

#include <yoke/ext/collectives.h>
#include <yoke/sdk/detail/stream_table.h>

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace yoke::sdk::detail {

inline std::uint64_t type_bits(std::span<const std::int32_t> types) {
  std::uint64_t bits = 0;
  for (const std::int32_t type : types) {
    bits |= std::uint64_t{1} << type;
  }
  return bits;
}

// 0 for an unknown type.
inline std::uint64_t element_bytes(std::int32_t type) {
  static constexpr std::uint64_t kBytes[] = {0, 8, 4, 2, 2, 8, 4, 4, 1, 1};
  return type < YOKE_TYPE_F64 || type > YOKE_TYPE_BOOL ? 0 : kBytes[type];
}

inline std::int32_t collectives_describe(yoke_device* device, yoke_collectives_info* info,
                                         yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(device->plugin, error, [&] {
    present(info, "info");
    const CollectivesInfo from = device->object->collectives();
    yoke_collectives_info to{};
    to.features = from.features;
    to.sum_types = type_bits(from.sum_types);
    to.order_types = type_bits(from.order_types);
    to.sum_order = from.sum_order;
    to.member_limit = from.member_limit;
    write_sized(to, info);
  });
}

inline std::int32_t group_id_create(yoke_device* device, yoke_group_id* id, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(id, "id");
    const GroupId from = device->object->create_group_id();
    yoke_group_id to{};
    std::copy(from.begin(), from.end(), to.bytes);
    write_sized(to, id);
  });
}

inline std::int32_t communicator_create(yoke_device* device, const yoke_communicator_args* args,
                                        yoke_communicator** out_communicator, yoke_error* error) noexcept {
  if (device == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(*device, error, [&] {
    present(out_communicator, "out_communicator");
    const yoke_communicator_args given = read_args(args, 0, "communicator_create");
    present(given.id, "the group's id");
    if (given.rank >= given.size) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "rank " + std::to_string(given.rank) +
                                                      " is not in a group of " + std::to_string(given.size) +
                                                      " members");
    }
    // The limit is on the members of this process; those of a group over processes are not known here.
    if (const CollectivesInfo info = device->object->collectives();
        (info.features & YOKE_COLLECTIVES_PROCESSES) == 0 && info.member_limit != 0 &&
        given.size > info.member_limit) {
      throw Failure(YOKE_STATUS_UNIMPLEMENTED, "a group of " + std::to_string(given.size) +
                                                   " members; the most are " +
                                                   std::to_string(info.member_limit));
    }
    GroupId id{};
    std::copy_n(given.id, id.size(), id.begin());
    *out_communicator = new yoke_communicator(*device, id, given.rank, given.size);
  });
}

inline void communicator_destroy(yoke_communicator* communicator) noexcept {
  destroy(communicator);
}

inline std::int32_t communicator_query(yoke_communicator* communicator, std::int32_t* out_state,
                                       yoke_error* error) noexcept {
  if (communicator == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(communicator->plugin(), error, [&] {
    present(out_state, "out_state") = state_of_work(communicator->device(), *communicator->object);
  });
}

inline std::int32_t communicator_wait(yoke_communicator* communicator, std::uint64_t timeout_ns,
                                      yoke_error* error) noexcept {
  if (communicator == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(communicator->plugin(), error,
                 [&] { wait_for_all(communicator->device(), *communicator->object, timeout_ns); });
}

inline std::int32_t communicator_abort(yoke_communicator* communicator, yoke_error* error) noexcept {
  if (communicator == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  return guarded(communicator->plugin(), error, [&] { communicator->object->abort(); });
}

[[noreturn]] inline void refuse_row(std::int32_t code, std::uint32_t row, const std::string& why) {
  throw Failure(code, "collective " + std::to_string(row) + ": " + why);
}

inline bool reduces(std::int32_t kind) {
  return kind == YOKE_COLLECTIVE_ALL_REDUCE || kind == YOKE_COLLECTIVE_REDUCE_SCATTER;
}

inline void check_kind(const yoke_collective& given, std::uint32_t row) {
  const yoke_communicator& communicator = *given.communicator;
  if (given.kind < YOKE_COLLECTIVE_ALL_REDUCE || given.kind > YOKE_COLLECTIVE_BROADCAST ||
      element_bytes(given.type) == 0) {
    refuse_row(
        YOKE_STATUS_INVALID_ARGUMENT, row,
        "unknown kind " + std::to_string(given.kind) + " or element type " + std::to_string(given.type));
  }
  if (given.kind == YOKE_COLLECTIVE_BROADCAST && given.root >= communicator.size) {
    refuse_row(YOKE_STATUS_OUT_OF_RANGE, row,
               "root " + std::to_string(given.root) + " is not in a group of " +
                   std::to_string(communicator.size) + " members");
  }
  if (!reduces(given.kind)) {
    return;
  }
  if (given.reduction < YOKE_REDUCTION_SUM || given.reduction > YOKE_REDUCTION_MIN) {
    refuse_row(YOKE_STATUS_INVALID_ARGUMENT, row, "unknown reduction " + std::to_string(given.reduction));
  }
  const std::vector<std::int32_t>& types =
      given.reduction == YOKE_REDUCTION_SUM ? communicator.info.sum_types : communicator.info.order_types;
  if (std::find(types.begin(), types.end(), given.type) == types.end()) {
    refuse_row(YOKE_STATUS_UNIMPLEMENTED, row,
               "the device does not reduce elements of type " + std::to_string(given.type));
  }
}

// The bytes of `parts` parts, after checking that they are inside the buffer.
inline std::uint64_t range_of_parts(const yoke_buffer& buffer, std::uint64_t offset,
                                    const yoke_collective& given, std::uint64_t parts, const char* what) {
  const std::uint64_t one = element_bytes(given.type) * parts;
  const std::uint64_t most = buffer.byte_count / one;
  check_range(what, offset, given.count > most ? buffer.byte_count + 1 : given.count * one,
              buffer.byte_count);
  return given.count * one;
}

inline void check_buffers(const yoke_collective& given, std::uint32_t row) {
  const yoke_communicator& communicator = *given.communicator;
  const bool is_scatter = given.kind == YOKE_COLLECTIVE_REDUCE_SCATTER;
  const bool is_gather = given.kind == YOKE_COLLECTIVE_ALL_GATHER;
  const bool has_source = given.kind != YOKE_COLLECTIVE_BROADCAST || given.root == communicator.rank;
  if (given.target == nullptr || (has_source && given.source == nullptr)) {
    refuse_row(YOKE_STATUS_INVALID_ARGUMENT, row, "source or target is NULL");
  }
  for (const yoke_buffer* buffer : {given.target, has_source ? given.source : given.target}) {
    if (buffer->device().ordinal != communicator.device().ordinal) {
      refuse_row(YOKE_STATUS_INVALID_ARGUMENT, row, "a buffer is not of the communicator's device");
    }
  }
  const std::uint64_t target_bytes =
      range_of_parts(*given.target, given.target_offset, given, is_gather ? communicator.size : 1, "target");
  if (!has_source) {
    return;
  }
  const std::uint64_t source_bytes =
      range_of_parts(*given.source, given.source_offset, given, is_scatter ? communicator.size : 1, "source");
  const std::uint64_t shift = communicator.rank * std::min(source_bytes, target_bytes);
  const bool is_in_place =
      given.source_offset + (is_scatter ? shift : 0) == given.target_offset + (is_gather ? shift : 0);
  if (given.source == given.target && !is_in_place &&
      given.source_offset < given.target_offset + target_bytes &&
      given.target_offset < given.source_offset + source_bytes) {
    refuse_row(YOKE_STATUS_INVALID_ARGUMENT, row, "source and target overlap, but not in place");
  }
}

inline Collective checked_collective(const yoke_collective& given, std::uint32_t row) {
  if (given.communicator == nullptr || given.stream == nullptr) {
    refuse_row(YOKE_STATUS_INVALID_ARGUMENT, row, "communicator or stream is NULL");
  }
  check_flags(given.flags, 0, "collectives_queue");
  const yoke_device& device = given.communicator->device();
  device.faults.check_alive();
  Stream* stream = stream_for(given.stream, device);
  check_kind(given, row);
  check_buffers(given, row);
  Communicator& communicator = *given.communicator->object;
  if (const std::int32_t state = communicator.state(); state == YOKE_STATE_FAILED) {
    communicator.wait(0);  // throws
  } else if (state == YOKE_STATE_PENDING) {
    refuse_row(YOKE_STATUS_FAILED_PRECONDITION, row,
               "members of the group are missing; call communicator_wait first");
  }
  const bool has_source = given.kind != YOKE_COLLECTIVE_BROADCAST || given.root == given.communicator->rank;
  return {&communicator,
          stream,
          has_source ? given.source->object.get() : nullptr,
          has_source ? given.source_offset : 0,
          given.target->object.get(),
          given.target_offset,
          given.count,
          given.kind,
          given.type,
          given.reduction,
          given.root};
}

// One item for each stream of a profiled device: rows of one stream may run at the same time.
inline std::vector<std::pair<yoke_stream*, Profile::Item>> begin_profile(
    std::span<const yoke_collective> rows) {
  static constexpr const char* kNames[] = {"", "all_reduce", "reduce_scatter", "all_gather", "broadcast"};
  std::vector<std::pair<yoke_stream*, Profile::Item>> items;
  for (const yoke_collective& row : rows) {
    const bool is_known =
        std::any_of(items.begin(), items.end(), [&](const auto& item) { return item.first == row.stream; });
    if (row.stream->device().profile.is_on() && !is_known) {
      items.emplace_back(row.stream, Profile::begin(row.stream, row.stream->object.get(),
                                                    YOKE_WORK_COLLECTIVE, kNames[row.kind]));
    }
  }
  return items;
}

inline std::int32_t collectives_queue(const yoke_collective* rows, std::uint32_t count, std::uint32_t stride,
                                      yoke_error* error) noexcept {
  if (rows == nullptr || count == 0 || rows->communicator == nullptr) {
    return YOKE_STATUS_INVALID_ARGUMENT;
  }
  PluginState& plugin = rows->communicator->plugin();
  return guarded(plugin, error, [&] {
    if (stride < sizeof(void*)) {
      throw Failure(YOKE_STATUS_INVALID_ARGUMENT, "the stride of the rows is " + std::to_string(stride));
    }
    std::vector<yoke_collective> given;
    std::vector<Collective> checked;
    for (std::uint32_t i = 0; i < count; ++i) {
      given.push_back(read_row(rows, stride, i));
      checked.push_back(checked_collective(given.back(), i));
    }
    {
      const std::lock_guard lock(plugin.communicators_mutex);
      for (const yoke_collective& row : given) {
        std::vector<const yoke_stream*>& streams = row.communicator->streams;
        if (std::find(streams.begin(), streams.end(), row.stream) == streams.end()) {
          streams.push_back(row.stream);
        }
      }
    }
    std::vector<std::pair<yoke_stream*, Profile::Item>> profiled = begin_profile(given);
    plugin.backend->queue_collectives(checked);
    for (auto& [stream, item] : profiled) {
      stream->device().profile.end(std::move(item), stream->object.get());
    }
  });
}

inline constexpr yoke_collectives_api kCollectivesTable = {
    .struct_size = sizeof(yoke_collectives_api),
    .collectives_describe = collectives_describe,
    .group_id_create = group_id_create,
    .communicator_create = communicator_create,
    .communicator_destroy = communicator_destroy,
    .communicator_query = communicator_query,
    .communicator_wait = communicator_wait,
    .communicator_abort = communicator_abort,
    .collectives_queue = collectives_queue,
};

}  // namespace yoke::sdk::detail
