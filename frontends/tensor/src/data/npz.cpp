// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/data/npz.cpp: zip archives of .npy files, by libzip. They are not compressed.
#include <yoke/npz.h>
#include <yoke/runtime/counted.h>
#include <yoke/runtime/error.h>
#include <zip.h>

#include <array>
#include <memory>
#include <new>
#include <set>

#include "data/arrays.h"
#include "data/files.h"
#include "data/npy.h"

namespace yoke {
namespace {

constexpr std::string_view kBF16Suffix = ".bf16";
constexpr std::uint16_t kDosDate = 0x21;  // 1980-01-01; a constant date makes equal arrays give equal files

struct CloseArchive {
  void operator()(zip_t* archive) const { zip_discard(archive); }
};
using Archive = std::unique_ptr<zip_t, CloseArchive>;
struct CloseEntry {
  void operator()(zip_file_t* file) const { zip_fclose(file); }
};
struct FreeSource {
  void operator()(zip_source_t* source) const { zip_source_free(source); }
};
using ZipSource = std::unique_ptr<zip_source_t, FreeSource>;

Error error_of(const zip_error_t& error, const std::string& where, const std::string& fix) {
  zip_error_t copy;  // owns its text
  zip_error_init(&copy);
  const std::unique_ptr<zip_error_t, decltype(&zip_error_fini)> freed(&copy, &zip_error_fini);
  copy.zip_err = error.zip_err;
  copy.sys_err = error.sys_err;
  const int number = zip_error_code_zip(&copy);
  if (number == ZIP_ER_MEMORY) {
    throw std::bad_alloc();
  }
  const bool is_unsupported = number == ZIP_ER_COMPNOTSUPP || number == ZIP_ER_ENCRNOTSUPP;
  return {is_unsupported ? ErrorCode::kUnimplemented : ErrorCode::kDataLoss,
          where + ": " + zip_error_strerror(&copy) + "; " + fix};
}

constexpr const char* kDamaged = "this is not a .npz file, or it is damaged: download or save it again";

class ZipReader {
 public:
  ZipReader(std::string name, std::span<const std::byte> file) : name_(std::move(name)), file_(file) {
    zip_error_t error;
    zip_error_init(&error);
    ZipSource source(zip_source_buffer_create(file.data(), file.size(), 0, &error));
    // libzip takes an empty file for an archive without entries.
    if (source != nullptr && !file.empty()) {
      archive_.reset(zip_open_from_source(source.get(), ZIP_RDONLY, &error));
    } else {
      zip_error_set(&error, ZIP_ER_NOZIP, 0);
    }
    if (archive_ == nullptr) {
      throw error_of(error, name_, kDamaged);
    }
    static_cast<void>(source.release());  // the archive owns it now
  }

  std::uint64_t entry_count() const {
    return static_cast<std::uint64_t>(zip_get_num_entries(archive_.get(), 0));
  }

  std::string entry_name(std::uint64_t index) const {
    const char* name = zip_get_name(archive_.get(), index, ZIP_FL_ENC_RAW);
    return name != nullptr ? name : "";
  }

  std::vector<std::byte> read(std::uint64_t index) const {
    const std::string where = name_ + ", " + entry_name(index);
    const auto broken = [&](zip_error_t* error) { return error_of(*error, where, kDamaged); };
    zip_stat_t info;
    if (zip_stat_index(archive_.get(), index, 0, &info) != 0) {
      throw broken(zip_get_error(archive_.get()));
    }
    if (info.encryption_method != ZIP_EM_NONE) {
      throw Error(ErrorCode::kUnimplemented, where + ": it is encrypted; save it without a password");
    }
    // Deflate compresses at most 1032 to 1, so the size of the file bounds the output.
    if (info.size / 1032 > file_.size()) {
      throw Error(ErrorCode::kDataLoss,
                  where + ": it claims to have " + detail::counted(info.size, "byte") + "; " + kDamaged);
    }
    const std::unique_ptr<zip_file_t, CloseEntry> entry(zip_fopen_index(archive_.get(), index, 0));
    if (entry == nullptr) {
      throw broken(zip_get_error(archive_.get()));
    }
    std::vector<std::byte> bytes(info.size + 1);  // reading to the end checks the size and the checksum
    std::size_t done = 0;
    while (true) {
      const zip_int64_t count = zip_fread(entry.get(), bytes.data() + done, bytes.size() - done);
      if (count < 0 || done + static_cast<std::size_t>(count) > info.size) {
        throw broken(zip_file_get_error(entry.get()));
      }
      if (count == 0) {
        break;
      }
      done += static_cast<std::size_t>(count);
    }
    bytes.resize(done);
    return bytes;
  }

 private:
  std::string name_;
  std::span<const std::byte> file_;
  Archive archive_;
};

// Writes an archive into memory.
class ZipWriter {
 public:
  explicit ZipWriter(std::string name) : name_(std::move(name)) {
    zip_error_t error;
    zip_error_init(&error);
    output_.reset(zip_source_buffer_create(nullptr, 0, 0, &error));
    if (output_ != nullptr) {
      archive_.reset(zip_open_from_source(output_.get(), ZIP_CREATE | ZIP_TRUNCATE, &error));
    }
    if (archive_ == nullptr) {
      throw failed(error);
    }
    zip_source_keep(output_.get());  // the archive owns it, too
  }

