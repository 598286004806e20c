// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/npz.cpp: zip archives of .npy files.
// Writes stored entries; reads stored and deflated ones.
#include <yoke/npz.h>
#include <yoke/runtime/error.h>

#include <array>
#include <cstring>
#include <limits>
#include <set>

#include "data/files.h"
#include "data/inflate.h"
#include "data/npy.h"

namespace yoke {
namespace {

using detail::read_u16;
using detail::read_u32;

constexpr std::uint32_t kLocalSignature = 0x04034b50;
constexpr std::uint32_t kCentralSignature = 0x02014b50;
constexpr std::uint32_t kEndSignature = 0x06054b50;
constexpr std::size_t kLocalBytes = 30;
constexpr std::size_t kCentralBytes = 46;
constexpr std::size_t kEndBytes = 22;
constexpr std::uint32_t kDosDate = 0x21;  // 1980-01-01; a constant date makes equal arrays give equal files
constexpr std::uint64_t kLargest = std::numeric_limits<std::uint32_t>::max() - 1;  // the maximum means zip64
constexpr std::size_t kLongestName = 65000;
constexpr std::string_view kBF16Suffix = ".bf16";

// A sequence of little-endian fields.
class Fields {
 public:
  Fields& u16(std::uint64_t value) { return put(value, 2); }
  Fields& u32(std::uint64_t value) { return put(value, 4); }
  Fields& text(std::string_view value) {
    bytes_.insert(bytes_.end(), reinterpret_cast<const std::byte*>(value.data()),
                  reinterpret_cast<const std::byte*>(value.data()) + value.size());
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }

 private:
  Fields& put(std::uint64_t value, int count) {
    for (int i = 0; i < count; ++i) {
      bytes_.push_back(static_cast<std::byte>(value >> (8 * i) & 0xffU));
    }
    return *this;
  }
  std::vector<std::byte> bytes_;
};

struct Entry {
  std::string name;  // "weight.npy"
  std::uint64_t offset = 0;
  std::uint64_t packed_count = 0;
  std::uint64_t byte_count = 0;
  std::uint32_t crc = 0;
  std::uint32_t method = 0;
};

// The fields that local and central headers share, starting at "version needed".
Fields& common_fields(Fields& fields, const Entry& entry) {
  return fields.u16(20)
      .u16(0x800)
      .u16(0)
      .u16(0)
      .u16(kDosDate)
      .u32(entry.crc)
      .u32(entry.byte_count)
      .u32(entry.byte_count)
      .u16(entry.name.size())
      .u16(0);
}

void check_arrays(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
  std::set<std::string_view> names;
  for (const NamedArray& array : arrays) {
    const auto refuse = [&](const std::string& why) {
      return Error(ErrorCode::kInvalidArgument, "cannot save to " + path.string() + ": " + why);
    };
    if (array.name.empty() || array.name.size() > kLongestName) {
      throw refuse("the name of an array has " + std::to_string(array.name.size()) +
                   " bytes; names must have 1 to " + std::to_string(kLongestName));
    }
    if (!names.insert(array.name).second) {
      throw refuse("two arrays are named '" + array.name + "'; names must be unique");
    }
    const auto wanted = detail::byte_count_of(array.type, array.dims);
    if (!wanted || *wanted != array.bytes.size()) {
      throw refuse("array '" + array.name + "' has " + std::to_string(array.bytes.size()) +
                   " bytes, which do not match its type and dims");
    }
  }
}

class ZipReader {
 public:
  ZipReader(std::string name, std::span<const std::byte> file) : name_(std::move(name)), file_(file) {}

  std::vector<Entry> entries() const {
    const std::size_t end = find_end();
    const std::uint32_t count = read_u16(file_, end + 10);
    std::size_t at = read_u32(file_, end + 16);
    std::vector<Entry> entries;
    for (std::uint32_t i = 0; i < count; ++i) {
      need(at, kCentralBytes);
      if (read_u32(file_, at) != kCentralSignature) {
        throw broken(at, "missing directory entry");
      }
      if ((read_u16(file_, at + 8) & 1U) != 0) {
        throw Error(ErrorCode::kUnimplemented,
                    name_ + ": the archive is encrypted; save it without a password");
      }
      const std::size_t name_size = read_u16(file_, at + 28);
      need(at, kCentralBytes + name_size);
      Entry entry{.name = {},
                  .offset = read_u32(file_, at + 42),
                  .packed_count = read_u32(file_, at + 20),
                  .byte_count = read_u32(file_, at + 24),
                  .crc = read_u32(file_, at + 16),
                  .method = read_u16(file_, at + 10)};
      entry.name.assign(reinterpret_cast<const char*>(file_.data()) + at + kCentralBytes, name_size);
      if (entry.byte_count > kLargest || entry.packed_count > kLargest || entry.offset > kLargest) {
        throw Error(ErrorCode::kUnimplemented,
                    name_ + ": archives of more than 4 GiB (zip64) are not supported; use several files");
      }
      entries.push_back(std::move(entry));
      at += kCentralBytes + name_size + read_u16(file_, at + 30) + read_u16(file_, at + 32);
    }
    return entries;
  }

