// SPDX-License-Identifier: Apache-2.0
// runtime/loader/registry.cpp: the first candidate of a name wins. If it is refused, get() fails.
#include "loader/registry.h"

#include <yoke/runtime/closest.h>
#include <yoke/runtime/folder.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "loader/enter.h"
#include "loader/library.h"
#include "loader/memory_reader.h"
#include "loader/permissions.h"

namespace yoke::loader {
namespace {

constexpr const char* kRefusedBeforeProbe = "no: it was refused before probing";

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

std::string place(const BackendCandidate& report) {
  return report.path.empty() ? "the registered plugin" : printable(report.path.string(), PATH_MAX);
}

std::optional<AllowList> read_allow_list(const RuntimeOptions& options) {
  auto path = options.allow_list;
  if (path.empty() && options.search_environment) {
    path = environment("YOKE_PLUGIN_ALLOW_LIST");
  }
  return path.empty() ? std::nullopt : std::optional(AllowList::read(path));
}

std::map<std::string, PluginOptions> parse_options(const RuntimeOptions& options) {
  std::map<std::string, PluginOptions> parsed;
  for (const auto& [name, texts] : options.plugin_options) {
    if (!is_backend_name(name)) {
      throw Error(ErrorCode::kInvalidArgument, "option of a plugin: '" + printable(name) +
                                                   "' is not a valid backend name: use " +
                                                   std::string(kNameForm));
    }
    parsed.emplace(name, parse_plugin_options(name, texts));
  }
  return parsed;
}

}  // namespace

Registry::Registry(const RuntimeOptions& options, detail::Logger& logger)
    : path_(search_path(options)),
      logger_(logger),
      allow_list_(read_allow_list(options)),
      plugin_options_(parse_options(options)),
      prober_(options) {
  for (const auto& ignored : path_.ignored) {
    logger_.log(LogLevel::kWarn, "plugin.path_skip reason=" + in_quotes(ignored.sentence()));
  }
}

void Registry::add(std::string_view name, yoke_plugin_entry_fn entry) {
  if (!is_backend_name(name) || entry == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "register_backend: '" + std::string(name) + "' " +
                    (entry == nullptr ? "has a null entry: pass the plugin's yoke_plugin_entry"
                                      : "is not a valid backend name: use " + std::string(kNameForm)));
  }
  const std::lock_guard lock(mutex_);
  if (std::any_of(registered_.begin(), registered_.end(),
                  [&](const auto& one) { return one.name == name; })) {
    throw Error(ErrorCode::kAlreadyExists,
                "register_backend: '" + std::string(name) +
                    "' is already registered: register each name once per runtime");
  }
  registered_.push_back({std::string(name), entry});
}

void Registry::add_file(const std::string& name, const std::filesystem::path& path,
                        std::vector<Candidate>& found) const {
  Candidate candidate;
  candidate.file = resolve(path);
  candidate.report.name = printable(name);  // a file name may hold any byte
  candidate.report.path = candidate.file.path;
  const auto same = [&](const Candidate& other) {
    return other.report.name == candidate.report.name && other.file.stamp.inode != 0 &&
           other.file.stamp.inode == candidate.file.stamp.inode &&
           other.file.stamp.device == candidate.file.stamp.device;
  };
  if (std::none_of(found.begin(), found.end(), same)) {
    found.push_back(std::move(candidate));
  }
}

void Registry::find_in(const Folder& folder, std::optional<std::string_view> name,
                       std::vector<Candidate>& found) const {
  std::error_code failed;
  if (name) {
    const auto path = folder.path / file_name(*name);
    if (std::filesystem::exists(std::filesystem::symlink_status(path, failed))) {
      add_file(std::string(*name), path, found);
    }
    return;
  }
  std::vector<std::filesystem::path> files;
  for (const std::string& file : detail::names_in(folder.path)) {
    if (name_part(file)) {
      files.push_back(folder.path / file);
    }
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    add_file(*name_part(file), file, found);
  }
}

std::vector<Registry::Candidate> Registry::find(std::optional<std::string_view> name) const {
  std::vector<Candidate> found;
  for (const auto& folder : path_.first) {
    find_in(folder, name, found);
  }
  {
    const std::lock_guard lock(mutex_);
    for (const auto& one : registered_) {
      if (!name || one.name == *name) {
        Candidate candidate;
        candidate.report.name = one.name;
        candidate.entry = one.entry;
        found.push_back(std::move(candidate));
      }
    }
  }
  for (const auto& folder : path_.after) {
    find_in(folder, name, found);
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    const auto winner = std::find_if(found.begin(), found.end(), [&](const Candidate& other) {
      return other.report.name == found[i].report.name;
    });
    if (winner != found.begin() + static_cast<std::ptrdiff_t>(i)) {
      found[i].report.shadowed_by = place(winner->report);
    }
  }
  return found;
}

