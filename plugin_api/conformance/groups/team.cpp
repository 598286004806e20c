// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/team.cpp: groups of members, and collectives whose results are known.
#include "team.h"

#include <yoke/program/execute.h>

#include <algorithm>
#include <exception>

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kMargin = 256;  // bytes before and after the range of a collective
constexpr std::byte kGuard{0x6b};

template <class T>
void append_bytes(Bytes& to, T value) {
  const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
  to.insert(to.end(), bytes, bytes + sizeof value);
}

}  // namespace

yoke_collectives_info describe_collectives(const Device& device) {
  yoke_collectives_info info = sized<yoke_collectives_info>();
  expect_supported(device.plugin().call<&yoke_collectives_api::collectives_describe>(device.get(), &info),
                   "describing the collectives");
  return info;
}

yoke_group_id make_group_id(const Device& device) {
  yoke_group_id id = sized<yoke_group_id>();
  expect_supported(device.plugin().call<&yoke_collectives_api::group_id_create>(device.get(), &id),
                   "making the id of a group");
  return id;
}

Answer create_communicator(const Device& device, const yoke_group_id& id, std::uint32_t rank,
                           std::uint32_t size, yoke_communicator** out) {
  yoke_communicator_args args = sized<yoke_communicator_args>();
  args.id = &id.bytes[0];
  args.rank = rank;
  args.size = size;
  return device.plugin().call<&yoke_collectives_api::communicator_create>(device.get(), &args, out);
}

Team::Team(Kit& kit, std::uint32_t smallest) : plugin_(kit.plugin()) {
  constexpr std::uint32_t kWanted = 3;
  plugin_.table<yoke_collectives_api>();
  (void)describe_collectives(kit.device());  // unsupported if a library is missing
  const std::uint32_t devices = plugin_.some_devices();
  std::string refusal;
  for (std::uint32_t size = kWanted; size != 0; size = size > devices ? devices : 0) {
    assemble(kit, size);
    if (join(refusal)) {
      if (size < smallest) {
        members_.clear();  // before the exception, so that the devices are closed
        unsupported("the group has one member, so that no collective waits for another one");
      }
      return;
    }
  }
  unsupported(refusal);
}

Team::Team(Kit& kit, const Team& other) : plugin_(kit.plugin()) {
  std::string refusal;
  assemble(kit, other.size());
  check(join(refusal), "a second group of the same devices: ", refusal);
}

Team::~Team() {
  try {
    if (std::uncaught_exceptions() != 0) {
      abort_all();  // members may wait for each other
      for (const Teammate& member : members_) {
        (void)member.stream->wait();
      }
    }
  } catch (const std::exception&) {
    // The test is failing already.
  }
}

void Team::assemble(Kit& kit, std::uint32_t size) {
  const std::uint32_t devices = plugin_.some_devices();
  members_.clear();
  for (std::uint32_t i = 0; i < size; ++i) {
    Teammate& member = members_.emplace_back();
    member.device = std::make_unique<Device>(kit, kit.plugin(), (kit.settings().device + i) % devices,
                                             kit.device_options());
    member.stream = std::make_unique<Stream>(*member.device);
  }
}

bool Team::join(std::string& refusal) {
  const yoke_group_id id = make_group_id(*members_[0].device);
  const auto is_joined = [&](const Answer& answer, const char* doing) {
    if (answer.code != YOKE_STATUS_UNIMPLEMENTED) {
      expect_ok(answer, doing);
      return true;
    }
    expect_code(answer, YOKE_STATUS_UNIMPLEMENTED, doing);
    refusal = answer.status.text;
    return false;
  };
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    yoke_communicator* raw = nullptr;
    if (!is_joined(create_communicator(*members_[rank].device, id, rank, size(), &raw),
                   "creating a communicator")) {
      return false;
    }
    check(raw != nullptr, "communicator_create returned OK but left its out-parameter NULL");
    members_[rank].communicator = Communicator(plugin_, raw);
  }
  return std::all_of(members_.begin(), members_.end(), [&](const Teammate& member) {
    return is_joined(
        plugin_.call<&yoke_collectives_api::communicator_wait>(member.communicator.get(), longest_wait_ns()),
        "waiting until all members have joined");
  });
}

