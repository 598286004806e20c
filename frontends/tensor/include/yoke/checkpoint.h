// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/checkpoint.h: a training run's state in files, to go on after the process has ended.
#pragma once

#include <yoke/data_parallel.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace yoke {

// A checkpoint is a folder with weights.safetensors, optimizer.safetensors and checkpoint.json, which describes the run
// and has the sizes and checksums of the others.
struct Checkpoint {
  TrainerState state;
  std::map<std::string, std::string> notes;  // the caller's own, such as the options of a command
  std::filesystem::path folder;              // from which it was read; otherwise empty
};

// Reads a checkpoint, or the latest one of a folder of checkpoints. Everything is checked; set_state() then checks that
// it fits the run. Errors: kNotFound: there is no checkpoint; kPermissionDenied; kDataLoss: a file is missing or
// damaged; the message names it. Nothing older is read instead. The run that writes the checkpoints may go on: if it
// removes a checkpoint that is being read, the next one is read.
Checkpoint load_checkpoint(const std::filesystem::path& folder);
// The file with the parameters of a checkpoint, or of the latest one of a folder. Reads and checks
// only checkpoint.json.
std::filesystem::path checkpoint_weights(const std::filesystem::path& folder);
// As load_checkpoint, without the optimizer's states, which are not read.
Checkpoint load_checkpoint_weights(const std::filesystem::path& folder);
// Only what checkpoint.json says: the arrays of the state are empty.
Checkpoint load_checkpoint_notes(const std::filesystem::path& folder);

// A folder of the checkpoints of one run: step-000000000120, ..., and the symbolic link `latest`. A checkpoint is
// written into a hidden folder, flushed to the disk and renamed, and only then becomes `latest`; so each one is
// whole, whenever the process is killed. The folder is locked while the object lives. Not thread-safe.
class CheckpointFolder {
 public:
  // Creates the folder if it does not exist, removes what a killed process has left unfinished, and adds `latest` if it
  // is missing or names no checkpoint. Keeps the last `keep` checkpoints, at least 1. Errors: kInvalidArgument: `keep`
  // is 0; `folder` or a parent folder is a file or a symbolic link without a target; `latest` in it is not a symbolic
  // link; kFailedPrecondition: another process or object uses it; kPermissionDenied.
  explicit CheckpointFolder(const std::filesystem::path& folder, std::uint32_t keep = 3);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::filesystem::path& path() const;
  // The one that `latest` names or, without it, the one with the highest step.
  std::optional<std::filesystem::path> latest() const;
  // Writes a checkpoint, which replaces one of the same step, and removes all but the last `keep`. Returns its folder.
  // Errors: kResourceExhausted: the disk is full; kUnavailable: flushing failed; the earlier checkpoints are unchanged.
  std::filesystem::path save(const TrainerState& state, const std::map<std::string, std::string>& notes = {});
  std::filesystem::path save(Trainer& trainer, const std::map<std::string, std::string>& notes = {}) {
    return save(trainer.state(), notes);
  }

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace yoke
