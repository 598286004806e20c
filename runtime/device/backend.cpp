// SPDX-License-Identifier: Apache-2.0
// runtime/device/backend.cpp: a backend's description of itself and of its devices.
#include <yoke/runtime/device.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "device/call.h"
#include "device/options.h"
#include "loader/enter.h"

namespace yoke {
namespace {

constexpr std::uint32_t kUsualOptionCount = 16;

// A plugin's text, which may lack its closing zero.
template <std::size_t N>
std::string text_of(const char (&bytes)[N]) {
  return {bytes, strnlen(bytes, N)};
}

}  // namespace

Backend::Backend(std::unique_ptr<detail::BackendState> state) : state_(std::move(state)) {}

Backend::~Backend() {
  if (state_->unclosed_devices > 0) {
    // The plugin still has devices and may use the host table, so plugin and state are leaked.
    state_->runtime->log_leak([&] {
      return "plugin.leak name=" + state_->name +
             " unclosed_devices=" + std::to_string(state_->unclosed_devices.load()) +
             " reason=\"it was not destroyed, because objects of its devices are alive\"";
    });
    (void)state_.release();  // NOLINT(bugprone-unused-return-value)
    return;
  }
  if (const auto failed = loader::release(*state_)) {
    state_->runtime->logger.log_composed(LogLevel::kError, [&] {
      return "plugin.release_failed name=" + state_->name + " reason=\"" + failed.reason + "\"";
    });
  }
}

const std::string& Backend::name() const {
  return state_->name;
}
const std::string& Backend::version() const {
  return state_->version;
}
const std::string& Backend::vendor() const {
  return state_->vendor;
}
const std::filesystem::path& Backend::path() const {
  return state_->path;
}
bool Backend::has_streams() const {
  return state_->has_streams;
}
bool Backend::has_programs() const {
  return state_->has_programs;
}

std::uint32_t Backend::device_count() const {
  std::uint32_t count = 0;
  detail::call<&yoke_backend_api::device_count>(*state_, name(), state_->plugin.get(), &count,
                                                static_cast<char*>(nullptr), std::uint64_t{0});
  return count;
}

std::string Backend::no_device_reason() const {
  std::uint32_t count = 0;
  char reason[1024] = {};
  detail::Status status;
  const auto code = detail::attempt<&yoke_backend_api::device_count>(
      *state_, status, state_->plugin.get(), &count, &reason[0], std::uint64_t{sizeof(reason)});
  if (code != YOKE_STATUS_OK) {
    return detail::make_error(name(), "device_count", code, status).what();
  }
  if (count > 0) {
    return {};
  }
  return reason[0] == '\0' ? "'" + name() + "' found no devices and gave no reason"
                           : loader::printable(text_of(reason), sizeof(reason));
}

DeviceInfo Backend::device_info(std::uint32_t ordinal) const {
  yoke_device_info info{};
  info.struct_size = sizeof(info);
  const std::string where = name() + ":" + std::to_string(ordinal);
  detail::call<&yoke_backend_api::device_describe>(*state_, where, state_->plugin.get(), ordinal, &info);
  return {.name = text_of(info.name),
          .unique_id = text_of(info.unique_id),
          .memory_bytes = info.memory_bytes,
          .type_mask = info.type_mask,
          .kind = info.kind,
          .compute_unit_count = std::max(info.compute_unit_count, 1U),
          .suggested_stream_count = std::max(info.suggested_stream_count, 1U),
          .host_visible = info.host_visible != 0,
          .numa_node = info.numa_node};
}

std::vector<OptionSpec> Backend::option_specs() const {
  std::vector<OptionSpec> specs;
  if (!detail::offers<&yoke_backend_api::option_specs>(*state_)) {
    return specs;
  }
  const auto fail = [&](const std::string& what) {
    detail::Status status;
    const auto code = detail::blame(*state_, status, what);
    throw detail::make_error(name(), "option_specs", code, status);
  };
  const loader::MemoryReader memory;
  for (const auto& row : detail::list<&yoke_backend_api::option_specs, yoke_option_spec>(
           *state_, name(), kUsualOptionCount, state_->plugin.get())) {
    auto spec = detail::to_spec(memory, row);
    if (!spec) {
      fail("listed an option without a name, or with a text in unreadable memory");
    }
    if (std::any_of(specs.begin(), specs.end(), [&](const auto& one) { return one.name == spec->name; })) {
      fail("listed the option '" + loader::printable(spec->name, 64) + "' twice");
    }
    specs.push_back(*std::move(spec));
  }
  return specs;
}

std::vector<Option> Backend::parse_options(std::span<const std::string> texts) const {
  const auto specs = option_specs();
  std::vector<Option> options;
  for (const auto& text : texts) {
    options.push_back(detail::parse_option(name(), text, specs));
  }
  detail::check_options(name(), options, specs);
  return options;
}

yoke_live_counts Backend::live_counts() const {
  yoke_live_counts counts{};
  counts.struct_size = sizeof(counts);
  detail::call<&yoke_backend_api::live_counts>(*state_, name(), state_->plugin.get(), &counts);
  return counts;
}

std::shared_ptr<Device> Backend::open_device(std::uint32_t ordinal, std::span<const Option> options) {
  const std::uint32_t count = device_count();
  if (ordinal >= count) {
    throw Error(ErrorCode::kOutOfRange,
                name() + ":" + std::to_string(ordinal) + ": no such device: " +
                    (count == 0 ? no_device_reason()
                                : "'" + name() + "' has " + std::to_string(count) + ", numbered from 0"));
  }
  return std::shared_ptr<Device>(new Device(shared_from_this(), ordinal, options));
}

const void* Backend::extension_table(const char* id, std::size_t byte_count) const {
  if (id == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "backend '" + name() + "': extension: the id is null");
  }
  const std::lock_guard lock(state_->extensions_mutex);
  auto& copy = state_->extensions[{id, byte_count}];
  if (copy.empty()) {
    const auto* theirs =
        static_cast<const std::uint64_t*>(state_->plugin->get_table(state_->plugin.get(), id));
    if (theirs == nullptr) {
      return nullptr;
    }
    // The slots that the plugin lacks stay null.
    copy.assign((byte_count + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t), 0);
    std::memcpy(copy.data(), theirs, std::min<std::size_t>(byte_count, *theirs));
    copy.front() = std::min<std::uint64_t>(byte_count, *theirs);
  }
  return copy.data();
}

}  // namespace yoke
