// SPDX-License-Identifier: Apache-2.0
// runtime/loader/registry.h: the backends of one runtime by name: found, refused or loaded.
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

#include "loader/allow_list.h"
#include "loader/entered_plugin.h"
#include "loader/file_check.h"
#include "loader/host_api.h"
#include "loader/logger.h"
#include "loader/plugin_options.h"
#include "loader/probe.h"
#include "loader/search.h"

namespace yoke::loader {

// Thread-safe. `get` loads one plugin at a time.
class Registry {
 public:
  Registry(const RuntimeOptions& options, detail::Logger& logger);

  std::vector<BackendCandidate> list() const;

  // Registers a plugin that is linked into the process. Throws Error kInvalidArgument or kAlreadyExists.
  void add(std::string_view name, yoke_plugin_entry_fn entry);

  // Throws Error kNotFound, as get(), if there is no candidate. `context` starts the message.
  void check_known(std::string_view name, const char* context) const;

  // Returns the backend `name`, and loads its plugin unless it is in use. `make` wraps an entered plugin.
  // Throws Error kNotFound if there is no candidate, kFailedPrecondition if the first candidate is refused.
  using Make = std::function<std::shared_ptr<Backend>(EnteredPlugin)>;
  std::shared_ptr<Backend> get(std::string_view name, const std::shared_ptr<const Host>& host,
                               const Make& make);

 private:
  struct Candidate {
    BackendCandidate report;
    File file;
    yoke_plugin_entry_fn entry = nullptr;  // set for a registered plugin, which has no file
  };
  // The result of the last attempt to load a candidate.
  struct Outcome {
    std::string stage;
    Refusal refusal;
    std::string probed;
    Stamp stamp;  // of the file at that time
  };
  struct Registered {
    std::string name;
    yoke_plugin_entry_fn entry;
  };

  // Candidates of one name, or of all names, in search order.
  std::vector<Candidate> find(std::optional<std::string_view> name) const;
  void find_in(const Folder& folder, std::optional<std::string_view> name,
               std::vector<Candidate>& found) const;
  void add_file(const std::string& name, const std::filesystem::path& path,
                std::vector<Candidate>& found) const;
  void check(Candidate& candidate) const;
  void recall(Candidate& candidate) const;
  Trust trust() const;
  const PluginOptions& options_of(const std::string& name) const;
  Outcome load(const Candidate& candidate, const std::shared_ptr<const Host>& host, EnteredPlugin& plugin);
  void warn_once(const Candidate& candidate, const std::vector<std::string>& warnings);
  void remember(const Candidate& candidate, Outcome outcome);
  void log_shadowed(const std::vector<Candidate>& found) const;
  Error unknown(std::string_view name, const char* context = "") const;

  const SearchPath path_;
  detail::Logger& logger_;
  const std::optional<AllowList> allow_list_;
  const std::map<std::string, PluginOptions> plugin_options_;
  Prober prober_;             // thread-safe
  std::mutex loading_;        // held while a plugin is loaded; locked before mutex_
  mutable std::mutex mutex_;  // guards the members below; never held while a plugin runs
  std::vector<Registered> registered_;
  std::map<std::string, std::weak_ptr<Backend>, std::less<>> backends_;
  std::map<std::pair<std::string, std::filesystem::path>, Outcome> outcomes_;
  std::set<std::string> warned_;
};

}  // namespace yoke::loader
