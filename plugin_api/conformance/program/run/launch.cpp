// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/program/run/launch.cpp: memory layouts, guard bytes and the comparison of results.
#include "launch.h"

#include <algorithm>
#include <cstring>

namespace yoke::conformance {

using program::Role;
using program::Tensor;

yoke_argument_info describe_argument(Device& device, const Code& code, std::uint32_t entry,
                                     std::uint32_t argument) {
  yoke_argument_info info = sized<yoke_argument_info>();
  expect_ok(device.plugin().call<&yoke_program_api::code_argument>(code.get(), entry, argument, &info),
            text("describing argument ", argument, " of entry ", entry));
  return info;
}

void check_description(Device& device, const Code& code, std::uint32_t entry, const Case& one) {
  const std::vector<std::uint32_t> arguments = one.program.arguments();
  const yoke_entry_info described = describe_entry(device.plugin(), code, entry);
  check_equal(std::string(described.name), one.program.name, "the name of entry ", entry);
  check_equal(described.argument_count, arguments.size(), "argument_count of ", one.program.name);
  check_equal(described.symbol_count, one.program.launch_symbol_count(), "symbol_count of ",
              one.program.name);
  check(described.deterministic == 0 || described.deterministic == 1, "deterministic is ",
        described.deterministic);
  for (std::uint32_t i = 0; i < arguments.size(); ++i) {
    const Tensor& tensor = one.program.tensors[arguments[i]];
    const yoke_argument_info info = describe_argument(device, code, entry, i);
    const std::string where = text(" of argument '", tensor.name, "' of ", one.program.name);
    check_equal(std::string(info.name), tensor.name, "the name", where);
    check_equal(info.type, static_cast<std::int32_t>(tensor.type), "the type", where);
    check_equal(info.access, static_cast<std::int32_t>(tensor.role), "the access", where);
    check_equal(info.rank, tensor.dims.size(), "the rank", where);
    check_equal(info.byte_count, tensor.byte_count(), "the byte_count", where);
    for (std::size_t dim = 0; dim < tensor.dims.size(); ++dim) {
      check_equal(info.dims[dim], tensor.dims[dim], "dimension ", dim, where);
    }
  }
}

void require_supported(const Device& device, std::string_view bytes, std::size_t statement_count) {
  std::vector<yoke_verdict> verdicts(statement_count);
  std::uint32_t count = 0;
  expect_ok(device.plugin().can_compile(device.get(), program_text(bytes), verdicts, &count),
            "can_compile with a valid text");
  for (const yoke_verdict& verdict : verdicts) {
    if (verdict.verdict == YOKE_VERDICT_UNSUPPORTED) {
      unsupported(verdict.reason);
    }
  }
}

std::size_t first_supported(const Device& device, std::span<const std::string_view> texts,
                            std::size_t statement_count) {
  for (std::size_t number = 0; number + 1 < texts.size(); ++number) {
    try {
      require_supported(device, texts[number], statement_count);
      return number;
    } catch (const Unsupported&) {  // the next one may be supported
    }
  }
  require_supported(device, texts.back(), statement_count);
  return texts.size() - 1;
}

namespace {

// The alignment that each argument needs. Arguments that share memory need the largest of theirs.
std::vector<std::uint64_t> alignments_of(Device& device, const Case& one, const Code& code,
                                         std::uint32_t entry) {
  std::vector<std::uint64_t> by_tensor(one.program.tensors.size(), 1);
  std::uint32_t argument = 0;
  for (const std::uint32_t number : one.program.arguments()) {
    std::size_t owner = number;
    while (one.data[owner].shared >= 0) {
      owner = static_cast<std::size_t>(one.data[owner].shared);
    }
    const std::uint64_t alignment = describe_argument(device, code, entry, argument++).alignment;
    by_tensor[owner] = std::max(by_tensor[owner], alignment);
  }
  return by_tensor;
}

}  // namespace

// Takes a buffer of at least `byte_count` bytes from the pool, or creates one.
std::size_t Arena::take(std::uint64_t byte_count) {
  for (Buffer& free : pool_.buffers) {
    if (free.byte_count() >= byte_count) {
      std::swap(free, pool_.buffers.back());
      buffers_.push_back(std::move(pool_.buffers.back()));
      pool_.buffers.pop_back();
      used_.push_back(byte_count);
      return buffers_.size() - 1;
    }
  }
  buffers_.emplace_back(device_, std::max<std::uint64_t>(byte_count, 1U << 16U));
  used_.push_back(byte_count);
  return buffers_.size() - 1;
}

Arena::Arena(Device& device, Pool& pool, const Case& one, const Code& code, std::uint32_t entry,
             std::uint64_t workspace_byte_count, std::uint64_t layout)
    : device_(device), pool_(pool) {
  Random random(one.seed, "layout", one.index * 16 + layout);
  const std::vector<std::uint32_t> arguments = one.program.arguments();
  const std::vector<std::uint64_t> alignments = alignments_of(device, one, code, entry);
  const std::size_t parts = 1 + random.below(3);
  std::vector<std::uint64_t> ends(parts, kGuardByteCount);
  std::vector<std::int64_t> place_of(one.program.tensors.size(), -1);
  for (const std::uint32_t number : arguments) {
    const Tensor& tensor = one.program.tensors[number];
    Place place{0, 0, tensor.byte_count(), tensor.role == Role::kIn, tensor.name};
    if (one.data[number].shared >= 0) {
      const Place& other =
          places_[static_cast<std::size_t>(place_of[static_cast<std::size_t>(one.data[number].shared)])];
      place.buffer = other.buffer;
      place.offset = other.offset;
    } else {
      place.buffer = random.below(parts);
      const std::uint64_t unit = std::max(alignments[number], program::byte_size(tensor.type));
      const std::uint64_t start = std::max<std::uint64_t>(unit, 64);
      std::uint64_t& end = ends[place.buffer];
      end = (end + start - 1) / start * start;
      place.offset = end + (random.chance(2) ? 0 : unit * random.below(17));
      end = place.offset + place.byte_count + kGuardByteCount;
    }
    place_of[number] = static_cast<std::int64_t>(places_.size());
    places_.push_back(std::move(place));
  }
  for (const std::uint64_t end : ends) {
    take(end);
  }
  for (const Place& place : places_) {
    bindings_.push_back({buffers_[place.buffer].get(), place.offset, place.byte_count, 0});
  }
  if (workspace_byte_count != 0) {
    workspace_offset_ = YOKE_BUFFER_ALIGNMENT * (1 + random.below(4));
    workspace_ = static_cast<std::int64_t>(take(workspace_offset_ + workspace_byte_count + kGuardByteCount));
    places_.push_back({static_cast<std::size_t>(workspace_), workspace_offset_, workspace_byte_count, false,
                       "the workspace"});
  }
  images_.resize(buffers_.size());
}

Arena::~Arena() {
  for (Buffer& buffer : buffers_) {
    pool_.buffers.push_back(std::move(buffer));
  }
}

void Arena::upload(const std::vector<Bytes>& arguments) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    images_[i].assign(used_[i], kGuardByte);
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    std::byte* at = images_[places_[i].buffer].data() + places_[i].offset;
    if (i < arguments.size()) {
      std::copy(arguments[i].begin(), arguments[i].end(), at);
    } else {
      std::fill_n(at, places_[i].byte_count, kPoisonByte);
    }
  }
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].write(0, images_[i]);
  }
}