Answer Team::queue(std::span<const yoke_collective> rows) const {
  return plugin_.call<&yoke_collectives_api::collectives_queue>(
      rows.data(), static_cast<std::uint32_t>(rows.size()),
      static_cast<std::uint32_t>(sizeof(yoke_collective)));
}

void Team::abort(std::uint32_t rank) const {
  expect_ok(plugin_.call<&yoke_collectives_api::communicator_abort>(members_[rank].communicator.get()),
            "aborting a communicator");
}

void Team::abort_all() const {
  for (std::uint32_t rank = 0; rank < size(); ++rank) {
    abort(rank);
  }
}

void Team::synchronize() const {
  for (const Teammate& member : members_) {
    member.stream->synchronize();
  }
}

std::uint64_t element_bytes(std::int32_t type) {
  constexpr std::uint64_t kBytes[] = {0, 8, 4, 2, 2, 8, 4, 4, 1, 1};
  return kBytes[type];
}

const char* type_name(std::int32_t type) {
  constexpr const char* kNames[] = {"", "f64", "f32", "f16", "bf16", "i64", "i32", "u32", "u8", "bool"};
  return kNames[type];
}

const char* collective_name(std::int32_t kind) {
  constexpr const char* kNames[] = {"", "all_reduce", "reduce_scatter", "all_gather", "broadcast"};
  return kNames[kind];
}

Bytes encode(std::int32_t type, std::span<const double> values) {
  Bytes bytes;
  for (const double value : values) {
    switch (type) {
      case YOKE_TYPE_F64:
        append_bytes(bytes, value);
        break;
      case YOKE_TYPE_F32:
        append_bytes(bytes, static_cast<float>(value));
        break;
      case YOKE_TYPE_F16:
        append_bytes(bytes, program::f32_to_f16(static_cast<float>(value)));
        break;
      case YOKE_TYPE_BF16:
        append_bytes(bytes, program::f32_to_bf16(static_cast<float>(value)));
        break;
      case YOKE_TYPE_I64:
        append_bytes(bytes, static_cast<std::int64_t>(value));
        break;
      case YOKE_TYPE_I32:
      case YOKE_TYPE_U32:
        append_bytes(bytes, static_cast<std::int32_t>(value));
        break;
      default:
        append_bytes(bytes, static_cast<std::uint8_t>(value));
    }
  }
  return bytes;
}

Exercise::Exercise(Team& team, const Shape& shape) : team_(team), shape_(shape) {
  const std::uint64_t part = shape.count * element_bytes(shape.type);
  for (std::uint32_t rank = 0; rank < team.size(); ++rank) {
    Device& device = *team[rank].device;
    const std::uint64_t parts = std::max(source_parts(), target_parts());
    if (!shape.is_in_place) {
      sources_.emplace_back(device, source_parts() * part + kMargin);
      sources_.back().write(kMargin, source(rank));
    }
    targets_.emplace_back(device, (shape.is_in_place ? parts : target_parts()) * part + 2 * kMargin);
    targets_.back().write(0, Bytes(targets_.back().byte_count(), kGuard));
    if (shape.is_in_place) {
      targets_.back().write(source_offset(rank), source(rank));
    }
  }
}

std::string Exercise::words() const {
  constexpr const char* kReductions[] = {"", "sum", "max", "min"};
  const bool is_reduction =
      shape_.kind == YOKE_COLLECTIVE_ALL_REDUCE || shape_.kind == YOKE_COLLECTIVE_REDUCE_SCATTER;
  std::string words = text(collective_name(shape_.kind), " of ", shape_.count, " ", type_name(shape_.type));
  words += is_reduction ? text(" (", kReductions[shape_.reduction], ")") : "";
  words += shape_.kind == YOKE_COLLECTIVE_BROADCAST ? text(" from member ", shape_.root) : "";
  return words + (shape_.is_in_place ? " in place" : "") + text(" between ", team_.size(), " members");
}

yoke_collective Exercise::row(std::uint32_t rank) const {
  yoke_collective row{};
  row.communicator = team_[rank].communicator.get();
  row.stream = team_[rank].stream->get();
  if (shape_.kind != YOKE_COLLECTIVE_BROADCAST || rank == shape_.root) {
    row.source = source_buffer(rank).get();
    row.source_offset = source_offset(rank);
  }
  row.target = targets_[rank].get();
  row.target_offset = target_offset(rank);
  row.count = shape_.count;
  row.kind = shape_.kind;
  row.type = shape_.type;
  row.reduction = shape_.reduction;
  row.root = shape_.root;
  return row;
}