  // `parts` and what they point to must live until finish().
  void add(const std::string& name, std::span<const zip_buffer_fragment_t> parts) {
    zip_t* archive = archive_.get();
    ZipSource content(zip_source_buffer_fragment(archive, parts.data(), parts.size(), 0));
    const zip_int64_t added =
        content == nullptr ? -1 : zip_file_add(archive, name.c_str(), content.get(), ZIP_FL_ENC_UTF_8);
    if (added < 0) {
      throw failed(*zip_get_error(archive));
    }
    static_cast<void>(content.release());  // the archive owns it now
    const auto index = static_cast<zip_uint64_t>(added);
    if (zip_set_file_compression(archive, index, ZIP_CM_STORE, 0) != 0 ||
        zip_file_set_dostime(archive, index, 0, kDosDate, 0) != 0) {
      throw failed(*zip_get_error(archive));
    }
  }

  // Calls `write` with the bytes of the archive, in pieces.
  template <class Write>
  void finish(const Write& write) {
    if (zip_get_num_entries(archive_.get(), 0) == 0) {  // zip_close would delete the archive
      constexpr std::array<char, 22> kEnd = {'P', 'K', 5, 6};
      return write(std::as_bytes(std::span(kEnd)));
    }
    if (zip_close(archive_.get()) != 0) {
      throw failed(*zip_get_error(archive_.get()));
    }
    static_cast<void>(archive_.release());
    if (zip_source_open(output_.get()) != 0) {
      throw failed(*zip_source_error(output_.get()));
    }
    std::vector<std::byte> piece(1U << 20U);
    zip_int64_t count = 0;
    while ((count = zip_source_read(output_.get(), piece.data(), piece.size())) > 0) {
      write(std::span(piece).first(static_cast<std::size_t>(count)));
    }
    zip_source_close(output_.get());
    if (count < 0) {
      throw failed(*zip_source_error(output_.get()));
    }
  }

 private:
  Error failed(const zip_error_t& error) const {
    const Error cause = error_of(error, "cannot save to " + name_, "report this as a bug");
    return {ErrorCode::kInternal, cause.what()};
  }

  std::string name_;
  ZipSource output_;
  Archive archive_;
};

}  // namespace

void save_npz(const std::filesystem::path& path, std::span<const NamedArray> arrays) {
  detail::check_arrays(path, arrays);
  detail::NewFile file(path);
  std::vector<std::string> headers;
  std::vector<std::array<zip_buffer_fragment_t, 2>> parts(arrays.size());
  headers.reserve(arrays.size());
  ZipWriter zip(path.string());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const NamedArray& array = arrays[i];
    std::string& header = headers.emplace_back(detail::npy_header(array.type, array.dims));
    // libzip only reads the bytes.
    auto* bytes = reinterpret_cast<zip_uint8_t*>(const_cast<std::byte*>(array.bytes.data()));
    parts[i] = {
        {{reinterpret_cast<zip_uint8_t*>(header.data()), header.size()}, {bytes, array.bytes.size()}}};
    const bool bf16 = array.type == program::Type::kBF16;
    zip.add(array.name + std::string(bf16 ? kBF16Suffix : "") + ".npy", parts[i]);
  }
  zip.finish([&](std::span<const std::byte> piece) { file.write(piece); });
  file.commit();
}

std::vector<NamedArray> load_npz(const std::filesystem::path& path) {
  const std::vector<std::byte> file = detail::read_file(path);
  const ZipReader zip(path.string(), file);
  std::vector<NamedArray> arrays;
  std::set<std::string> names;
  for (std::uint64_t i = 0; i < zip.entry_count(); ++i) {
    const std::string where = path.string() + ", " + zip.entry_name(i);
    NamedArray array = detail::parse_npy(zip.read(i), where);
    array.name = zip.entry_name(i);
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

NamedArray load_npy(const std::filesystem::path& path) {
  NamedArray array = detail::parse_npy(detail::read_file(path), path.string());
  if (array.type == program::Type::kBF16) {
    throw Error(ErrorCode::kUnimplemented,
                path.string() + ": uint16 is not supported; convert the array with astype to uint32");
  }
  return array;
}

void save_npy(const std::filesystem::path& path, const NamedArray& array) {
  const auto byte_count = detail::byte_count_of(array.type, array.dims);
  if (!byte_count || *byte_count != array.bytes.size()) {
    throw Error(ErrorCode::kInvalidArgument, "cannot save to " + path.string() + ": the array has " +
                                                 detail::bytes_but_needs(array.bytes.size(), byte_count));
  }
  detail::NewFile file(path);
  const std::string header = detail::npy_header(array.type, array.dims);
  file.write(std::as_bytes(std::span(header)));
  file.write(array.bytes);
  file.commit();
}

void check_can_save(const std::filesystem::path& path) {
  constexpr std::size_t kProbeBytes = 4096;  // one block, to detect a full disk
  detail::NewFile probe(path);
  probe.write(std::array<std::byte, kProbeBytes>{});
  probe.flush();
}

}  // namespace yoke
