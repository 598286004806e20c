// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/beyond32.cpp: copies, fills and launches in a buffer of more than 4 GiB. Only small
// parts of the buffer are used, so on most machines it needs little memory.
#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "groups.h"
#include "modelled.h"
#include "program/run/launch.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kGiB = std::uint64_t{1} << 30U;
constexpr std::uint64_t kByteCount = 4 * kGiB + (1U << 20U);

// What the machine has for new processes, with the file cache, which it gives up for them. 0: unknown.
std::uint64_t available_bytes() {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kib = 0;
  for (std::string unit; file >> name >> kib && std::getline(file, unit);) {
    if (name == "MemAvailable:") {
      return kib * 1024;
    }
  }
  return 0;
}

// Throws Unsupported if the device or the machine lacks memory for the buffers of two tests. A plugin may touch all of
// it.
Buffer far_buffer(Kit& kit) {
  Device& device = kit.device();
  const yoke_memory_info memory = device.memory();
  if (is_sanitized() || (memory.limit_bytes != 0 && memory.limit_bytes < kByteCount + kGiB) ||
      available_bytes() < 3 * kByteCount) {
    unsupported("no memory for a buffer of more than 4 GiB");
  }
  yoke_buffer* raw = nullptr;
  const Answer answer = kit.plugin().buffer_create(device.get(), kByteCount, YOKE_MEMORY_DEVICE, &raw);
  if (answer.code == YOKE_STATUS_OUT_OF_DEVICE_MEMORY) {
    unsupported("no buffer of more than 4 GiB: " + answer.status.text);
  }
  expect_ok(answer, "creating a buffer of more than 4 GiB");
  kit.plugin().call<&yoke_backend_api::buffer_destroy>(raw);
  return {device, kByteCount};
}

// Some ranges of a buffer with their expected contents. They do not overlap, and differ in more than their last 31
// bits.
class FarRanges {
 public:
  FarRanges(Kit& kit, const Buffer& buffer) : plugin_(kit.plugin()), buffer_(buffer) {
    Random random = kit.random();
    for (const std::uint64_t offset : kOffsets) {
      bytes_.push_back(random.bytes(kSize));
      buffer_.write(offset, bytes_.back());
    }
    check_same("from_host");
  }

  void fill(yoke_stream* stream, std::size_t range, std::uint64_t at, std::uint64_t byte_count,
            std::uint32_t pattern) {
    expect_ok(
        plugin_.fill(stream, buffer_.get(), kOffsets[range] + at, byte_count, &pattern, sizeof pattern));
    for (std::uint64_t i = 0; i < byte_count; i += sizeof pattern) {
      std::memcpy(bytes_[range].data() + at + i, &pattern, sizeof pattern);
    }
  }
  void copy(yoke_stream* stream, std::size_t to, std::uint64_t to_at, std::size_t from, std::uint64_t from_at,
            std::uint64_t byte_count) {
    expect_ok(plugin_.device_to_device(stream, buffer_.get(), kOffsets[to] + to_at, buffer_.get(),
                                       kOffsets[from] + from_at, byte_count));
    std::copy_n(bytes_[from].begin() + static_cast<std::ptrdiff_t>(from_at), byte_count,
                bytes_[to].begin() + static_cast<std::ptrdiff_t>(to_at));
  }
  void check_same(const std::string& after) const {
    for (std::size_t i = 0; i < bytes_.size(); ++i) {
      Bytes now(kSize);
      buffer_.read(kOffsets[i], now);
      check(now == bytes_[i], "after ", after, " in a buffer of more than 4 GiB, ",
            range_text(kOffsets[i], kSize), " has wrong bytes");
    }
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  static constexpr std::uint64_t kSize = 3000;
  static constexpr std::uint64_t kOffsets[] = {0,
                                               4001,
                                               kGiB + 77,
                                               2 * kGiB - 1000,
                                               2 * kGiB + 4001,
                                               3 * kGiB + 5,
                                               4 * kGiB - 1500,
                                               4 * kGiB + 4001,
                                               kByteCount - kSize};
  const Plugin& plugin_;
  const Buffer& buffer_;
  std::vector<Bytes> bytes_;
};

void copies(Kit& kit) {
  const Buffer buffer = far_buffer(kit);
  const std::optional<Stream> stream = stream_if_any(kit.device());
  FarRanges ranges(kit, buffer);
  for (yoke_stream* const raw : {static_cast<yoke_stream*>(nullptr), raw_of(stream)}) {
    const auto finish = [&](const std::string& what) {
      if (raw != nullptr) {
        stream->synchronize();
      }
      ranges.check_same(what);
    };
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      if (kit.plugin().has<&yoke_backend_api::fill>()) {
        ranges.fill(raw, i, 100 + i, 1200, static_cast<std::uint32_t>(0x1234567 * (i + 1)));
        finish("a fill");
      }
      if (kit.plugin().has<&yoke_backend_api::device_to_device>()) {
        ranges.copy(raw, i, 7, (i + 3) % ranges.size(), 1100 + i, 1801);
        finish("a device_to_device");
      }
    }
  }
}

