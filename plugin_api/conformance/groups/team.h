// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/team.h: the members of a group of yoke.collectives/1, and collectives whose
// results are known.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kit.h"

namespace yoke::conformance {

using Communicator = Handle<yoke_communicator, &yoke_collectives_api::communicator_destroy>;

yoke_collectives_info describe_collectives(const Device& device);
yoke_group_id make_group_id(const Device& device);
// Creates a communicator. `out` may be garbage when it fails.
Answer create_communicator(const Device& device, const yoke_group_id& id, std::uint32_t rank,
                           std::uint32_t size, yoke_communicator** out);

struct Teammate {
  std::unique_ptr<Device> device;  // its own handle
  std::unique_ptr<Stream> stream;
  Communicator communicator;
};

// A group whose members have joined: three, or as many as there are devices if a device can have only one.
class Team {
 public:
  // Unsupported if there cannot be `smallest` members.
  explicit Team(Kit& kit, std::uint32_t smallest = 1);
  // Further groups of the same devices, with their own streams.
  Team(Kit& kit, const Team& other);
  ~Team();
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  std::uint32_t size() const { return static_cast<std::uint32_t>(members_.size()); }
  Teammate& operator[](std::uint32_t rank) { return members_[rank]; }
  const Plugin& plugin() const { return plugin_; }
  Answer queue(std::span<const yoke_collective> rows) const;
  Answer queue(const yoke_collective& row) const { return queue(std::span(&row, 1)); }
  void abort(std::uint32_t rank) const;
  void abort_all() const;
  void synchronize() const;

 private:
  void assemble(Kit& kit, std::uint32_t size);
  // Returns false if a device can have only one member. The reason is then in `refusal`.
  bool join(std::string& refusal);

  const Plugin& plugin_;
  std::vector<Teammate> members_;
};

std::uint64_t element_bytes(std::int32_t type);
const char* type_name(std::int32_t type);
const char* collective_name(std::int32_t kind);
Bytes encode(std::int32_t type, std::span<const double> values);

// One collective of a team with its buffers. The values of the sources are small integers, so that every
// order of a sum has the same result.
class Exercise {
 public:
  struct Shape {
    std::int32_t kind = YOKE_COLLECTIVE_ALL_REDUCE;
    std::int32_t type = YOKE_TYPE_F32;
    std::int32_t reduction = YOKE_REDUCTION_SUM;
    std::uint32_t root = 0;
    std::uint64_t count = 100;
    bool is_in_place = false;
    std::uint32_t salt = 0;  // other values
  };

  Exercise(Team& team, const Shape& shape);
  std::string words() const;
  yoke_collective row(std::uint32_t rank) const;
  std::vector<yoke_collective> rows() const;
  // The bytes that the source holds, and those that the target must hold in the end.
  Bytes source(std::uint32_t rank) const;
  const Buffer& source_buffer(std::uint32_t rank) const;
  const Buffer& target_buffer(std::uint32_t rank) const { return targets_[rank]; }
  Bytes expected_target(std::uint32_t rank) const;
  // Precondition: the collective is done.
  void check_target(std::uint32_t rank) const;
  void check_targets() const;

 private:
  double value(std::uint32_t rank, std::uint64_t i) const;
  double result(std::uint32_t rank, std::uint64_t i) const;
  std::uint64_t source_parts() const;
  std::uint64_t target_parts() const;
  std::uint64_t source_offset(std::uint32_t rank) const;
  std::uint64_t target_offset(std::uint32_t rank) const;

  Team& team_;
  Shape shape_;
  std::vector<Buffer> sources_;
  std::vector<Buffer> targets_;
};

}  // namespace yoke::conformance
