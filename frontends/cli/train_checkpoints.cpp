// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_checkpoints.cpp: reads and writes the checkpoints of yoke train.
#include "train_checkpoints.h"

#define XXH_INLINE_ALL
#include <xxhash.h>
#include <yoke/npz.h>
#include <yoke/output_file.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>
#include <yoke/runtime/shell_word.h>
#include <yoke/safetensors.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "config_file.h"
#include "text.h"
#include "train_setup.h"

namespace yoke::cli {
namespace {

constexpr const char* kLossNote = "validation-loss";
constexpr const char* kPlateauNote = "plateau";
constexpr const char* kStepsNote = "steps";

// The options that decide what the parameters become, besides those in TrainerState.
std::map<std::string, std::string> notes_of(const TrainOptions& options, const TrainData& data) {
  std::map<std::string, std::string> notes = {
      {"model", options.model},
      {"lr", shortest(options.learning_rate)},
      {"momentum", shortest(options.momentum)},
      {"weight-decay", shortest(options.weight_decay)},
      {"no-decay", join(options.no_decay, ",")},
      {"clip", options.clip},
      {"nesterov", options.nesterov ? "on" : "off"},
      {"precision", precision_name(options.precision)},
      {"reduction", options.reduction == Reduction::kMean ? "mean" : "sum"},
      {"schedule", options.schedule},
      {"augment", options.augment},
      {"sync-batch-norm", options.sync_batch_norm ? "on" : "off"},
      {"shuffle", options.shuffle ? "on" : "off"},
      {"lines", options.lines ? "on" : "off"},
      {"reproducible", std::to_string(options.reproducible)},
      {"early-stopping", options.early_stopping != 0 ? "on" : "off"},
      {"task", data.is_regression ? "regression" : "classification"},
      {"label", options.label},
      {"split", options.splits.empty() ? "" : std::to_string(options.split)},
      {"test-share", shortest(options.test_share)}};
  if (options.schedule_needs_steps) {
    notes[kStepsNote] = std::to_string(total_steps(options, data));
  }
  return notes;
}

// Whether a run had this file as the value of an option. False if its options cannot be read.
bool is_file_of_run(const std::filesystem::path& config, const std::string& option,
                    const std::filesystem::path& file) {
  const std::vector<std::string> arguments = {"--config", config.string()};
  try {
    const std::vector<std::string> words = with_config(arguments).words;
    const auto at = std::find_if(words.begin(), words.end(),
                                 [&](const std::string& word) { return word.starts_with(option + "="); });
    return (at == words.end() ? "" : at->substr(option.size() + 1)) == file;
  } catch (const UsageError&) {
    return false;
  }
}

// "3 columns (a, b, c)", with at most ten names.
std::string listed(std::vector<std::string> names, const char* noun, const char* plural) {
  constexpr std::size_t kMost = 10;
  const std::string count = counted(names.size(), noun, plural);
  const bool is_cut = names.size() > kMost;
  names.resize(std::min(names.size(), kMost));
  return count + " (" + join(names, ", ") + (is_cut ? ", ...)" : ")");
}

// Prepared data that has the same numbers has the same hash.
std::string hash_of(const TrainData& data) {
  std::string hash;
  for (const Tensor& part :
       {data.text, data.train_inputs, data.train_labels, data.test_inputs, data.test_labels}) {
    const auto bytes = part ? part.host_bytes() : std::span<const std::byte>();
    const XXH64_hash_t number = XXH3_64bits(bytes.data(), bytes.size());
    hash += (hash.empty() ? "" : "-") + std::to_string(number);
  }
  return hash;
}

// What distinguishes data sets, besides the numbers in them.
std::string data_text(const Preparation& data) {
  switch (data.kind) {
    case DataKind::kTable:
      return "a table with " + listed(data.columns, "column", "columns") + " and the label '" + data.label +
             "'" + (data.classes.empty() ? "" : " of " + listed(data.classes, "class", "classes"));
    case DataKind::kImages:
      return "images of " + std::to_string(data.row_count) + " x " + std::to_string(data.column_count) +
             " pixels in " + counted(data.output_count, "class", "classes");
    default:
      return "a text with " + counted(data.output_count, "different character");
  }
}

// Removes from `now` what notes of older versions of yoke lack, so that the two can be compared.
Preparation as_noted_before(Preparation now, const Preparation& before) {
  const auto is_blank = [](const std::string& name) {
    return name.find_first_not_of(" \t") == std::string::npos;
  };
  now.column_count = before.column_count == 0 ? 0 : now.column_count;
  for (std::size_t c = 0; c < std::min(now.columns.size(), before.columns.size()); ++c) {
    now.columns[c] = is_blank(before.columns[c]) ? before.columns[c] : now.columns[c];
  }
  now.label = is_blank(before.label) ? before.label : now.label;
  return now;
}

}  // namespace

Checkpoint load_best_or_latest(const std::filesystem::path& from) {
  std::error_code ignored;
  if (std::filesystem::exists(from / kBestFolder, ignored)) {
    try {
      return load_checkpoint_weights(from / kBestFolder);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kNotFound) {
        throw;
      }
    }
  }
  return load_checkpoint_weights(from);
}

