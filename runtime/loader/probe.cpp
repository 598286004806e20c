// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe.cpp: decides which files are probed, and with which program.
#include "loader/probe.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <string>
#include <system_error>

#include "loader/memory_reader.h"
#include "loader/permissions.h"
#include "loader/search.h"

namespace yoke::loader {
namespace {

std::filesystem::path cache_folder(const RuntimeOptions& options) {
  if (!options.probe.remember || is_privileged()) {
    return {};
  }
  if (!options.probe.cache_dir.empty()) {
    return options.probe.cache_dir;
  }
  std::filesystem::path cache = environment("XDG_CACHE_HOME");
  if (!cache.is_absolute()) {
    const std::filesystem::path home = environment("HOME");
    cache = home.is_absolute() ? home / ".cache" : std::filesystem::path();
  }
  return cache.empty() ? cache : cache / "yoke" / "probe";
}

// The path of yoke-probe relative to libyoke, in an installation or in a build tree.
std::filesystem::path own_program() {
  const auto libraries = install_folder().parent_path();
  std::error_code failed;
  for (const char* folder : {YOKE_PROBE_FROM_LIBRARY, "../" YOKE_PROBE_FOLDER}) {
    auto path = (libraries / folder / "yoke-probe").lexically_normal();
    if (std::filesystem::exists(path, failed)) {
      return path;
    }
  }
  return (libraries / YOKE_PROBE_FROM_LIBRARY / "yoke-probe").lexically_normal();
}

}  // namespace

Prober::Prober(const RuntimeOptions& options)
    : options_(options.probe), trusted_folder_(install_folder()), cache_(cache_folder(options)) {
  if (options_.which == ProbeOptions::Which::kNone) {
    return;
  }
  program_ = options_.program.empty() ? own_program() : options_.program;
  std::error_code failed;
  const auto canonical = std::filesystem::canonical(program_, failed);
  struct stat status {};
  if (failed || !program_.is_absolute() || ::stat(canonical.c_str(), &status) != 0) {
    no_program_ = {program_.string() + " does not exist", "install it, or set ProbeOptions::program"};
    return;
  }
  program_ = canonical;
  program_stamp_ = stamp_of(status);
  no_program_ =
      check_rights(program_, status, is_privileged() ? Doubts::kRefusedPrivileged : Doubts::kWarn).refusal;
}

std::string Prober::exempt(const File& file) const {
  if (options_.which == ProbeOptions::Which::kNone) {
    return "no: probing is turned off";
  }
  if (options_.which == ProbeOptions::Which::kUntrusted && file.path.parent_path() == trusted_folder_) {
    return "no: it is in the install folder";
  }
  return {};
}

// The key of a verdict: it contains everything that makes the verdict stale when it changes.
std::string Prober::key(const std::string& name, const PluginOptions& options,
                        const Admission& admission) const {
  const Stamp& stamp = admission.stamp;
  std::string key = "yoke-probe-verdict 1 " + name;
  for (const auto number : {static_cast<std::int64_t>(stamp.device), static_cast<std::int64_t>(stamp.inode),
                            static_cast<std::int64_t>(stamp.byte_count), stamp.modified_ns, stamp.changed_ns,
                            static_cast<std::int64_t>(program_stamp_.inode), program_stamp_.modified_ns}) {
    key += " " + std::to_string(number);
  }
  for (const auto& text : texts_of(options)) {
    key += " option=" + printable(text, text.size());
  }
  return key + " abi=" + std::to_string(YOKE_ABI_MAJOR) + "." + std::to_string(YOKE_ABI_MINOR) +
         " build_id=" + admission.build_id;
}

std::optional<ProbeVerdict> Prober::known(const Stamp& stamp, const std::string& key) const {
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = verdicts_.find(key); found != verdicts_.end()) {
      return found->second;
    }
  }
  auto verdict = cache_.find(stamp, key);
  if (verdict && verdict->refusal) {
    verdict->refusal.fix += "; to probe it again, remove " + cache_.file_of(stamp).string();
  }
  return verdict;
}

Prober::Answer Prober::recall(const std::string& name, const PluginOptions& options, const File& file,
                              const Admission& admission) const {
  if (auto why = exempt(file); !why.empty()) {
    return {{}, {}, std::move(why)};
  }
  if (auto verdict = known(admission.stamp, key(name, options, admission))) {
    return {std::move(verdict->refusal), std::move(verdict->stage), "cached"};
  }
  return {{}, {}, no_program_ ? "no: " + no_program_.reason : "no: it has not been loaded yet"};
}

Prober::Answer Prober::probe(const std::string& name, const PluginOptions& options, const File& file,
                             const Admission& admission) {
  if (auto why = exempt(file); !why.empty()) {
    return {{}, {}, std::move(why)};
  }
  const auto cannot = [&](const std::string& why, const std::string& fix) {
    Refusal refusal;
    if (options_.required) {
      refusal = {"it could not be probed: " + why, fix};
    }
    return Answer{std::move(refusal), "checked", "no: " + why};
  };
  const std::string by = key(name, options, admission);
  if (auto verdict = known(admission.stamp, by)) {
    return {std::move(verdict->refusal), std::move(verdict->stage), "cached"};
  }
  if (no_program_) {
    return cannot(no_program_.reason, no_program_.fix);
  }
  std::string why_not;
  auto verdict = run_probe({program_, options_.timeout, file.path, name, options, admission.stamp}, why_not);
  if (!verdict) {
    return cannot(why_not, "install yoke-probe again");
  }
  if (verdict->lasting) {
    cache_.keep(admission.stamp, by, file.path, *verdict);
    const std::lock_guard lock(mutex_);
    verdicts_.insert_or_assign(by, *verdict);
  }
  return {std::move(verdict->refusal), std::move(verdict->stage), "yes"};
}

}  // namespace yoke::loader
