// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe.h: loads a plugin in a child process first (rule 33), and remembers the verdict.
#pragma once

#include <yoke/runtime/runtime.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "loader/file_check.h"
#include "loader/plugin_options.h"

namespace yoke::loader {

struct ProbeVerdict {
  Refusal refusal;    // empty: it passed
  std::string stage;  // the stage that a refused plugin reached, as in BackendCandidate::stage
  // Whether the verdict depends on the file only, like a crash, and
  // not on the system, like a missing library.
  bool lasting = false;
};

struct ProbeRequest {
  std::filesystem::path program;
  std::chrono::milliseconds timeout;
  std::filesystem::path file;  // canonical
  std::string name;
  PluginOptions options;
  Stamp stamp;
};
// Runs the child once and waits for it, at most slightly longer than `timeout`. Leaves
// no process running. Returns nothing if the child could not be started, with the reason
// in `why_not`. Thread-safe; uses posix_spawn, not fork.
std::optional<ProbeVerdict> run_probe(const ProbeRequest& request, std::string& why_not);

// Verdicts on disk, one small file each. The key holds everything that makes a verdict stale when it changes.
// Files that are damaged or that another user may have written are ignored.
class ProbeCache {
 public:
  // With an empty folder the cache stays empty.
  explicit ProbeCache(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::optional<ProbeVerdict> find(const Stamp& stamp, const std::string& key) const;
  void keep(const Stamp& stamp, const std::string& key, const std::filesystem::path& file,
            const ProbeVerdict& verdict) const;
  // The path of the verdict on a file, whether it exists or not.
  std::filesystem::path file_of(const Stamp& stamp) const;

 private:
  void prune() const;
  std::filesystem::path folder_;
};

// Decides which files a runtime probes, runs the probe, and remembers verdicts. Thread-safe.
class Prober {
 public:
  explicit Prober(const RuntimeOptions& options);

  struct Answer {
    Refusal refusal;
    std::string stage;
    std::string probed;  // BackendCandidate::probed
  };
  // Returns the known verdict, or runs the child. `name` is the backend's name.
  Answer probe(const std::string& name, const PluginOptions& options, const File& file,
               const Admission& admission);
  // The same, without running the child.
  Answer recall(const std::string& name, const PluginOptions& options, const File& file,
                const Admission& admission) const;

 private:
  std::string exempt(const File& file) const;  // the reason not to probe it; empty: probe it
  std::string key(const std::string& name, const PluginOptions& options, const Admission& admission) const;
  std::optional<ProbeVerdict> known(const Stamp& stamp, const std::string& key) const;

  const ProbeOptions options_;
  std::filesystem::path program_;
  Refusal no_program_;  // why yoke-probe cannot be used, if so
  Stamp program_stamp_;
  const std::filesystem::path trusted_folder_;
  const ProbeCache cache_;
  mutable std::mutex mutex_;
  std::map<std::string, ProbeVerdict> verdicts_;
};

}  // namespace yoke::loader