NewFolder::~NewFolder() {
  std::error_code ignored;  // it has files
  std::filesystem::remove(folder_ / kBestFolder, ignored);
  std::filesystem::remove(folder_, ignored);
}

TrainCheckpoints::TrainCheckpoints(const TrainOptions& options, std::string config)
    : options_(options), config_(std::move(config)) {
  if (!options.resume) {  // before the folder is made
    read_load();
  }
  if (!options.checkpoints.empty()) {
    open_folders();
  }
  if (options.resume && !folder_->latest()) {
    read_load();
  }
}

void TrainCheckpoints::read_load() {
  if (options_.load.empty()) {
    return;
  }
  std::error_code ignored;
  loaded_ = std::filesystem::is_directory(options_.load, ignored)
                ? load_best_or_latest(options_.load).state.parameters
                : load_arrays(options_.load);
  for (const NamedArray& array : loaded_) {
    loaded_names_.push_back(array.name);
  }
}

void TrainCheckpoints::open_folders() {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const bool is_new = fs::symlink_status(options_.checkpoints, ignored).type() == fs::file_type::not_found;
  folder_.emplace(options_.checkpoints, static_cast<std::uint32_t>(options_.keep));
  if (is_new) {
    new_folder_.emplace(options_.checkpoints);
  }
  const fs::path config = options_.checkpoints / kConfigFile;
  check_can_save(config);
  if (fs::exists(config, ignored) && !is_config_of_run(config)) {
    if (!folder_->latest()) {
      throw Error(ErrorCode::kFailedPrecondition, config.string() +
                                                      " was not written by yoke train, and saving would "
                                                      "replace it; rename it, or choose another folder");
    }
    config_.clear();
  }
  if (options_.early_stopping != 0) {
    best_folder_.emplace(options_.checkpoints / kBestFolder, 1);
  }
  if (!options_.resume && (folder_->latest() || (best_folder_ && best_folder_->latest()))) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        options_.checkpoints.string() +
            " already has checkpoints; add --resume to continue from the latest, or choose another folder");
  }
}

void TrainCheckpoints::refuse_other_data(const std::string& name) const {
  // The options that choose the rows are the same, so the contents of the files differ.
  const std::filesystem::path config = options_.checkpoints / kConfigFile;
  if (is_config_of_run(config) && is_file_of_run(config, "--data", options_.data) &&
      is_file_of_run(config, "--splits", options_.splits)) {
    throw Error(ErrorCode::kInvalidArgument,
                name + (options_.splits.empty() ? "" : ", or " + options_.splits.string() + ",") +
                    " has changed since " + folder_->latest()->string() +
                    " was saved; restore it, or start from the parameters of that run with --load and "
                    "another --save");
  }
  refuse("on data other than " + name);
}

void TrainCheckpoints::refuse(const std::string& difference) const {
  const std::filesystem::path config = options_.checkpoints / kConfigFile;
  const auto steps = found_->notes.find(kStepsNote);
  const bool is_finished =
      steps != found_->notes.end() && steps->second == std::to_string(found_->state.step);
  throw Error(ErrorCode::kInvalidArgument,
              folder_->latest()->string() + " belongs to a run " + difference + "; " +
                  (is_finished ? "that run is finished; "
                   : is_config_of_run(config)
                       ? "to continue that run, use --config " + detail::shell_word(config.string()) +
                             " --save " + detail::shell_word(options_.checkpoints.string()) + " --resume, or "
                       : "give the same options, or ") +
                  "start from its parameters with --load and another --save");
}

void TrainCheckpoints::refuse_other(const std::string& name, const std::string& before,
                                    const std::string& now) const {
  if (before != now) {
    refuse("with --" + name + " '" + before + "', but this one has '" + now + "'");
  }
}

void TrainCheckpoints::refuse_other_steps() const {
  const auto now = notes_.find(kStepsNote);
  const auto before = found_->notes.find(kStepsNote);
  if (now == notes_.end() || before == found_->notes.end() || before->second == now->second) {
    return;
  }
  const std::string given = options_.steps != 0 ? "--steps " + now->second
                                                : "--epochs " + std::to_string(options_.epochs) +
                                                      ", which is " + now->second + " steps";
  refuse("of " + before->second + " steps, but this one has " + given + "; with --schedule " +
         options_.schedule + ", the learning rates depend on that number");
}

