// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/checkpoint_file.cpp: writes and reads the files of one checkpoint.
#include "checkpoint_file.h"

#include <yoke/output_file.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/folder.h>
#include <yoke/safetensors.h>
#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "data/files.h"
#include "data/safetensors.h"
#include "json_tree.h"

namespace yoke {

namespace fs = std::filesystem;
using nlohmann::json;

namespace {

constexpr const char* kFormat = "yoke.checkpoint/1";
constexpr const char* kChecksum = "crc32";  // of the other fields
constexpr const char* kDescription = "checkpoint.json";
constexpr const char* kWeights = "weights.safetensors";
constexpr const char* kOptimizer = "optimizer.safetensors";
constexpr std::uintmax_t kLargestDescription = 16U << 20U;
constexpr std::string_view kStep = "step-";
constexpr std::size_t kStepDigits = 12;

std::uint64_t checksum(std::span<const std::byte> bytes) {
  return crc32_z(0, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
}

// Of a JSON value, whatever its spaces.
std::uint64_t checksum_of(const json& value) {
  const std::string text = value.dump();
  return checksum(std::as_bytes(std::span(text)));
}

[[noreturn]] void damaged(const fs::path& file, const std::string& why) {
  throw Error(
      ErrorCode::kDataLoss,
      file.string() + ": " + why + "; the checkpoint is damaged: remove its folder to use the one before it");
}

std::vector<std::byte> read_part(const fs::path& file) {
  try {
    return detail::read_file(file);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) {
      throw;
    }
    damaged(file, "the file is missing");
  }
}

// Reads checkpoint.json, and names the file and the field in every Error.
class Description {
 public:
  explicit Description(const fs::path& folder) : file_(folder / kDescription) {
    std::error_code error;
    if (fs::file_size(file_, error) > kLargestDescription && !error) {
      damaged(file_, "it has more than 16 MiB");
    }
    const std::vector<std::byte> bytes = read_part(file_);
    if (!tree_.parse({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) || !all_.is_object()) {
      damaged(file_, "it is not a JSON object");
    }
    const std::uint64_t expected = count(kChecksum);
    all_.erase(kChecksum);
    if (expected != checksum_of(all_)) {
      damaged(file_, "its checksum is wrong");
    }
    if (this->text("format") != kFormat) {
      throw Error(ErrorCode::kUnimplemented, file_.string() + ": the format is '" +
                                                 this->text("format").substr(0, 100) +
                                                 "', and this version of yoke reads " + kFormat);
    }
  }

  const fs::path& file() const { return file_; }
  std::string text(const char* key) const { return text_of(at(all_, key), key); }
  std::int64_t integer(const char* key) const { return integer_of(at(all_, key), key); }
  std::uint64_t count(const char* key) const { return count_of(at(all_, key), key); }
  const json& list(const char* key) const {
    const json& found = at(all_, key);
    if (!found.is_array()) {
      damaged(file_, "'" + std::string(key) + "' is not a list");
    }
    return found;
  }
  const json& object(const char* key) const {
    const json& found = at(all_, key);
    if (!found.is_object()) {
      damaged(file_, "'" + std::string(key) + "' is not an object");
    }
    return found;
  }
  std::optional<double> number(const char* key) const {
    const json& found = at(all_, key);
    if (!found.is_number() && !found.is_null()) {
      damaged(file_, "'" + std::string(key) + "' is not a number");
    }
    return found.is_null() ? std::nullopt : std::optional(found.get<double>());
  }
  std::string text_of(const json& value, const std::string& key) const {
    if (!value.is_string()) {
      damaged(file_, "'" + key + "' is not text");
    }
    return value.get<std::string>();
  }
  std::int64_t integer_of(const json& value, const std::string& key) const {
    if (!value.is_number_integer() ||
        (value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX)) {
      damaged(file_, "'" + key + "' is not a whole number");
    }
    return value.get<std::int64_t>();
  }
  std::uint64_t count_of(const json& value, const std::string& key) const {
    if (!value.is_number_unsigned()) {
      damaged(file_, "'" + key + "' is not a whole number from 0 on");
    }
    return value.get<std::uint64_t>();
  }
  bool has(const char* key) const { return all_.contains(key); }
  const json& at(const json& object, const char* key) const {
    const auto found = object.find(key);
    if (found == object.end()) {
      damaged(file_, "it has no '" + std::string(key) + "'");
    }
    return *found;
  }

 private:
  fs::path file_;
  detail::JsonTree tree_;
  json& all_ = tree_.value;
};

Checkpoint read_description(const Description& from) {
  Checkpoint made;
  TrainerState& state = made.state;
  state.step = from.integer("step");
  state.batch = from.count("batch");
  state.optimizer_name = from.text("optimizer");
  state.base_seed = from.integer("base_seed");
  state.row_count = from.count("row_count");
  state.batch_rows = from.count("batch_rows");
  state.learning_rate = from.number("learning_rate");
  if (from.has("precision")) {  // older checkpoints are f32
    state.precision = from.text("precision");
    state.loss_scale = {from.number("loss_scale").value_or(1), from.integer("clean_steps"),
                        from.integer("skipped_steps")};
  }
  state.shards = static_cast<std::uint32_t>(std::min<std::uint64_t>(from.count("shards"), kMaxShards));
  state.devices = from.text("devices");
  for (const json& value : from.list("bindings")) {
    state.bindings.push_back(from.integer_of(value, "bindings"));
  }
  for (const json& value : from.list("backends")) {
    state.backends.push_back(from.text_of(value, "backends"));
  }
  for (const auto& [key, value] : from.object("notes").items()) {
    made.notes[key] = from.text_of(value, key);
  }
  return made;
}

std::vector<NamedArray> read_arrays(const Description& from, const fs::path& folder, const char* name) {
  const json& files = from.object("files");
  const json& described = from.at(files, name);
  if (!described.is_object()) {
    damaged(from.file(), "'" + std::string(name) + "' is not an object");
  }
  const fs::path path = folder / name;
  const std::vector<std::byte> bytes = read_part(path);
  if (bytes.size() != from.count_of(from.at(described, "bytes"), "bytes")) {
    damaged(path,
            "it has " + detail::counted(bytes.size(), "byte") + ", which is not what checkpoint.json says");
  }
  if (checksum(bytes) != from.count_of(from.at(described, "crc32"), "crc32")) {
    damaged(path, "its checksum is wrong");
  }
  return detail::parse_safetensors(bytes, path.string()).arrays;
}

// The folder of a checkpoint: the given one, or the latest in it.
fs::path find_checkpoint(const fs::path& folder) {
  std::error_code error;
  std::error_code ignored;
  if (fs::exists(folder / kDescription, error)) {
    return folder;
  }
  if (error) {
    throw Error(ErrorCode::kPermissionDenied, "cannot read the folder " + folder.string() + ": " +
                                                  error.message() + "; check its permissions");
  }
  if (const auto latest = detail::latest_in(folder)) {
    return *latest;
  }
  const std::string name = (folder / "").parent_path().filename().string();  // also of "step-000000000120/"
  if (detail::step_of(name) && fs::is_directory(folder, ignored)) {
    return folder;  // a checkpoint without its description, which is an Error of the reader
  }
  throw Error(ErrorCode::kNotFound,
              folder.string() + " has no checkpoint; give a folder that a run has saved checkpoints to");
}

}  // namespace

std::string detail::step_name(std::int64_t step) {
  std::string digits = std::to_string(step);
  digits.insert(0, kStepDigits - std::min(kStepDigits, digits.size()), '0');
  return std::string(kStep) + digits;
}

std::optional<std::int64_t> detail::step_of(const std::string& name) {
  std::int64_t step = 0;
  const char* const end = name.data() + name.size();
  if (!name.starts_with(kStep) || name.size() < kStep.size() + kStepDigits) {
    return std::nullopt;
  }
  const auto [stop, error] = std::from_chars(name.data() + kStep.size(), end, step);
  return error == std::errc() && stop == end && step >= 0 ? std::optional(step) : std::nullopt;
}

std::optional<fs::path> detail::latest_in(const fs::path& folder) {
  std::error_code ignored;
  const fs::path named = fs::read_symlink(folder / kLatest, ignored);  // empty if `latest` is not a link
  if (step_of(named.string()) && fs::is_directory(folder / named, ignored)) {
    return folder / named;
  }
  std::optional<std::int64_t> highest;
  for (const std::string& name : names_in(folder)) {
    highest = std::max(highest, step_of(name));
  }
  return highest ? std::optional(folder / step_name(*highest)) : std::nullopt;
}

void detail::write_checkpoint(const fs::path& folder, const TrainerState& state,
                              const std::map<std::string, std::string>& notes) {
  JsonTree tree;
  json& all = tree.value;
  all["files"] = json::object();
  for (const auto& [name, arrays] :
       {std::pair(kWeights, &state.parameters), std::pair(kOptimizer, &state.optimizer)}) {
    write_safetensors(folder / name, *arrays, {}, false);
    const std::vector<std::byte> written = read_file(folder / name);
    json& described = all["files"][name] = json::object();
    described["bytes"] = written.size();
    described["crc32"] = checksum(written);
  }
  const auto set = [&all](const char* key, const auto& value) {
    json& place = all[key];  // first, because a value for which no place can be made could not be destroyed
    place = value;
  };
  set("format", kFormat);
  set("step", state.step);
  set("batch", state.batch);
  set("row_count", state.row_count);
  set("batch_rows", state.batch_rows);
  set("bindings", state.bindings);
  set("optimizer", state.optimizer_name);
  set("base_seed", state.base_seed);
  set("learning_rate", state.learning_rate ? json(*state.learning_rate) : json(nullptr));
  set("precision", state.precision);
  set("loss_scale", state.loss_scale.scale);
  set("clean_steps", state.loss_scale.clean_steps);
  set("skipped_steps", state.loss_scale.skipped_steps);
  set("shards", state.shards);
  set("devices", state.devices);
  set("backends", state.backends);
  set("notes", notes);
  std::string text;
  try {
    all[kChecksum] = checksum_of(all);
    text = all.dump(1);
  } catch (const json::type_error&) {
    throw Error(ErrorCode::kInvalidArgument, "cannot save a checkpoint to " + folder.parent_path().string() +
                                                 ": a note is not UTF-8; change it");
  }
  NewFile file(folder / kDescription);
  file.write(std::as_bytes(std::span(text)));
  file.commit(false);
}

namespace {

// Returns read(checkpoint). If the run goes on and removes the checkpoint meanwhile, reads the next one. What seems to
// be damaged is read twice, because the run may have replaced it by another one of the same step.
template <class Read>
auto read_checkpoint(const fs::path& folder, const Read& read) {
  constexpr int kMostTries = 100;
  for (int tries = 1;; ++tries) {
    std::error_code ignored;
    const bool is_link = fs::is_symlink(folder, ignored);  // `latest`
    fs::path found = is_link ? folder.parent_path() / fs::read_symlink(folder, ignored) : folder;
    try {
      found = find_checkpoint(found);
      return read(found);
    } catch (const Error&) {
      if (tries == kMostTries || (tries > 1 && fs::exists(found, ignored))) {
        throw;
      }
    }
  }
}

Checkpoint load(const fs::path& folder, bool with_optimizer) {
  return read_checkpoint(folder, [&](const fs::path& found) {
    const Description from(found);
    Checkpoint made = read_description(from);
    made.folder = found;
    made.state.parameters = read_arrays(from, found, kWeights);
    if (with_optimizer) {
      made.state.optimizer = read_arrays(from, found, kOptimizer);
    }
    return made;
  });
}

}  // namespace

fs::path checkpoint_weights(const fs::path& folder) {
  return read_checkpoint(folder, [](const fs::path& found) {
    const Description described(found);  // throws if it is damaged
    return found / kWeights;
  });
}

Checkpoint load_checkpoint_notes(const fs::path& folder) {
  return read_checkpoint(folder, [](const fs::path& found) {
    Checkpoint made = read_description(Description(found));
    made.folder = found;
    return made;
  });
}

Checkpoint load_checkpoint(const fs::path& folder) {
  return load(folder, true);
}

Checkpoint load_checkpoint_weights(const fs::path& folder) {
  return load(folder, false);
}

}  // namespace yoke
