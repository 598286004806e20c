// SPDX-License-Identifier: Apache-2.0
// tests/conformance/groups/device.cpp: counting, describing, opening, closing.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>

#include "basic_use.h"
#include "groups.h"
#include "sized.h"

namespace yoke::conformance {
namespace {

yoke_device_info described(const Plugin& plugin, std::uint32_t ordinal) {
  yoke_device_info info = sized<yoke_device_info>();
  std::memset(reinterpret_cast<char*>(&info) + sizeof info.struct_size, 0x7f,
              sizeof info - sizeof info.struct_size);
  expect_ok(plugin.call<&yoke_backend_api::device_describe>(plugin.get(), ordinal, &info),
            text("describing device ", ordinal));
  return info;
}

// At least one, or Unsupported with the plugin's reason.
std::uint32_t some_devices(Kit& kit) {
  kit.device();
  return kit.plugin().device_count();
}

void count_has_reason(Kit& kit) {
  std::uint32_t count = UINT32_MAX;
  const Answer answer = kit.plugin().call<&yoke_backend_api::device_count>(kit.plugin().get(), &count);
  expect_ok(answer, "counting the devices");
  check(count < 100000, "device_count gives ", count, " devices");
  check(count != 0 || !answer.status.text.empty(), "there are 0 devices, and no text says why");
  check_equal(kit.plugin().device_count(), count, "device_count, asked again");
  kit.note(text(count, " devices"));
}

void description(Kit& kit) {
  const std::uint32_t count = some_devices(kit);
  for (std::uint32_t ordinal = 0; ordinal < count; ++ordinal) {
    const yoke_device_info info = described(kit.plugin(), ordinal);
    const auto is_text = [&](const char(&field)[YOKE_NAME_CAPACITY], const char* what) {
      check(std::memchr(field, '\0', sizeof field) != nullptr, what, " is not closed by a zero");
      check(field[0] != '\0' && is_utf8(field), what, " is empty or not UTF-8");
    };
    is_text(info.name, "the device's name");
    is_text(info.unique_id, "the device's unique_id");
    check(info.kind >= YOKE_DEVICE_CPU && info.kind <= YOKE_DEVICE_OTHER, "kind is ", info.kind);
    check(info.compute_unit_count >= 1 && info.compute_unit_count < 10'000'000, "compute_unit_count is ",
          info.compute_unit_count);
    check(info.suggested_stream_count >= 1 && info.suggested_stream_count < 100'000,
          "suggested_stream_count is ", info.suggested_stream_count);
    check(info.host_visible == 0 || info.host_visible == 1, "host_visible is ", info.host_visible);
    check(info.numa_node >= -1 && info.numa_node < 100'000, "numa_node is ", info.numa_node);
    check(info.memory_bytes < std::uint64_t{1} << 56U, "memory_bytes is ", info.memory_bytes);
    check((info.type_mask & 1U) == 0, "type_mask has bit 0, which is no type; bits are 1 << YOKE_F32 ...");
  }
}

void description_sizes(Kit& kit) {
  some_devices(kit);
  Plugin& plugin = kit.plugin();
  check_sized<yoke_device_info>("device_describe", [&](yoke_device_info* info) {
    return plugin.call<&yoke_backend_api::device_describe>(plugin.get(), kit.settings().device, info);
  });
  check_sized<yoke_memory_info>("device_memory", [&](yoke_memory_info* info) {
    return plugin.call<&yoke_backend_api::device_memory>(kit.device().get(), info);
  });
  check_sized<yoke_live_counts>("live_counts", [&](yoke_live_counts* counts) {
    return plugin.call<&yoke_backend_api::live_counts>(plugin.get(), counts);
  });
}

void no_such_ordinal(Kit& kit) {
  Plugin& plugin = kit.plugin();
  const std::uint32_t count = plugin.device_count();
  for (const std::uint32_t ordinal : {count, count + 1, count + 1000, UINT32_MAX, UINT32_MAX / 2 + 1}) {
    check_untouched<yoke_device_info>(
        "describing a device that is not there", YOKE_OUT_OF_RANGE, [&](yoke_device_info* info) {
          return plugin.call<&yoke_backend_api::device_describe>(plugin.get(), ordinal, info);
        });
    yoke_device* const untouched = reinterpret_cast<yoke_device*>(&kit);
    yoke_device* device = untouched;
    expect_code(plugin.call<&yoke_backend_api::device_open>(plugin.get(), ordinal, nullptr, 0U, &device),
                YOKE_OUT_OF_RANGE, text("opening device ", ordinal, " of ", count));
    check(device == untouched, "device_open refused, and yet *out_device was written");
  }
  check_equal(plugin.live_counts().devices, 0U, "live devices after refused opens");
}

// Loads the plugin in a child and gives back what it says of the devices. Before this process has loaded it.
std::string ids_of_child(Kit& kit) {
  int ends[2];
  check(::pipe(ends) == 0, "cannot make a pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    std::string ids;
    try {
      const Plugin plugin{Library(kit.settings().plugin)};
      for (std::uint32_t i = 0; i < plugin.device_count(); ++i) {
        ids += std::string(described(plugin, i).unique_id) + "\n";
      }
    } catch (const std::exception& failure) {
      ids = failure.what();
    }
    static_cast<void>(::write(ends[1], ids.data(), ids.size()) == 0);
    ::_exit(0);
  }
  ::close(ends[1]);
  std::string ids;
  char buffer[4096];
  for (ssize_t count = 0; (count = ::read(ends[0], buffer, sizeof buffer)) > 0;) {
    ids.append(buffer, static_cast<std::size_t>(count));
  }
  ::close(ends[0]);
  ::waitpid(child, nullptr, 0);
  return ids;
}

void unique_ids(Kit& kit) {
  const std::string of_child = ids_of_child(kit);
  const std::uint32_t count = kit.plugin().device_count();
  Plugin other(kit.library());
  std::string all;
  std::set<std::string> seen;
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::string id = described(kit.plugin(), i).unique_id;
    check(seen.insert(id).second, "two devices have the unique_id '", id, "'");
    check_equal(std::string(described(other, i).unique_id), id, "unique_id of device ", i,
                " in another instance");
    all += id + "\n";
  }
  check_equal(of_child, all, "the unique ids in another process");
}

void open_twice(Kit& kit) {
  const Buffer first(kit.device(), 1024);
  const std::vector<std::byte> sent = kit.random().bytes(1024);
  first.write(0, sent);
  for (int i = 0; i < 20; ++i) {
    Device second(kit, kit.plugin(), kit.settings().device, kit.device_options());
    check(second.get() != kit.device().get(), "opening a device twice gave one handle");
    Buffer of_second(second, 1024);
    of_second.write(0, std::vector<std::byte>(1024, std::byte{0x5a}));
    of_second.reset();
    second.close();
  }
  check(first.contents() == sent, "a buffer of the first handle changed while a second handle came and went");
}

void close_null(Kit& kit) {
  expect_ok(kit.plugin().call<&yoke_backend_api::device_close>(static_cast<yoke_device*>(nullptr)),
            "closing NULL");
}

// Closing is refused, says what is alive, and changes nothing.
void check_stays_open(Device& device, const std::string& while_alive) {
  const Buffer buffer(device, 64);
  for (int i = 0; i < 2; ++i) {
    expect_code(device.plugin().call<&yoke_backend_api::device_close>(device.get()), YOKE_FAILED_PRECONDITION,
                "closing a device with " + while_alive);
  }
  const std::vector<std::byte> sent(64, std::byte{0x42});
  buffer.write(0, sent);
  check(buffer.contents() == sent, "after a refused device_close its buffers do not work");
  check(device.plugin().live_counts().devices >= 1, "after a refused device_close the device is not counted");
}

void close_with_buffers(Kit& kit) {
  const Buffer buffer(kit.device(), 64);
  check_stays_open(kit.device(), "a living buffer");
}

void close_with_streams(Kit& kit) {
  Plugin& plugin = kit.plugin();
  const auto refused = [&](const char* what) {
    expect_code(plugin.call<&yoke_backend_api::device_close>(kit.device().get()), YOKE_FAILED_PRECONDITION,
                text("closing a device with ", what));
  };
  Event event;
  {
    const Stream stream(kit.device());
    refused("a living stream");
    check_equal(plugin.live_counts().streams, 1U, "live streams");
    event = stream.record();
    expect_ok(event.wait(), "waiting for an event");
  }
  check_equal(plugin.live_counts().events, 1U, "live events");
  refused("a living event");
}

void close_with_code(Kit& kit) {
  Plugin& plugin = kit.plugin();
  const auto refused = [&](const char* what) {
    expect_code(plugin.call<&yoke_backend_api::device_close>(kit.device().get()), YOKE_FAILED_PRECONDITION,
                text("closing a device with ", what));
  };
  plugin.table<yoke_program_api>();
  Buffer x(kit.device(), kAddCount * sizeof(float));
  Buffer y(kit.device(), kAddCount * sizeof(float));
  Code code = compile_add_one(kit.device());
  const Buffer workspace(kit.device(), workspace_byte_count(plugin, code));
  refused("living code");
  check_equal(plugin.live_counts().codes, 1U, "live codes");
  const Routine routine = link_add_one(plugin, code, x, y, workspace);
  code.reset();
  check_equal(plugin.live_counts().routines, 1U, "live routines");
  refused("a living routine");
}

}  // namespace

std::vector<Test> device_tests() {
  return {
      {"count", "the devices are counted, the same each time, and 0 has a reason", {12}, count_has_reason},
      {"description", "names are closed and UTF-8, numbers are inside their ranges", {7}, description},
      {"description-sizes",
       "info structs of older and newer hosts are filled as far as both sides know",
       {5},
       description_sizes},
      {"no-such-ordinal",
       "an ordinal that is not there is OUT_OF_RANGE with a text; out-parameters stay",
       {10, 12},
       no_such_ordinal},
      {"unique-ids", "unique ids differ between devices, and are the same in every process", {}, unique_ids},
      {"open-twice",
       "a device opened many times gives handles that do not disturb each other",
       {14},
       open_twice},
      {"close-null", "closing NULL is OK", {14}, close_null},
      {"close-with-buffers",
       "a buffer keeps its device open; the refusal has a text, and changes nothing",
       {14, 35},
       close_with_buffers},
      {"close-with-streams", "streams and events keep their device open", {14, 35}, close_with_streams},
      {"close-with-code", "code and routines keep their device open", {14, 35}, close_with_code},
  };
}

}  // namespace yoke::conformance