void TrainCheckpoints::read(const TrainData& data) {
  notes_ = notes_of(options_, data);
  const std::string prepared = preparation_text(data.preparation);
  const std::string rows = folder_ ? hash_of(data) : std::string();
  if (!folder_ || !folder_->latest()) {
    notes_[kDataNote] = prepared;
    notes_[kRowsNote] = rows;
    return;
  }
  const std::filesystem::path latest = *folder_->latest();
  found_ = load_checkpoint(latest);
  bool is_other_data = false;
  const auto data_before = found_->notes.find(kDataNote);
  if (data_before != found_->notes.end()) {  // first: the data decides defaults, as that of --model
    const Preparation before = parse_preparation(data_before->second, latest.string());
    const Preparation now = as_noted_before(parse_preparation(prepared, data.name), before);
    if (data_text(before) != data_text(now)) {
      refuse("on " + data_text(before) + ", but this one is on " + data.name + ", " + data_text(now));
    }
    is_other_data = preparation_text(before) != preparation_text(now);
  }
  // The optimizer decides the default of --lr.
  refuse_other("optimizer", found_->state.optimizer_name, optimizer_of(options_).name());
  for (const auto& [name, value] : notes_) {
    const auto before = found_->notes.find(name);
    if (name != kStepsNote && before != found_->notes.end()) {
      refuse_other(name, before->second, value);
    }
  }
  refuse_other("seed", std::to_string(found_->state.base_seed), std::to_string(options_.seed));
  notes_[kDataNote] = prepared;
  notes_[kRowsNote] = rows;
  const auto rows_before = found_->notes.find(kRowsNote);
  if (is_other_data || (rows_before != found_->notes.end() && rows_before->second != rows)) {
    refuse_other_data(data.name);
  }
  refuse_other("batch", std::to_string(found_->state.batch_rows), std::to_string(options_.batch));
  refuse_other_steps();
}

std::int64_t TrainCheckpoints::start(Trainer& trainer, ReduceOnPlateau* plateau) {
  plateau_ = plateau;
  if (!options_.load.empty() && !found_) {
    trainer.restore_params(loaded_, options_.load.string());
    loaded_.clear();
  }
  if (found_) {
    trainer.set_state(found_->state);
    saved_step_ = found_->state.step;
    if (plateau_ != nullptr) {
      restore_plateau();
    }
    found_.reset();
  }
  return trainer.step_count();
}

std::string TrainCheckpoints::unused_text(const Trainer& trainer) const {
  constexpr std::size_t kMostNames = 5;
  std::vector<std::string> names;
  for (const std::string& name : loaded_names_) {
    const auto& all = trainer.owner_params();
    if (std::none_of(all.begin(), all.end(), [&](const Parameter& each) { return each.name() == name; })) {
      names.push_back("'" + name + "'");
    }
  }
  if (names.empty()) {
    return {};
  }
  const std::size_t count = names.size();
  names.resize(std::min(count, kMostNames));
  return options_.load.string() + " has " + detail::counted(count, "array") +
         " that the model does not have: " + join(names, ", ") +
         (count > kMostNames ? " and " + std::to_string(count - kMostNames) + " more" : "") +
         "; if they belong to the model, give the --model of that file";
}

void TrainCheckpoints::restore_plateau() {
  const auto note = found_->notes.find(kPlateauNote);
  try {
    plateau_->set_state(note == found_->notes.end() ? std::string() : note->second);
  } catch (const Error& error) {
    throw Error(ErrorCode::kDataLoss,
                folder_->latest()->string() + ": note '" + kPlateauNote + "': " + error.what());
  }
}

std::map<std::string, std::string> TrainCheckpoints::notes_now() const {
  std::map<std::string, std::string> notes = notes_;
  if (plateau_ != nullptr) {
    notes[kPlateauNote] = plateau_->state();
  }
  return notes;
}

bool TrainCheckpoints::is_due(const Trainer& trainer) const {
  const std::int64_t every = options_.save_every != 0 ? options_.save_every : trainer.steps_per_epoch();
  return is_on() && trainer.step_count() % every == 0;
}

void TrainCheckpoints::save(Trainer& trainer) {
  if (folder_ && saved_step_ != trainer.step_count()) {
    folder_->save(trainer, notes_now());
    saved_step_ = trainer.step_count();
    write_config();
  }
}

void TrainCheckpoints::write_config() {
  if (config_.empty()) {
    return;
  }
  OutputFile file(options_.checkpoints / kConfigFile);
  file.stream() << config_;
  file.commit();
  config_.clear();
}

std::optional<TrainCheckpoints::Best> TrainCheckpoints::best() const {
  if (!best_folder_ || !best_folder_->latest()) {
    return std::nullopt;
  }
  const Checkpoint found = load_checkpoint_notes(*best_folder_->latest());
  const auto note = found.notes.find(kLossNote);
  Best best{.step = found.state.step};
  const std::string text = note == found.notes.end() ? std::string() : note->second;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), best.loss);
  if (error != std::errc() || end != text.data() + text.size()) {
    throw Error(ErrorCode::kDataLoss, best_folder_->latest()->string() + " has no note '" + kLossNote +
                                          "' with a number; remove the folder to find the best again");
  }
  return best;
}

void TrainCheckpoints::save_best(Trainer& trainer, double loss) {
  std::map<std::string, std::string> notes = notes_now();
  notes[kLossNote] = shortest(loss);
  best_folder_->save(trainer, notes);
  write_config();
}

}  // namespace yoke::cli
