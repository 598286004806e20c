// SPDX-License-Identifier: Apache-2.0
// runtime/loader/registry.h: one runtime's backends by name: found, refused, loaded.
#pragma once

#include <yoke/runtime/runtime.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "device/state.h"
#include "loader/allow_list.h"
#include "loader/file_check.h"
#include "loader/probe.h"
#include "loader/search.h"

namespace yoke::loader {

// Thread-safe. `get` loads one plugin at a time.
class Registry {
 public:
  Registry(const RuntimeOptions& options, detail::Logger& logger);

  std::vector<BackendCandidate> list() const;
  void add(std::string_view name, yoke_plugin_entry_fn entry);

  using Make = std::function<std::shared_ptr<Backend>(std::unique_ptr<detail::BackendState>)>;
  std::shared_ptr<Backend> get(std::string_view name, const std::shared_ptr<detail::RuntimeState>& runtime,
                               const Make& make);

 private:
  struct Candidate {
    BackendCandidate report;
    File file;
    yoke_plugin_entry_fn entry = nullptr;  // registered in the process: there is no file
  };
  // How far a candidate got the last time it was asked for.
  struct Outcome {
    std::string stage;
    Refusal refusal;
    std::string probed;
    Stamp stamp;  // of the file that this was said of
  };
  struct Registered {
    std::string name;
    yoke_plugin_entry_fn entry;
  };

  // In the order of search; of one name only, or all.
  std::vector<Candidate> find(std::optional<std::string_view> name) const;
  void find_in(const Folder& folder, std::optional<std::string_view> name,
               std::vector<Candidate>& found) const;
  void add_file(const std::string& name, const std::filesystem::path& path,
                std::vector<Candidate>& found) const;
  void check(Candidate& candidate) const;
  void recall(Candidate& candidate) const;
  Trust trust() const;
  Outcome load(const Candidate& candidate, detail::BackendState& state);
  void warn_once(const Candidate& candidate, const std::vector<std::string>& warnings);
  void remember(const Candidate& candidate, Outcome outcome);
  void log_shadowed(const std::vector<Candidate>& found) const;
  Error unknown(std::string_view name) const;

  const SearchPath path_;
  detail::Logger& logger_;
  const std::optional<AllowList> allow_list_;
  Prober prober_;             // locks for itself
  std::mutex loading_;        // held while a plugin is loaded; taken before mutex_
  mutable std::mutex mutex_;  // of what follows; held for moments
  std::vector<Registered> registered_;
  std::map<std::string, std::weak_ptr<Backend>, std::less<>> backends_;
  std::map<std::pair<std::string, std::filesystem::path>, Outcome> outcomes_;
  std::set<std::string> warned_;
};

}  // namespace yoke::loader