void Registry::check(Candidate& candidate) const {
  auto& report = candidate.report;
  Refusal refusal;
  report.stage = "found";
  report.probed = kRefusedBeforeProbe;
  if (!is_backend_name(report.name)) {
    refusal = {"'" + report.name + "' in its file name is not a valid backend name",
               "rename the file: a backend name is " + std::string(kNameForm)};
  } else if (candidate.entry == nullptr) {
    auto admission = admit(candidate.file, trust());
    refusal = std::move(admission.refusal);
    report.warnings = std::move(admission.warnings);
    report.build_id = admission.build_id;
    if (!refusal) {
      auto answer = prober_.recall(report.name, options_of(report.name), candidate.file, admission);
      report.probed = std::move(answer.probed);
      report.stage = answer.refusal ? std::move(answer.stage) : "checked";
      refusal = std::move(answer.refusal);
    }
  } else {
    report.stage = "checked";
    report.probed = "no: it is linked into this process";
  }
  report.usable = !refusal;
  report.verdict = refusal ? refusal.reason : "not loaded yet";
  report.fix = refusal.fix;
}

void Registry::recall(Candidate& candidate) const {
  const std::lock_guard lock(mutex_);
  const auto known = outcomes_.find({candidate.report.name, candidate.report.path});
  // A refusal by the current check is newer than the recorded outcome.
  if (known == outcomes_.end() || (!candidate.report.usable && candidate.report.probed != "cached") ||
      (candidate.entry == nullptr && known->second.stamp != candidate.file.stamp)) {
    return;
  }
  auto& report = candidate.report;
  const Outcome& outcome = known->second;
  report.stage = outcome.stage;
  report.usable = !outcome.refusal;
  report.verdict = outcome.refusal ? outcome.refusal.reason : "loaded";
  report.fix = outcome.refusal.fix;
  if (!outcome.probed.empty()) {
    report.probed = outcome.probed;
  }
}

