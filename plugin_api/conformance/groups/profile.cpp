// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/profile.cpp: yoke.profile/1: which work a device ran, and when.
#include <algorithm>
#include <cstring>
#include <string_view>

#include "groups.h"
#include "host_callback.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kExactness = 100'000;  // ns, of the times

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now().time_since_epoch()).count());
}

struct Fetched {
  std::vector<yoke_profile_record> records;
  std::uint64_t lost = 0;
};

Fetched fetch(const Device& device, std::uint32_t capacity = 1000,
              std::uint64_t stride = sizeof(yoke_profile_record)) {
  constexpr std::byte kUntouched{0xa5};
  const std::uint64_t guard = 2 * stride + sizeof(yoke_profile_record);
  Bytes bytes(capacity * stride + guard, kUntouched);
  std::uint32_t count = UINT32_MAX;
  Fetched fetched;
  fetched.lost = UINT64_MAX;
  expect_supported(device.plugin().call<&yoke_profile_api::profile_fetch>(
                       device.get(), capacity, stride, reinterpret_cast<yoke_profile_record*>(bytes.data()),
                       &count, &fetched.lost),
                   "fetching records");
  check(count <= capacity, "profile_fetch returned ", count, " records for a capacity of ", capacity);
  const std::uint64_t size = std::min<std::uint64_t>(stride, sizeof(yoke_profile_record));
  for (std::uint32_t i = 0; i < count; ++i) {
    yoke_profile_record& record = fetched.records.emplace_back();
    std::memcpy(&record, bytes.data() + i * stride, size);
    check(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(i * stride + size),
                      bytes.begin() + static_cast<std::ptrdiff_t>((i + 1) * stride),
                      [&](std::byte byte) { return byte == kUntouched; }),
          "profile_fetch wrote past the end of a row");
    check(record.begin_ns <= record.end_ns, "record ", i, " ends before it begins");
  }
  check(std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(count * stride), bytes.end(),
                    [&](std::byte byte) { return byte == kUntouched; }),
        "profile_fetch wrote past the rows that it returned");
  return fetched;
}

void start(const Device& device, std::uint64_t capacity = 0) {
  yoke_profile_args args = sized<yoke_profile_args>();
  args.capacity = capacity;
  expect_supported(device.plugin().call<&yoke_profile_api::profile_start>(device.get(), &args),
                   "starting to record");
}

void stop(const Device& device) {
  expect_ok(device.plugin().call<&yoke_profile_api::profile_stop>(device.get()), "stopping to record");
}

// A device that records, with a buffer and a stream if it has streams.
struct Recorder {
  explicit Recorder(Kit& kit)
      : device(another_handle(with_table(kit))), buffer(device, kBytes), stream(stream_if_any(device)) {}
  // Ends the test as unsupported before it opens a device, which nothing would close.
  static Kit& with_table(Kit& kit) {
    kit.plugin().table<yoke_profile_api>();
    kit.plugin().some_devices();
    return kit;
  }
  // Fails if profile_fetch is not implemented, before a test that checks more.
  void fill(int times) const {
    const std::uint32_t pattern = 7;
    for (int i = 0; i < times; ++i) {
      expect_supported(
          device.plugin().fill(raw_of(stream), buffer.get(), 0, kBytes, &pattern, sizeof pattern),
          "filling a buffer");
    }
  }
  void synchronize() const {
    if (stream) {
      stream->synchronize();
    }
  }

  static constexpr std::uint64_t kBytes = 1U << 16U;
  Device device;
  Buffer buffer;
  std::optional<Stream> stream;
};

void check_record(const yoke_profile_record& record, std::int32_t kind, std::string_view name,
                  const yoke_stream* stream) {
  check(std::memchr(record.name, '\0', sizeof record.name) != nullptr, "the name of a record has no end");
  check(record.name == name && record.kind == kind, "the record of ", std::string(name), " of kind ", kind,
        " has the name '", std::string(record.name), "' and kind ", record.kind);
  check(record.stream == stream, "the record of ", std::string(name), " has another stream");
}

// Copies, a fill and a launch: one record each, in order, within the times of the host.
void records(Kit& kit) {
  const Recorder recorder(kit);
  const Device& device = recorder.device;
  const Plugin& plugin = device.plugin();
  yoke_stream* const stream = raw_of(recorder.stream);
  Bytes host(Recorder::kBytes);
  start(device);
  const std::uint64_t begin = now_ns();
  expect_ok(plugin.from_host(stream, recorder.buffer.get(), 0, host.data(), host.size(), nullptr));
  recorder.fill(1);
  expect_ok(plugin.to_host(stream, recorder.buffer.get(), 0, host.data(), host.size()));
  recorder.synchronize();
  const std::uint64_t end = now_ns();
  const Fetched fetched = fetch(device);
  check_equal(fetched.records.size(), 3U, "the number of records of a from_host, a fill and a to_host");
  check_equal(fetched.lost, 0U, "the number of lost records");
  check_record(fetched.records[0], YOKE_WORK_COPY, "from_host", stream);
  check_record(fetched.records[1], YOKE_WORK_FILL, "fill", stream);
  check_record(fetched.records[2], YOKE_WORK_COPY, "to_host", stream);
  std::uint64_t last = begin;
  for (const yoke_profile_record& record : fetched.records) {
    check(record.begin_ns + kExactness >= last, "a record begins ", (last - record.begin_ns) / 1000,
          " us before the work before it ended, or before the work was queued");
    last = record.end_ns;
  }
  check(last <= end + kExactness, "a record ends ", (last - end) / 1000,
        " us after the host had waited for it");
  check(fetch(device).records.empty(), "records were returned twice");
}