// x has more than 2^30 elements of 4 bytes. The symbol is a multiple of 64.
constexpr std::string_view kDeclarations =
    "arg x : f32[1074003968] in\n arg v : f32[16388, 65536] in\n arg b : u8[4296015872] in\n arg w : f32[33] "
    "in\n";
struct Far {
  const char* what;
  std::string_view body;
  std::uint64_t count;  // of y
  float (*expected)(std::uint64_t base, std::uint64_t i);
};

constexpr std::uint64_t kStarts[] = {0,         kGiB / 4,  kGiB / 2, 3 * (kGiB / 4),
                                     kGiB - 64, kGiB + 128};  // elements of x
constexpr std::uint64_t kLength = 192;

// The element of x, small enough that sums are exact. 0 outside the ranges that are written.
float far_element(std::uint64_t at) {
  for (std::size_t i = std::size(kStarts); i-- > 0;) {
    if (at >= kStarts[i] && at < kStarts[i] + kLength) {
      return static_cast<float>((i + 1) * 300 + (at - kStarts[i]));
    }
  }
  return 0;
}

constexpr Far kFar[] = {
    {"a symbol as an offset", "arg y : f32[64] out\n y[i] = x[base + i] * 2\n", 64,
     [](std::uint64_t base, std::uint64_t i) { return far_element(base + i) * 2; }},
    {"a product at an offset", "arg y : f32[5] out\n y[i] = sum[k] x[base + i + k] * w[k]\n", 5,
     [](std::uint64_t base, std::uint64_t i) {
       float sum = 0;
       for (std::uint64_t k = 0; k < 33; ++k) {
         sum += far_element(base + i + k) * static_cast<float>(k + 1);
       }
       return sum;
     }},
    {"a maximum at an offset", "arg y : f32[3] out\n y[i] = max[k:40] x[base + i + k]\n", 3,
     [](std::uint64_t base, std::uint64_t i) {
       float highest = 0;
       for (std::uint64_t k = 0; k < 40; ++k) {
         highest = std::max(highest, far_element(base + i + k));
       }
       return highest;
     }},
    {"a loop of large steps", "arg y : f32[5] out\n y[i] = v[4096*i, 3] + f32(base) * 0\n", 5,
     [](std::uint64_t, std::uint64_t i) { return far_element(i * (kGiB / 4) + 3); }},
    {"a sum of distant elements", "arg y : f32[2] out\n y[i] = sum[k:5] v[4096*k, i + 3] + f32(base) * 0\n",
     2,
     [](std::uint64_t, std::uint64_t i) {
       float sum = 0;
       for (std::uint64_t k = 0; k < 5; ++k) {
         sum += far_element(k * (kGiB / 4) + i + 3);
       }
       return sum;
     }},
    {"an offset in bytes",
     "arg y : f32[16] out\n y[i] = f32(b[4*base + 4*i + 3]) * 4 + f32(b[4*base + 4*i + 2])\n", 16,
     [](std::uint64_t base, std::uint64_t i) {
       const float value = far_element(base + i);
       std::array<unsigned char, 4> bytes{};
       std::memcpy(bytes.data(), &value, sizeof value);
       return static_cast<float>(bytes[3]) * 4 + static_cast<float>(bytes[2]);
     }}};