std::vector<BackendCandidate> Registry::list() const {
  auto found = find(std::nullopt);
  std::vector<BackendCandidate> reports;
  for (auto& candidate : found) {
    check(candidate);
    recall(candidate);
    reports.push_back(std::move(candidate.report));
  }
  std::stable_sort(reports.begin(), reports.end(),
                   [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& ignored : path_.ignored) {
    BackendCandidate report;
    report.path = ignored.entry;
    report.stage = "found";
    report.verdict = ignored.refusal.reason;
    report.fix = ignored.refusal.fix;
    report.probed = kRefusedBeforeProbe;
    reports.push_back(std::move(report));
  }
  return reports;
}

const PluginOptions& Registry::options_of(const std::string& name) const {
  static const PluginOptions none;
  const auto found = plugin_options_.find(name);
  return found == plugin_options_.end() ? none : found->second;
}

Trust Registry::trust() const {
  return {is_privileged(), allow_list_ ? &*allow_list_ : nullptr};
}

void Registry::warn_once(const Candidate& candidate, const std::vector<std::string>& warnings) {
  for (const auto& warning : warnings) {
    bool is_new = false;
    {
      const std::lock_guard lock(mutex_);
      is_new = warned_.insert(warning).second;
    }
    if (is_new) {
      logger_.log(LogLevel::kWarn, "plugin.doubt name=" + candidate.report.name + " path=" +
                                       in_quotes(place(candidate.report)) + " reason=" + in_quotes(warning));
    }
  }
}

Registry::Outcome Registry::load(const Candidate& candidate, const std::shared_ptr<const Host>& host,
                                 EnteredPlugin& plugin) {
  if (candidate.entry != nullptr) {
    auto refusal = enter(host, candidate.entry, options_of(plugin.name), plugin);
    return {refusal ? "entered" : "loaded", std::move(refusal), "", {}};
  }
  const auto admission = admit(candidate.file, trust());
  Outcome outcome{"found", admission.refusal, "", admission.stamp};
  if (outcome.refusal) {
    return outcome;
  }
  warn_once(candidate, admission.warnings);
  auto answer = prober_.probe(candidate.report.name, options_of(plugin.name), candidate.file, admission);
  outcome.probed = std::move(answer.probed);
  if (answer.refusal) {
    outcome.stage = std::move(answer.stage);
    outcome.refusal = std::move(answer.refusal);
    return outcome;
  }
  if (logger_.logs(LogLevel::kDebug)) {
    logger_.log(LogLevel::kDebug,
                "plugin.open name=" + candidate.report.name + " path=" + in_quotes(place(candidate.report)) +
                    " build_id=" + admission.build_id + " probed=" + in_quotes(outcome.probed));
  }
  const auto library = open_library(candidate.file.path, admission);
  outcome.stage = library.mapped ? "opened" : "checked";
  outcome.refusal = library.refusal;
  if (!outcome.refusal) {
    outcome.refusal = enter(host, library.entry, options_of(plugin.name), plugin);
    outcome.stage = outcome.refusal ? "entered" : "loaded";
  }
  return outcome;
}

void Registry::remember(const Candidate& candidate, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  outcomes_.insert_or_assign({candidate.report.name, candidate.report.path}, std::move(outcome));
}

void Registry::log_shadowed(const std::vector<Candidate>& found) const {
  for (const auto& candidate : found) {
    if (!candidate.report.shadowed_by.empty() && logger_.logs(LogLevel::kInfo)) {
      logger_.log(LogLevel::kInfo, "plugin.shadowed name=" + candidate.report.name +
                                       " path=" + in_quotes(place(candidate.report)) +
                                       " by=" + in_quotes(candidate.report.shadowed_by));
    }
  }
}

Error Registry::unknown(std::string_view name, const char* context) const {
  std::string usable;
  std::string refused;
  std::vector<std::string> names;
  for (const auto& report : list()) {
    if (!report.shadowed_by.empty() || report.name.empty()) {
      continue;
    }
    names.push_back(report.name);
    if (report.usable) {
      usable.append(usable.empty() ? "" : ", ").append(report.name);
    } else {
      refused.append(refused.empty() ? "" : "; ").append(report.name).append(" was refused (");
      refused.append(place(report)).append(": ").append(report.verdict).append(")");
    }
  }
  const std::string hint = did_you_mean(name, names);
  std::string text = context + ("no backend '" + std::string(name)) + "'" + hint +
                     (hint.empty() ? ": found " : " Found ") + (usable.empty() ? "none" : usable);
  if (!refused.empty()) {
    text += "; " + refused;
  }
  for (const auto& ignored : path_.ignored) {
    text += "; " + ignored.sentence();
  }
  if (!is_backend_name(name)) {
    text += "; a backend name is " + std::string(kNameForm);
    return {ErrorCode::kNotFound, text};
  }
  text += "; check the spelling, or put " + file_name(name) + " in one of the searched folders: ";
  const char* separator = "";
  for (const auto* folders : {&path_.first, &path_.after}) {
    for (const auto& folder : *folders) {
      text += separator + folder.path.string() + " (" + folder.origin + ")";
      separator = ", ";
    }
  }
  return {ErrorCode::kNotFound, text};
}

void Registry::check_known(std::string_view name, const char* context) const {
  if (!is_backend_name(name) || find(name).empty()) {
    throw unknown(name, context);
  }
}

std::shared_ptr<Backend> Registry::get(std::string_view name, const std::shared_ptr<const Host>& host,
                                       const Make& make) {
  const std::lock_guard loading(loading_);
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = backends_.find(name); known != backends_.end()) {
      if (auto backend = known->second.lock()) {
        return backend;
      }
    }
  }
  const auto found = is_backend_name(name) ? find(name) : std::vector<Candidate>();
  if (found.empty()) {
    throw unknown(name);
  }
  log_shadowed(found);
  const Candidate& winner = found.front();
  EnteredPlugin plugin;
  plugin.name = name;
  plugin.path = winner.report.path;
  const Outcome outcome = load(winner, host, plugin);
  remember(winner, outcome);
  if (outcome.refusal) {
    logger_.log(LogLevel::kWarn, "plugin.refuse name=" + plugin.name +
                                     " path=" + in_quotes(place(winner.report)) + " stage=" + outcome.stage +
                                     " reason=" + in_quotes(outcome.refusal.reason));
    throw Error(ErrorCode::kFailedPrecondition, "backend '" + plugin.name + "': " + place(winner.report) +
                                                    " was refused: " + outcome.refusal.reason + "; " +
                                                    outcome.refusal.fix);
  }
  auto backend = make(std::move(plugin));
  const std::lock_guard lock(mutex_);
  backends_.insert_or_assign(std::string(name), backend);
  return backend;
}

}  // namespace yoke::loader