void Arena::check_guards(std::size_t buffer, const Bytes& now) const {
  std::vector<std::pair<std::size_t, std::size_t>> outputs;  // the bytes that may change
  for (const Place& place : places_) {
    if (place.buffer == buffer && !place.is_input) {
      outputs.emplace_back(place.offset, place.offset + place.byte_count);
    }
  }
  std::sort(outputs.begin(), outputs.end());
  outputs.emplace_back(now.size(), now.size());
  const std::byte* sent = images_[buffer].data();
  std::size_t at = 0;
  for (const auto& [begin, end] : outputs) {
    if (at < begin && std::memcmp(now.data() + at, sent + at, begin - at) != 0) {
      const auto first = std::mismatch(now.data() + at, now.data() + begin, sent + at).first;
      fail_written(buffer, static_cast<std::size_t>(first - now.data()));
    }
    at = std::max(at, end);
  }
}

void Arena::fail_written(std::size_t buffer, std::size_t at) const {
  for (const Place& place : places_) {
    const bool inside = place.buffer == buffer && at >= place.offset && at < place.offset + place.byte_count;
    check(!inside, "byte ", at - place.offset, " of the `in` argument '", place.name, "' was written");
    const bool near = place.buffer == buffer && at + kGuardByteCount >= place.offset &&
                      at < place.offset + place.byte_count + kGuardByteCount;
    check(!near, "a guard byte was written, ",
          at < place.offset ? text(place.offset - at, " bytes before ")
                            : text(at - place.offset - place.byte_count, " bytes after the end of "),
          place.name, " (", place.byte_count, " bytes)");
  }
  fail(text("a guard byte was written, at byte ", at, " of a buffer"));
}

std::vector<Bytes> Arena::download() {
  std::vector<Bytes> now;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    now.emplace_back(used_[i]);
    buffers_[i].read(0, now.back());
    check_guards(i, now.back());
  }
  std::vector<Bytes> arguments;
  for (std::size_t i = 0; i < bindings_.size(); ++i) {
    const auto begin = now[places_[i].buffer].begin() + static_cast<std::ptrdiff_t>(places_[i].offset);
    arguments.emplace_back(begin, begin + static_cast<std::ptrdiff_t>(places_[i].byte_count));
  }
  return arguments;
}

Routine link(const Plugin& plugin, const Code& code, std::uint32_t entry, const Arena& arena) {
  return link(plugin, code, entry, arena.bindings(), arena.workspace());
}

}  // namespace yoke::conformance
