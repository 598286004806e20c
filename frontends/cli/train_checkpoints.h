// SPDX-License-Identifier: Apache-2.0
// frontends/cli/train_checkpoints.h: the checkpoints of yoke train: which are read at the start, and when one is due.
#pragma once

#include <yoke/checkpoint.h>
#include <yoke/schedules.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train.h"

namespace yoke::cli {

// The note with the preparation of the data.
inline constexpr const char* kDataNote = "data";
// The note with a hash of the training and test data.
inline constexpr const char* kRowsNote = "rows";
// In the folder of checkpoints, with --early-stopping: the checkpoint with the lowest validation loss.
inline constexpr const char* kBestFolder = "best";

// Reads the parameters of a checkpoint, or of a folder's best if the run has saved one, otherwise of its latest.
Checkpoint load_best_or_latest(const std::filesystem::path& from);

// Removes a folder of checkpoints at the end if nothing is in it.
class NewFolder {
 public:
  explicit NewFolder(std::filesystem::path folder) : folder_(std::move(folder)) {}
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

 private:
  const std::filesystem::path folder_;
};

class TrainCheckpoints {
 public:
  // Reads the file of --load, so that a wrong one is an Error before the data is read. Opens the folder of --save, if
  // one is given, and locks it. Throws Error: it has checkpoints, and --resume is missing.
  // `config` is the text of its file with options.
  TrainCheckpoints(const TrainOptions& options, std::string config);

  // Reads the latest checkpoint, with --resume. Throws Error if the run's options would give other results.
  void read(const TrainData& data);
  // Sets the parameters of --load, or goes on from the checkpoint. Returns the steps that are done. Keeps `plateau`,
  // whose state is part of the checkpoints, or null.
  std::int64_t start(Trainer& trainer, ReduceOnPlateau* plateau);
  // A warning about arrays in the file of --load that the model does not have; empty if it has all.
  std::string unused_text(const Trainer& trainer) const;
  bool is_on() const { return folder_.has_value(); }
  // The step of the latest checkpoint that this run has written or started from; empty: none.
  std::optional<std::int64_t> saved_step() const { return saved_step_; }
  // Whether a checkpoint is due after this step, besides the one at the end.
  bool is_due(const Trainer& trainer) const;
  // Does nothing if the latest checkpoint is of this step. The first checkpoint of the run, or the first best one, is
  // followed by the file with its options.
  void save(Trainer& trainer);

  // With --early-stopping: the step and the validation loss of the best checkpoint, which has a folder of its own.
  struct Best {
    std::int64_t step = 0;
    double loss = 0;
  };
  std::optional<Best> best() const;
  void save_best(Trainer& trainer, double loss);

 private:
  void read_load();
  void open_folders();
  // "DIR/step-3 belongs to a run " and the difference from this one. Throws Error.
  [[noreturn]] void refuse(const std::string& difference) const;
  [[noreturn]] void refuse_other_data(const std::string& name) const;
  void refuse_other(const std::string& name, const std::string& before, const std::string& now) const;
  void refuse_other_steps() const;
  void restore_plateau();
  void write_config();
  std::map<std::string, std::string> notes_now() const;

  const TrainOptions& options_;
  std::string config_;  // empty: it is written
  ReduceOnPlateau* plateau_ = nullptr;
  std::vector<NamedArray> loaded_;  // of --load, until start() restores them
  std::vector<std::string> loaded_names_;
  std::optional<CheckpointFolder> folder_;
  std::optional<CheckpointFolder> best_folder_;
  // Of a folder that the run made. Ends before the folders above, while they are locked.
  std::optional<NewFolder> new_folder_;
  std::optional<Checkpoint> found_;
  std::map<std::string, std::string> notes_;  // the options that decide the results
  std::optional<std::int64_t> saved_step_;
};

}  // namespace yoke::cli
