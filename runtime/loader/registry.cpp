// SPDX-License-Identifier: Apache-2.0
// runtime/loader/registry.cpp: first found wins; what was refused is an error when it was asked for by name.
#include "loader/registry.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "loader/enter.h"
#include "loader/library.h"

namespace yoke::loader {
namespace {

std::string in_quotes(std::string_view text) {
  return "\"" + std::string(text) + "\"";
}

std::string place(const BackendCandidate& report) {
  return report.path.empty() ? "the registered plugin" : report.path.string();
}

}  // namespace

Registry::Registry(const RuntimeOptions& options, detail::Logger& logger)
    : path_(search_path(options)), logger_(logger) {
  for (const auto& remark : path_.remarks) {
    logger_.log(LogLevel::kWarn, "plugin.path_skip reason=" + in_quotes(remark));
  }
}

void Registry::add(std::string_view name, yoke_plugin_entry_fn entry) {
  if (!is_backend_name(name) || entry == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "register_backend: '" + std::string(name) + "' " +
                    (entry == nullptr ? "comes without an entry: pass the plugin's yoke_plugin_entry"
                                      : "is no backend name: use [a-z][a-z0-9_]*, at most 64 characters"));
  }
  const std::lock_guard lock(mutex_);
  if (std::any_of(registered_.begin(), registered_.end(),
                  [&](const auto& one) { return one.name == name; })) {
    throw Error(ErrorCode::kAlreadyExists,
                "register_backend: '" + std::string(name) +
                    "' is registered already: register each name once per runtime");
  }
  registered_.push_back({std::string(name), entry});
}

void Registry::add_file(const std::string& name, const std::filesystem::path& path,
                        std::vector<Candidate>& found) const {
  Candidate candidate;
  candidate.file = resolve(path);
  candidate.report.name = name;
  candidate.report.path = candidate.file.path;
  const auto same = [&](const Candidate& other) {
    return other.report.name == name && other.file.inode != 0 && other.file.inode == candidate.file.inode &&
           other.file.device == candidate.file.device;
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
  std::filesystem::directory_iterator entry(folder.path, failed);
  for (; !failed && entry != std::filesystem::directory_iterator(); entry.increment(failed)) {
    if (name_part(entry->path())) {
      files.push_back(entry->path());
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

void Registry::check(Candidate& candidate) {
  auto& report = candidate.report;
  Refusal refusal;
  if (!is_backend_name(report.name)) {
    refusal = {"'" + report.name + "' in its file name is no backend name",
               "rename it: [a-z][a-z0-9_]*, at most 64 characters"};
  } else if (candidate.entry == nullptr) {
    refusal = admit(candidate.file);
  }
  report.stage = refusal ? "found" : "checked";
  report.usable = !refusal;
  report.verdict = refusal ? refusal.reason : "not loaded yet";
  report.mend = refusal.mend;
}

void Registry::recall(Candidate& candidate) const {
  const std::lock_guard lock(mutex_);
  const auto known = outcomes_.find({candidate.report.name, candidate.report.path});
  if (known == outcomes_.end() || !candidate.report.usable) {
    return;
  }
  auto& report = candidate.report;
  const auto& [stage, refusal] = known->second;
  report.stage = stage;
  report.usable = !refusal;
  report.verdict = refusal ? refusal.reason : "loaded";
  report.mend = refusal.mend;
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
  return reports;
}

Registry::Outcome Registry::load(const Candidate& candidate, detail::BackendState& state) const {
  auto entry = candidate.entry;
  if (entry == nullptr) {
    if (auto refusal = admit(candidate.file)) {
      return {"found", std::move(refusal)};
    }
    auto library = open_library(candidate.file.path);
    if (library.entry == nullptr) {
      return {library.mapped ? "opened" : "checked", {std::move(library.reason), std::move(library.mend)}};
    }
    entry = library.entry;
  }
  auto refusal = enter(state, entry);
  return {refusal ? "entered" : "loaded", std::move(refusal)};
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

Error Registry::unknown(std::string_view name) const {
  std::string usable;
  std::string refused;
  for (const auto& report : list()) {
    if (!report.shadowed_by.empty()) {
      continue;
    }
    if (report.usable) {
      usable.append(usable.empty() ? "" : ", ").append(report.name);
    } else {
      refused.append(refused.empty() ? "" : "; ").append(report.name).append(" was refused (");
      refused.append(place(report)).append(": ").append(report.verdict).append(")");
    }
  }
  std::string text = "no backend '" + std::string(name) + "': found " + (usable.empty() ? "none" : usable);
  if (!refused.empty()) {
    text += "; " + refused;
  }
  for (const auto& remark : path_.remarks) {
    text += "; " + remark;
  }
  if (!is_backend_name(name)) {
    text += "; a backend's name is [a-z][a-z0-9_]*, at most 64 characters";
    return {ErrorCode::kNotFound, text};
  }
  text += "; check the spelling, or put " + file_name(name) + " in one of the folders that were searched:";
  for (const auto* folders : {&path_.first, &path_.after}) {
    for (const auto& folder : *folders) {
      text += " " + folder.path.string() + " (" + folder.origin + ")";
    }
  }
  return {ErrorCode::kNotFound, text};
}

std::shared_ptr<Backend> Registry::get(std::string_view name,
                                       const std::shared_ptr<detail::RuntimeState>& runtime,
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
  auto state = std::make_unique<detail::BackendState>(runtime);
  state->name = name;
  state->path = winner.report.path;
  Outcome outcome = load(winner, *state);
  remember(winner, outcome);
  if (outcome.refusal) {
    logger_.log(LogLevel::kWarn, "plugin.refuse name=" + state->name +
                                     " path=" + in_quotes(place(winner.report)) + " stage=" + outcome.stage +
                                     " reason=" + in_quotes(outcome.refusal.reason));
    throw Error(ErrorCode::kFailedPrecondition, "backend '" + state->name + "': " + place(winner.report) +
                                                    " was refused: " + outcome.refusal.reason + "; " +
                                                    outcome.refusal.mend);
  }
  auto backend = make(std::move(state));
  const std::lock_guard lock(mutex_);
  backends_.insert_or_assign(std::string(name), backend);
  return backend;
}

}  // namespace yoke::loader
