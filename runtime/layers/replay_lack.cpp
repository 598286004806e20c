// SPDX-License-Identifier: Apache-2.0
// runtime/layers/replay_lack.cpp: a replay on a backend that offers less than the one that was recorded.
#include <algorithm>
#include <cstring>

#include "layers/replay.h"

namespace yoke::layers {
namespace {

using F = Function;

constexpr std::uint64_t kChunk = std::uint64_t{1} << 20U;
constexpr std::size_t kMostNotes = 1000;

std::uint64_t word_of(const void* memory) {
  return reinterpret_cast<std::uint64_t>(memory);
}

std::int32_t type_of(const Option& option) {
  constexpr std::int32_t kTypes[] = {YOKE_OPTION_FLAG, YOKE_OPTION_INTEGER, YOKE_OPTION_NUMBER,
                                     YOKE_OPTION_TEXT};
  static_assert(std::size(kTypes) == std::variant_size_v<OptionValue>);
  return kTypes[option.value.index()];
}

}  // namespace

// Why the backend has no such function; null: it has.
const char* Replayer::lacking(const Row& row) const {
  const std::string_view table = row.table;
  if (table == YOKE_STREAM_TABLE && !backend_.has_streams) {
    return "it has no streams";
  }
  if (table == YOKE_PROGRAM_TABLE && !backend_.has_programs) {
    return "it runs no programs";
  }
  const bool is_lacking = (table == YOKE_PEER_TABLE && !backend_.has_peer) ||
                          slots_[static_cast<std::size_t>(row.function)] == nullptr;
  return is_lacking ? "it does not offer it" : nullptr;
}

// Work on a stream that the backend does without is done when its call returns.
void Replayer::stand_in(const Row& row, const TraceRecord& record) {
  for (std::size_t i = 0; i < record.values.size(); ++i) {
    const Kind made = row.arguments[i].makes;
    if (row.arguments[i].kind == Kind::kOutHandle && record.values[i].number != 0 &&
        (made == Kind::kStream || made == Kind::kEvent)) {
      put({record.plugin, record.values[i].number}, {made});
    }
  }
}

void Replayer::note(const TraceRecord& record, const std::string& text) {
  const std::pair<std::string, std::string> about(record.function->name, text);
  const bool is_room = notes_.size() < kMostNotes || notes_.count(about) != 0;
  ++notes_[is_room ? about : std::pair(std::string("calls"), std::string("for reasons that are not listed"))];
}

void Replayer::skip(const Row* row, const TraceRecord& record, const std::string& why) {
  ++report_.skipped;
  note(record, "skipped: " + why);
  if (row != nullptr) {
    note_writes(*row, record, false, false);
  }
}

// The options that the backend has; what a device opened well with elsewhere it opens without here.
std::vector<Option> Replayer::known_options(const TraceRecord& record, const std::vector<Option>& given) {
  if (record.code != YOKE_OK) {
    return given;
  }
  std::vector<Option> known;
  for (const Option& option : given) {
    const bool is_known = std::any_of(specs_.begin(), specs_.end(), [&](const OptionSpec& spec) {
      return spec.name == option.name && spec.type == type_of(option);
    });
    if (is_known) {
      known.push_back(option);
    } else {
      note(record, "done without its option '" + option.name + "': it does not offer it");
    }
  }
  return known;
}

bool Replayer::leaves(std::uint64_t buffer, std::uint64_t offset, std::uint64_t byte_count) const {
  const auto found = std::find_if(live_.begin(), live_.end(), [&](const auto& one) {
    return one.second.kind == Kind::kBuffer && one.second.word == buffer;
  });
  const std::uint64_t size = found == live_.end() ? 0 : found->second.byte_count;
  return offset > size || byte_count > size - offset;
}

// Stream, dst, dst_offset, byte_count, pattern, pattern_byte_count.
std::int32_t Replayer::fill_by_copies(const Prepared& call, detail::Status& status) {
  const auto& words = call.words;
  const std::uint64_t pattern_size = words[5];
  if (leaves(words[1], words[2], words[3]) || pattern_size == 0 || words[3] % pattern_size != 0) {
    return YOKE_OUT_OF_RANGE;
  }
  std::vector<std::byte> chunk(std::min(words[3], kChunk / pattern_size * pattern_size));
  for (std::uint64_t at = 0; at < chunk.size(); at += pattern_size) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): of this call's areas
    std::memcpy(chunk.data() + at, reinterpret_cast<const std::byte*>(words[4]), pattern_size);
  }
  std::int32_t code = YOKE_OK;
  for (std::uint64_t at = 0; at < words[3] && code == YOKE_OK; at += chunk.size()) {
    const std::uint64_t copy[] = {0,
                                  words[1],
                                  words[2] + at,
                                  word_of(chunk.data()),
                                  std::min<std::uint64_t>(chunk.size(), words[3] - at),
                                  0,
                                  word_of(status.get())};
    code = issue(F::from_host, copy);
  }
  return code;
}

// Stream, dst, dst_offset, src, src_offset, byte_count.
std::int32_t Replayer::copy_by_host(const Prepared& call, detail::Status& status) {
  const auto& words = call.words;
  if (leaves(words[1], words[2], words[5]) || leaves(words[3], words[4], words[5])) {
    return YOKE_OUT_OF_RANGE;
  }
  std::vector<std::byte> chunk(std::min(words[5], kChunk));
  std::int32_t code = YOKE_OK;
  for (std::uint64_t at = 0; at < words[5] && code == YOKE_OK; at += chunk.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(chunk.size(), words[5] - at);
    const std::uint64_t out[] = {
        0, words[3], words[4] + at, word_of(chunk.data()), count, word_of(status.get())};
    const std::uint64_t in[] = {0,     words[1], words[2] + at,        word_of(chunk.data()),
                                count, 0,        word_of(status.get())};
    code = issue(F::to_host, out);
    code = code == YOKE_OK ? issue(F::from_host, in) : code;
  }
  return code;
}

// Does with other functions what the backend does not offer; false: there is no way.
bool Replayer::emulate(const Row& row, Prepared& call, detail::Status& status, std::int32_t& code) {
  if (row.function == F::buffer_create && call.words[2] != YOKE_MEMORY_DEVICE) {
    call.words[2] = YOKE_MEMORY_DEVICE;
    status.clear();
    code = issue(row.function, call.words.data());
    return code != YOKE_UNIMPLEMENTED;
  }
  if (row.function != F::fill && row.function != F::device_to_device) {
    return false;
  }
  sync(call.stream);
  status.clear();
  code = row.function == F::fill ? fill_by_copies(call, status) : copy_by_host(call, status);
  return true;
}

}  // namespace yoke::layers
