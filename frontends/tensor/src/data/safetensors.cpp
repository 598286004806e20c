// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/safetensors.cpp: a JSON header that describes arrays, followed by their bytes.
#include "data/safetensors.h"

#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "data/arrays.h"
#include "data/files.h"
#include "data/npy.h"

namespace yoke {
namespace {

using nlohmann::json;
using program::Type;

constexpr std::uint64_t kLargestHeader = 100'000'000;
constexpr std::size_t kSizeBytes = 8;
constexpr std::size_t kMostAxes = 64;
constexpr std::size_t kMostDepth = 64;  // of fields that are ignored
constexpr const char* kMetadata = "__metadata__";
constexpr std::pair<const char*, Type> kTypes[] = {
    {"F64", Type::kF64}, {"F32", Type::kF32}, {"F16", Type::kF16}, {"BF16", Type::kBF16}, {"I64", Type::kI64},
    {"I32", Type::kI32}, {"U32", Type::kU32}, {"U8", Type::kU8},   {"BOOL", Type::kBool}};
constexpr std::string_view kOtherTypes[] = {"I8",  "I16",     "U16",     "U64",     "F4",
                                            "C64", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F6_E2M3"};

const char* name_of(Type type) {
  return std::find_if(std::begin(kTypes), std::end(kTypes), [&](const auto& e) { return e.second == type; })
      ->first;
}

struct Entry {
  std::string name;
  std::string type;
  std::vector<std::uint64_t> dims;
  std::vector<std::uint64_t> offsets;
  std::set<std::string> fields;  // seen so far
};

// Receives the header's JSON piece by piece, and throws Error at the first one that breaks a rule.
class HeaderReader final : public nlohmann::json_sax<json> {
 public:
  explicit HeaderReader(std::string where) : where_(std::move(where)) {}

  std::vector<Entry> entries;
  std::map<std::string, std::string> metadata;

  [[noreturn]] void fail(const std::string& why, ErrorCode code = ErrorCode::kDataLoss) const {
    throw Error(code, where_ + ": " + why +
                          (code == ErrorCode::kDataLoss
                               ? "; the file is damaged or not a .safetensors file: download or save it again"
                               : ""));
  }

  bool null() override { return other("null"); }
  bool boolean(bool /*value*/) override { return other("a boolean"); }
  bool number_integer(std::int64_t /*value*/) override { return other("a negative number"); }
  bool number_float(double /*value*/, const std::string& text) override {
    return other("the number " + text);
  }
  bool binary(json::binary_t& /*value*/) override { return other("binary data"); }

  bool number_unsigned(std::uint64_t value) override {
    if (is_ignored()) {
      return true;
    }
    if (at_ == At::kShape || at_ == At::kOffsets) {
      std::vector<std::uint64_t>& numbers = at_ == At::kShape ? entries.back().dims : entries.back().offsets;
      if (numbers.size() == (at_ == At::kShape ? kMostAxes : 2)) {
        fail("array '" + shown(entries.back().name) + "' has too many numbers in '" +
             (at_ == At::kShape ? "shape" : "data_offsets") + "'");
      }
      numbers.push_back(value);
      return true;
    }
    return other("a number");
  }

  bool string(std::string& value) override {
    if (is_ignored()) {
      return true;
    }
    if (at_ == At::kNotes) {
      if (!metadata.emplace(key_, value).second) {
        fail("the metadata has '" + shown(key_) + "' twice");
      }
    } else if (at_ == At::kArray && key_ == "dtype") {
      entries.back().type = value;
    } else {
      return other("a string");
    }
    return true;
  }

  bool start_object(std::size_t /*count*/) override {
    if (begin_ignored()) {
      return true;
    }
    if (at_ == At::kStart) {
      at_ = At::kTop;
    } else if (at_ == At::kTop && key_ == kMetadata) {
      if (std::exchange(has_metadata_, true)) {
        fail("the header has '__metadata__' twice");
      }
      at_ = At::kNotes;
    } else if (at_ == At::kTop) {
      entries.push_back({.name = key_, .type = {}, .dims = {}, .offsets = {}, .fields = {}});
      at_ = At::kArray;
    } else {
      return other("an object");
    }
    return true;
  }

  bool end_object() override {
    if (end_ignored()) {
      return true;
    }
    if (at_ == At::kArray && entries.back().fields.size() != 3) {
      fail("array '" + shown(entries.back().name) + "' lacks 'dtype', 'shape' or 'data_offsets'");
    }
    if (at_ == At::kArray) {
      entries.back().fields.clear();
    }
    at_ = at_ == At::kTop ? At::kStart : At::kTop;
    return true;
  }

  bool start_array(std::size_t /*count*/) override {
    if (begin_ignored()) {
      return true;
    }
    if (at_ != At::kArray || (key_ != "shape" && key_ != "data_offsets")) {
      return other("a list");
    }
    at_ = key_ == "shape" ? At::kShape : At::kOffsets;
    return true;
  }

  bool end_array() override {
    if (!end_ignored()) {
      at_ = At::kArray;
    }
    return true;
  }

  bool key(std::string& value) override {
    if (depth_ > 0) {
      return true;
    }
    key_ = value;
    if (at_ == At::kArray) {
      Entry& entry = entries.back();
      ignores_ = key_ != "dtype" && key_ != "shape" && key_ != "data_offsets";
      if (!ignores_ && !entry.fields.insert(key_).second) {
        fail("array '" + shown(entry.name) + "' has the field '" + key_ + "' twice");
      }
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string& /*token*/,
                   const json::exception& /*error*/) override {
    fail("the header is not JSON, at its byte " + std::to_string(position));
  }

  // Names from files may be long.
  static std::string shown(const std::string& text) {
    constexpr std::size_t kMost = 100;
    return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
  }

 private:
  enum class At { kStart, kTop, kNotes, kArray, kShape, kOffsets };

  // Whether a value that is not a list or an object belongs to an unknown field.
  bool is_ignored() {
    if (depth_ > 0) {
      return true;
    }
    return std::exchange(ignores_, false);
  }
  bool begin_ignored() {
    if (depth_ == 0 && !ignores_) {
      return false;
    }
    ignores_ = false;
    if (++depth_ > kMostDepth) {
      fail("the header is nested too deeply");
    }
    return true;
  }
  bool end_ignored() { return depth_ > 0 && depth_-- > 0; }

  bool other(const std::string& what) {
    if (!is_ignored()) {
      fail(at_ == At::kStart ? "the header is " + what + ", not an object"
                             : "'" + shown(key_) + "' has " + what + " where it cannot be");
    }
    return true;
  }

  std::string where_;
  At at_ = At::kStart;
  std::string key_;
  bool has_metadata_ = false;
  bool ignores_ = false;   // the next value belongs to an unknown field
  std::size_t depth_ = 0;  // of lists and objects in an unknown field
};

Type type_of(const HeaderReader& header, const Entry& entry) {
  for (const auto& [name, type] : kTypes) {
    if (entry.type == name) {
      return type;
    }
  }
  const std::string named = "array '" + HeaderReader::shown(entry.name) + "' has the element type '" +
                            HeaderReader::shown(entry.type) + "'";
  if (std::find(std::begin(kOtherTypes), std::end(kOtherTypes), entry.type) == std::end(kOtherTypes)) {
    header.fail(named);
  }
  header.fail(named + "; convert it to one of F64, F32, F16, BF16, I64, I32, U32, U8, BOOL",
              ErrorCode::kUnimplemented);
}

// Checks what the header says of each array, in the order of their bytes.
void check_entries(HeaderReader& header, std::uint64_t data_bytes) {
  std::sort(header.entries.begin(), header.entries.end(),
            [](const Entry& a, const Entry& b) { return a.offsets < b.offsets; });
  std::set<std::string_view> names;
  std::uint64_t end = 0;
  for (const Entry& entry : header.entries) {
    const std::string named = "array '" + HeaderReader::shown(entry.name) + "' ";
    if (!names.insert(entry.name).second) {
      header.fail(named + "is there twice");
    }
    const auto size = detail::byte_count_of(type_of(header, entry), entry.dims);
    if (entry.offsets.size() != 2 || entry.offsets[0] != end || entry.offsets[1] < end ||
        entry.offsets[1] > data_bytes) {
      header.fail(named + "does not begin where the one before it ends, or exceeds the file");
    }
    end = entry.offsets[1];
    if (!size || *size != end - entry.offsets[0]) {
      header.fail(named + "has " + detail::bytes_but_needs(end - entry.offsets[0], size));
    }
  }
  if (end != data_bytes) {
    header.fail(detail::counted(data_bytes - end, "byte") + " at the end " +
                (data_bytes - end == 1 ? "belongs" : "belong") + " to no array");
  }
}

// Not as one JSON object, because the destructor of an object or a list of the library allocates memory, and ends the
// process if none is left.
std::string header_text(std::span<const NamedArray* const> arrays,
                        const std::map<std::string, std::string>& metadata) {
  std::string text = "{";
  const auto add = [&text](const std::string& key, const std::string& value) {
    text += (text.ends_with('{') ? "" : ",") + json(key).dump() + ":" + value;
  };
  if (!metadata.empty()) {
    add(kMetadata, "{");
    for (const auto& [key, value] : metadata) {
      add(key, json(value).dump());
    }
    text += "}";
  }
  std::uint64_t end = 0;
  for (const NamedArray* array : arrays) {
    add(array->name, "{");
    add("dtype", json(name_of(array->type)).dump());
    std::string shape;
    for (const std::uint64_t dim : array->dims) {
      shape += (shape.empty() ? "" : ",") + std::to_string(dim);
    }
    add("shape", "[" + shape + "]");
    const std::uint64_t begin = std::exchange(end, end + array->bytes.size());
    add("data_offsets", "[" + std::to_string(begin) + "," + std::to_string(end) + "]");
    text += "}";
  }
  return text + "}";
}

std::string header_of(const std::filesystem::path& path, std::span<const NamedArray* const> arrays,
                      const std::map<std::string, std::string>& metadata) {
  std::string text;
  try {
    text = header_text(arrays, metadata);
  } catch (const json::type_error&) {
    throw Error(ErrorCode::kInvalidArgument,
                "cannot save to " + path.string() + ": a name or the metadata is not UTF-8; change it");
  }
  text.append((kSizeBytes - text.size() % kSizeBytes) % kSizeBytes, ' ');
  if (text.size() > kLargestHeader) {
    throw Error(ErrorCode::kResourceExhausted,
                "cannot save to " + path.string() + ": the header would have " + std::to_string(text.size()) +
                    " bytes, and the format allows 100,000,000; save fewer arrays");
  }
  return text;
}

}  // namespace

void save_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                      const std::map<std::string, std::string>& metadata) {
  detail::write_safetensors(path, arrays, metadata, true);
}

void detail::write_safetensors(const std::filesystem::path& path, std::span<const NamedArray> arrays,
                               const std::map<std::string, std::string>& metadata, bool flushes_folder) {
  detail::check_arrays(path, arrays);
  std::vector<const NamedArray*> order;
  for (const NamedArray& array : arrays) {
    if (array.name == kMetadata) {
      throw Error(
          ErrorCode::kInvalidArgument,
          "cannot save to " + path.string() + ": the format reserves the name '__metadata__'; rename it");
    }
    order.push_back(&array);
  }
  std::sort(order.begin(), order.end(), [](const NamedArray* a, const NamedArray* b) {
    return std::pair(program::byte_size(b->type), std::string_view(a->name)) <
           std::pair(program::byte_size(a->type), std::string_view(b->name));
  });
  const std::string header = header_of(path, order, metadata);
  std::array<std::byte, kSizeBytes> size{};
  for (std::size_t i = 0; i < kSizeBytes; ++i) {
    size[i] = static_cast<std::byte>(header.size() >> (8 * i) & 0xffU);
  }
  detail::NewFile file(path);
  file.write(size);
  file.write(std::as_bytes(std::span(header)));
  for (const NamedArray* array : order) {
    file.write(array->bytes);
  }
  file.commit(flushes_folder);
}

Safetensors load_safetensors(const std::filesystem::path& path) {
  return detail::parse_safetensors(detail::read_file(path), path.string());
}

Safetensors detail::parse_safetensors(std::span<const std::byte> file, const std::string& where) {
  HeaderReader header(where);
  if (file.size() < kSizeBytes) {
    header.fail("it has " + detail::counted(file.size(), "byte") + ", too few for a header");
  }
  std::uint64_t size = 0;
  for (std::size_t i = kSizeBytes; i-- > 0;) {
    size = size << 8U | std::to_integer<std::uint64_t>(file[i]);
  }
  const std::uint64_t rest = file.size() - kSizeBytes;
  if (size > kLargestHeader || size > rest) {
    header.fail("it claims to have a header of " + detail::counted(size, "byte"));
  }
  const std::string_view text(reinterpret_cast<const char*>(file.data()) + kSizeBytes, size);
  if (!text.starts_with('{')) {
    header.fail("its header does not begin with '{'");
  }
  json::sax_parse(text.begin(), text.end(), &header);
  check_entries(header, rest - size);
  Safetensors result{.arrays = {}, .metadata = std::move(header.metadata)};
  const auto data = file.subspan(kSizeBytes + size);
  for (Entry& entry : header.entries) {
    const auto bytes = data.subspan(entry.offsets[0], entry.offsets[1] - entry.offsets[0]);
    result.arrays.push_back({std::move(entry.name), type_of(header, entry), std::move(entry.dims),
                             std::vector<std::byte>(bytes.begin(), bytes.end())});
  }
  return result;
}

}  // namespace yoke