void launches(Kit& kit) {
  kit.plugin().table<yoke_program_api>();
  Recorder recorder(kit);
  const SmallProgram program(recorder.device);
  const Code code = compile(recorder.device, program.text());
  const SmallRun add(recorder.device, code);
  start(recorder.device);
  launch(recorder.device.plugin(), add.routine, {}, recorder.stream ? &*recorder.stream : nullptr);
  add.launch();  // on a NULL stream
  const Fetched fetched = fetch(recorder.device);
  check_equal(fetched.records.size(), 2U, "the number of records of two launches");
  check_record(fetched.records[0], YOKE_WORK_LAUNCH, program.name(), raw_of(recorder.stream));
  check_record(fetched.records[1], YOKE_WORK_LAUNCH, program.name(), nullptr);
}

// Only work between profile_start and profile_stop has records.
void switches(Kit& kit) {
  const Recorder recorder(kit);
  recorder.fill(3);
  recorder.synchronize();
  check(fetch(recorder.device).records.empty(), "work before profile_start has records");
  start(recorder.device);
  recorder.fill(2);
  stop(recorder.device);
  recorder.fill(4);
  recorder.synchronize();
  check_equal(fetch(recorder.device).records.size(), 2U,
              "the number of records after 2 fills were queued between profile_start and profile_stop");
  start(recorder.device);
  recorder.fill(1);
  recorder.synchronize();
  start(recorder.device);
  check(fetch(recorder.device).records.empty(), "starting again did not drop the records");
}

void pending(Kit& kit) {
  const Recorder recorder(kit);
  if (!recorder.stream) {
    unsupported("the plugin has no streams");
  }
  start(recorder.device);
  const auto gate = HostCallback::gate(*recorder.stream);
  if (gate == nullptr || !gate->is_closed()) {
    unsupported("the stream cannot be kept busy by a host callback");
  }
  recorder.fill(2);
  check(fetch(recorder.device).records.empty(), "work that is pending has a record");
  const std::uint64_t opened = now_ns();
  gate->open();
  recorder.synchronize();
  const Fetched fetched = fetch(recorder.device);
  check_equal(fetched.records.size(), 2U, "the number of records of two fills");
  check(fetched.records[0].begin_ns + kExactness >= opened,
        "a fill that waited for earlier work has the time when it was queued");
}

// Many records in small batches, with rows of other sizes.
void batches(Kit& kit) {
  constexpr int kWork = 100;
  const Recorder recorder(kit);
  for (const std::uint64_t stride : {std::uint64_t{sizeof(yoke_profile_record)},
                                     std::uint64_t{sizeof(yoke_profile_record)} + 64, std::uint64_t{40}}) {
    start(recorder.device);
    recorder.fill(kWork);
    recorder.synchronize();
    check(fetch(recorder.device, 0).records.empty(), "a capacity of 0 returned records");
    std::vector<yoke_profile_record> all;
    for (std::size_t before = 1; before != all.size();) {
      before = all.size();
      const Fetched some = fetch(recorder.device, 7, stride);
      all.insert(all.end(), some.records.begin(), some.records.end());
    }
    check_equal(all.size(), kWork, "the number of records in batches of 7");
    check(std::is_sorted(all.begin(), all.end(),
                         [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; }),
          "the records of one stream are not in order");
  }
}

void lost(Kit& kit) {
  const Recorder recorder(kit);
  start(recorder.device, 10);
  recorder.fill(25);
  recorder.synchronize();
  const Fetched fetched = fetch(recorder.device);
  check(fetched.records.size() == 10 && fetched.lost == 15, "25 fills with room for 10 records gave ",
        fetched.records.size(), " records and ", fetched.lost, " lost ones");
  check_equal(fetch(recorder.device).lost, 0U, "the number of lost records in a second call");
}

void refusals(Kit& kit) {
  const Recorder recorder(kit);
  yoke_profile_args args = sized<yoke_profile_args>();
  args.flags = std::uint64_t{1} << 40U;
  expect_code(recorder.device.plugin().call<&yoke_profile_api::profile_start>(recorder.device.get(), &args),
              YOKE_STATUS_UNIMPLEMENTED, "starting with an unknown flag");
  recorder.fill(1);
  recorder.synchronize();
  check(fetch(recorder.device).records.empty(), "a refused profile_start records work");
  // Records of a destroyed stream remain, and do not keep the device open.
  Device device = another_handle(kit);
  start(device);
  if (auto stream = stream_if_any(device)) {
    const Buffer buffer(device, 64);
    stream->write(buffer, 0, Bytes(64));
    stream->synchronize();
    stream.reset();
    check_equal(fetch(device).records.size(), 1U, "the number of records of a destroyed stream");
  }
  device.close();
}

}  // namespace

std::vector<Test> profile_tests() {
  return {
      {"records", "copies and fills have records in order, on the host's clock", {64}, records},
      {"launches", "a launch has a record with the name of its program", {64}, launches},
      {"switches", "only work between profile_start and profile_stop is recorded", {64}, switches},
      {"pending", "work has a record when it has finished, and begins when it runs", {64}, pending},
      {"batches", "records come in batches, in order, in rows of any stride", {41, 64}, batches},
      {"lost", "records without room are counted", {64}, lost},
      {"refusals",
       "unknown flags are refused; records outlive streams and let devices close",
       {14, 40, 64},
       refusals},
  };
}

}  // namespace yoke::conformance