void launch_far(Device& device, const Buffer& buffer, const Buffer& w, const Far& far) {
  const std::string bytes = text("yoke.program 1\nprogram distant(symbol base in 0..", kGiB + 129,
                                 " step 64) {\n ", kDeclarations, far.body, "}\n");
  require_supported(device, bytes, 1);
  const Code code = compile(device, bytes);
  const Buffer y(device, far.count * sizeof(float));
  const Buffer workspace = workspace_for(device, code);
  const yoke_binding bindings[] = {binding(buffer), binding(buffer), binding(buffer), binding(w), binding(y)};
  const Routine routine = link(device.plugin(), code, 0, bindings, binding(workspace));
  for (const std::uint64_t start : kStarts) {
    const std::int64_t base = static_cast<std::int64_t>(start);
    launch(device.plugin(), routine, {&base, 1});
    const Bytes got = y.contents();
    for (std::uint64_t i = 0; i < far.count; ++i) {
      float value = 0;
      std::memcpy(&value, got.data() + i * sizeof value, sizeof value);
      check_equal(value, far.expected(start, i), "with base = ", start, ", ", far.what,
                  " in a buffer of more than 4 GiB: y[", i, "]");
    }
  }
}

// Writes a few elements at each start.
void write_far(Device& device, const Buffer& buffer, const Buffer& w) {
  const std::string bytes =
      text("yoke.program 1\nprogram distant(symbol base in 0..", kGiB + 129,
           " step 64) {\n arg w : f32[33] in\n arg x : f32[1074003968] inout\n x[base + i] = w[i]\n}\n");
  require_supported(device, bytes, 1);
  const Code code = compile(device, bytes);
  const Buffer workspace = workspace_for(device, code);
  const yoke_binding bindings[] = {binding(w), binding(buffer)};
  const Routine routine = link(device.plugin(), code, 0, bindings, binding(workspace));
  for (std::size_t number = 0; number < std::size(kStarts); ++number) {
    const std::int64_t base = static_cast<std::int64_t>(kStarts[number]);
    launch(device.plugin(), routine, {&base, 1});
    for (std::size_t i = 0; i < std::size(kStarts); ++i) {
      float value = 0;
      buffer.read((kStarts[i] + 5) * sizeof value, std::as_writable_bytes(std::span(&value, 1)));
      check_equal(value, i <= number ? 6.0F : far_element(kStarts[i] + 5),
                  "after a launch that wrote at element ", kStarts[number],
                  " of a buffer of more than 4 GiB, element ", kStarts[i] + 5);
    }
  }
}

void launches(Kit& kit) {
  kit.plugin().table<yoke_program_api>();
  Device& device = kit.device();
  const Buffer buffer = far_buffer(kit);
  const Buffer w(device, 33 * sizeof(float));
  std::vector<float> weights(33);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    weights[i] = static_cast<float>(i + 1);
  }
  w.write(0, std::as_bytes(std::span(weights)));
  const Bytes zeros(4096);
  for (const std::uint64_t start : kStarts) {
    std::vector<float> values(kLength);
    buffer.write(start * sizeof(float), zeros);
    for (std::uint64_t i = 0; i < kLength; ++i) {
      values[i] = far_element(start + i);
    }
    buffer.write(start * sizeof(float), std::as_bytes(std::span(values)));
  }
  std::size_t count = 0;
  std::string reason;
  for (const Far& far : kFar) {
    kit.progress(far.what);
    try {
      launch_far(device, buffer, w, far);
      ++count;
    } catch (const Unsupported& unsupported_form) {
      reason = unsupported_form.what();
    }
  }
  if (count == 0) {
    unsupported(reason);
  }
  try {
    write_far(device, buffer, w);
  } catch (const Unsupported&) {
    kit.note("the device cannot write at the offset of a symbol");
  }
}

}  // namespace

std::vector<Test> far_copy_tests() {
  return {
      {"beyond-32-bits", "copies and fills work at offsets of more than 2 GiB and 4 GiB", {16}, copies, 2}};
}

std::vector<Test> far_program_tests() {
  return {{"beyond-32-bits",
           "launches read and write the right elements at offsets of more than 2 GiB and 4 GiB",
           {26},
           launches,
           2}};
}

}  // namespace yoke::conformance