std::vector<yoke_collective> Exercise::rows() const {
  std::vector<yoke_collective> rows;
  for (std::uint32_t rank = 0; rank < team_.size(); ++rank) {
    rows.push_back(row(rank));
  }
  return rows;
}

Bytes Exercise::source(std::uint32_t rank) const {
  std::vector<double> values(source_parts() * shape_.count);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = value(rank, i);
  }
  return encode(shape_.type, values);
}

const Buffer& Exercise::source_buffer(std::uint32_t rank) const {
  return shape_.is_in_place ? targets_[rank] : sources_[rank];
}

Bytes Exercise::expected_target(std::uint32_t rank) const {
  std::vector<double> values(target_parts() * shape_.count);
  for (std::uint64_t i = 0; i < values.size(); ++i) {
    values[i] = result(rank, i);
  }
  return encode(shape_.type, values);
}

void Exercise::check_target(std::uint32_t rank) const {
  const Bytes expected = expected_target(rank);
  const Bytes contents = targets_[rank].contents();
  const std::uint64_t begin = target_offset(rank);
  const std::uint64_t element = element_bytes(shape_.type);
  for (std::uint64_t i = 0; i < expected.size(); ++i) {
    check(contents[begin + i] == expected[i], words(), ": member ", rank, ": element ", i / element,
          " of the target has the wrong value");
  }
  if (!shape_.is_in_place) {
    for (std::uint64_t i = 0; i < contents.size(); ++i) {
      check((i >= begin && i < begin + expected.size()) || contents[i] == kGuard, words(), ": member ", rank,
            ": byte ", i, " outside the range of the target was written");
    }
    Bytes read(source_parts() * shape_.count * element);
    sources_[rank].read(kMargin, read);
    check(read == source(rank), words(), ": member ", rank, ": the source was written");
  }
}

void Exercise::check_targets() const {
  for (std::uint32_t rank = 0; rank < team_.size(); ++rank) {
    check_target(rank);
  }
}

// Sums of three members fit every type; members never have the same value.
double Exercise::value(std::uint32_t rank, std::uint64_t i) const {
  return shape_.type == YOKE_TYPE_BOOL
             ? static_cast<double>((i + rank + shape_.salt) % 2)
             : static_cast<double>((i * 3 + rank * std::uint64_t{5} + shape_.salt * std::uint64_t{7}) % 16);
}

double Exercise::result(std::uint32_t rank, std::uint64_t i) const {
  if (shape_.kind == YOKE_COLLECTIVE_ALL_GATHER) {
    return value(static_cast<std::uint32_t>(i / shape_.count), i % shape_.count);
  }
  if (shape_.kind == YOKE_COLLECTIVE_BROADCAST) {
    return value(shape_.root, i);
  }
  const std::uint64_t at = i + (shape_.kind == YOKE_COLLECTIVE_REDUCE_SCATTER ? rank * shape_.count : 0);
  double reduced = value(0, at);
  for (std::uint32_t other = 1; other < team_.size(); ++other) {
    const double next = value(other, at);
    reduced = shape_.reduction == YOKE_REDUCTION_SUM   ? reduced + next
              : shape_.reduction == YOKE_REDUCTION_MAX ? std::max(reduced, next)
                                                       : std::min(reduced, next);
  }
  return reduced;
}

std::uint64_t Exercise::source_parts() const {
  return shape_.kind == YOKE_COLLECTIVE_REDUCE_SCATTER ? team_.size() : 1;
}

std::uint64_t Exercise::target_parts() const {
  return shape_.kind == YOKE_COLLECTIVE_ALL_GATHER ? team_.size() : 1;
}

std::uint64_t Exercise::source_offset(std::uint32_t rank) const {
  const bool is_a_part = shape_.is_in_place && shape_.kind == YOKE_COLLECTIVE_ALL_GATHER;
  return kMargin + (is_a_part ? rank * shape_.count * element_bytes(shape_.type) : 0);
}

std::uint64_t Exercise::target_offset(std::uint32_t rank) const {
  const bool is_a_part = shape_.is_in_place && shape_.kind == YOKE_COLLECTIVE_REDUCE_SCATTER;
  return kMargin + (is_a_part ? rank * shape_.count * element_bytes(shape_.type) : 0);
}

}  // namespace yoke::conformance