  std::vector<std::byte> read(const Entry& entry) const {
    const auto offset = static_cast<std::size_t>(entry.offset);
    need(offset, kLocalBytes);
    if (read_u32(file_, offset) != kLocalSignature) {
      throw broken(offset, "missing entry");
    }
    const std::size_t data =
        offset + kLocalBytes + read_u16(file_, offset + 26) + read_u16(file_, offset + 28);
    need(data, static_cast<std::size_t>(entry.packed_count));
    const auto packed = file_.subspan(data, static_cast<std::size_t>(entry.packed_count));
    std::vector<std::byte> bytes;
    if (entry.method == 0) {
      bytes.assign(packed.begin(), packed.end());
    } else if (entry.method == 8) {
      std::size_t taken = 0;
      bytes = detail::inflate(packed, entry.byte_count, name_ + ", " + entry.name, taken);
    } else {
      throw Error(ErrorCode::kUnimplemented, name_ + ", " + entry.name + ": compression method " +
                                                 std::to_string(entry.method) +
                                                 " is not supported; numpy uses 0 (stored) and 8 (deflated)");
    }
    if (bytes.size() != entry.byte_count || detail::crc32(bytes) != entry.crc) {
      throw broken(data, "wrong size or checksum of " + entry.name);
    }
    return bytes;
  }

 private:
  Error broken(std::size_t offset, const std::string& why) const {
    return {ErrorCode::kDataLoss, name_ + ": " + why + " at byte " + std::to_string(offset) +
                                      "; this is not a .npz file, or it is damaged: fetch or save it again"};
  }

  void need(std::size_t offset, std::size_t count) const {
    if (offset > file_.size() || count > file_.size() - offset) {
      throw broken(file_.size(), "the file is truncated");
    }
  }

  // Finds the end-of-directory record, which is followed by at most a comment of 65535 bytes.
  std::size_t find_end() const {
    for (std::size_t back = kEndBytes; back <= file_.size() && back <= kEndBytes + 0xffff; ++back) {
      if (read_u32(file_, file_.size() - back) == kEndSignature) {
        return file_.size() - back;
      }
    }
    throw broken(file_.size(), "missing zip directory");
  }

  std::string name_;
  std::span<const std::byte> file_;
};

}  // namespace

void save_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
  check_arrays(path, arrays);
  detail::NewFile file(path);
  std::vector<Entry> entries;
  std::uint64_t offset = 0;
  const auto write = [&](std::span<const std::byte> bytes) {
    offset += bytes.size();
    if (offset > kLargest) {
      throw Error(
          ErrorCode::kResourceExhausted,
          "cannot save to " + path.string() + ": the data exceeds 4 GiB; save the arrays in several files");
    }
    file.write(bytes);
  };
  for (const NamedArray& array : arrays) {
    const bool bf16 = array.type == program::Type::kBF16;
    const std::string header = detail::npy_header(array.type, array.dims);
    std::vector<std::byte> content(header.size() + array.bytes.size());
    std::memcpy(content.data(), header.data(), header.size());
    if (!array.bytes.empty()) {
      std::memcpy(content.data() + header.size(), array.bytes.data(), array.bytes.size());
    }
    Entry entry{.name = array.name + std::string(bf16 ? kBF16Suffix : "") + ".npy", .offset = offset};
    entry.byte_count = content.size();
    entry.crc = detail::crc32(content);
    Fields local;
    local.u32(kLocalSignature);
    common_fields(local, entry).text(entry.name);
    write(local.bytes());
    write(content);
    entries.push_back(std::move(entry));
  }
  const std::uint64_t directory = offset;
  for (const Entry& entry : entries) {
    Fields central;
    central.u32(kCentralSignature).u16(20);
    common_fields(central, entry).u16(0).u16(0).u16(0).u32(0).u32(entry.offset).text(entry.name);
    write(central.bytes());
  }
  if (entries.size() > 0xfffe) {
    throw Error(ErrorCode::kInvalidArgument, "cannot save to " + path.string() + ": more than 65534 arrays");
  }
  const std::uint64_t size = offset - directory;
  write(Fields()
            .u32(kEndSignature)
            .u16(0)
            .u16(0)
            .u16(entries.size())
            .u16(entries.size())
            .u32(size)
            .u32(directory)
            .u16(0)
            .bytes());
  file.commit();
}

std::vector<NamedArray> load_npz(const std::filesystem::path& path) {
  const std::vector<std::byte> file = detail::read_file(path);
  const ZipReader zip(path.string(), file);
  std::vector<NamedArray> arrays;
  std::set<std::string> names;
  for (const Entry& entry : zip.entries()) {
    const std::string where = path.string() + ", " + entry.name;
    NamedArray array = detail::parse_npy(zip.read(entry), where);
    array.name = entry.name;
    if (array.name.ends_with(".npy")) {
      array.name.resize(array.name.size() - 4);
    }
    if (array.type == program::Type::kBF16) {
      if (!array.name.ends_with(kBF16Suffix)) {
        throw Error(ErrorCode::kUnimplemented,
                    where + ": uint16 is not supported; convert the array with astype to uint32");
      }
      array.name.resize(array.name.size() - kBF16Suffix.size());
    }
    if (!names.insert(array.name).second) {
      throw Error(ErrorCode::kDataLoss, where + ": the file has two arrays of this name; save it again");
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

void check_can_save(const std::filesystem::path& path) {
  constexpr std::size_t kProbeBytes = 4096;  // one block, to detect a full disk
  detail::NewFile probe(path);
  probe.write(std::array<std::byte, kProbeBytes>{});
  probe.flush();
}

}  // namespace yoke
