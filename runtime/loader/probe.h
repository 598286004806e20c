// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe.h: loads a plugin in a child process first (abi.md rule 33), and remembers what came
// of it.
#pragma once

#include <yoke/runtime/runtime.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "loader/file_check.h"

namespace yoke::loader {

struct ProbeVerdict {
  Refusal refusal;    // empty: it passed
  std::string stage;  // how far a refused one got, as in BackendCandidate::stage
  // It depends on nothing but the file: a crash does, a library that is missing today does not.
  bool lasting = false;
};

// One run of the child; waits for it, at most a little longer than `timeout`, and leaves no process behind.
// Nothing: the child could not be started, and `why_not` says so. Threads: any; forks nothing itself.
struct ProbeRequest {
  std::filesystem::path program;
  std::chrono::milliseconds timeout;
  std::filesystem::path file;  // canonical
  std::string name;
  Stamp stamp;
};
std::optional<ProbeVerdict> run_probe(const ProbeRequest& request, std::string& why_not);

// Verdicts on disk, one small file each, by everything that would make them stale. What is damaged, or was
// written by somebody else, is not there.
class ProbeCache {
 public:
  // Empty: nothing is kept.
  explicit ProbeCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::optional<ProbeVerdict> find(const Stamp& stamp, const std::string& key) const;
  void keep(const Stamp& stamp, const std::string& key, const std::filesystem::path& file,
            const ProbeVerdict& verdict) const;
  // Where the verdict on that file is kept, or would be.
  std::filesystem::path file_of(const Stamp& stamp) const;

 private:
  void prune() const;
  std::filesystem::path folder_;
};

// A runtime's probing: which files, with which program, and what is known already. Thread-safe.
class Prober {
 public:
  explicit Prober(const RuntimeOptions& options);

  struct Answer {
    Refusal refusal;
    std::string stage;
    std::string probed;  // for the report
  };
  // Starts the child where it must. `name` is the backend's.
  Answer ask(const std::string& name, const File& file, const Admission& admission);
  // What is known without starting anything.
  Answer recall(const std::string& name, const File& file, const Admission& admission) const;

 private:
  std::string exempt(const File& file) const;  // why it is not probed; empty: it is
  std::string key(const std::string& name, const Admission& admission) const;
  std::optional<ProbeVerdict> known(const Stamp& stamp, const std::string& key) const;

  const ProbeOptions options_;
  std::filesystem::path program_;
  Refusal no_program_;  // why there is none
  Stamp program_stamp_;
  const std::filesystem::path trusted_folder_;
  const ProbeCache cache_;
  mutable std::mutex mutex_;
  std::map<std::string, ProbeVerdict> verdicts_;
};

}  // namespace yoke::loader
