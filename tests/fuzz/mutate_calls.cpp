// SPDX-License-Identifier: Apache-2.0
// tests/fuzz/mutate_calls.cpp: changes a trace as a list of calls: other handles, twice, never, in another
// order, with other numbers, and calls of any function of the ABI. Only libFuzzer programs have it.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string_view>
#include <vector>

#include "layers/functions.h"
#include "layers/hash.h"
#include "layers/trace_format.h"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed);

namespace yoke::fuzz {
namespace {

using layers::Decoder;
using layers::Encoder;
using layers::Kind;
using layers::RecordType;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kOwnNumbers = 1000;  // functions that the mutator describes itself

// A field of a call.
struct Field {
  enum class Form { kNumber, kBytes, kHash, kByte } form = Form::kNumber;
  std::size_t begin = 0;
  std::size_t end = 0;
  Kind kind = Kind::kNumber;  // of a handle
};

struct Function {
  std::vector<std::pair<Kind, Kind>> arguments;  // kind, makes
};

class Trace {
 public:
  Trace(std::span<const std::byte> file, unsigned seed) : random_(seed) {
    for (std::size_t at = sizeof(header_); at + layers::kRecordHead < file.size();) {
      std::uint32_t size = 0;
      std::memcpy(&size, file.data() + at, sizeof(size));
      size = static_cast<std::uint32_t>(std::min<std::size_t>(size, file.size() - at - layers::kRecordHead));
      const auto payload = file.subspan(at + layers::kRecordHead, size);
      if (!payload.empty()) {
        records_.emplace_back(payload.begin(), payload.end());
        learn(records_.back());
      }
      at += layers::kRecordHead + size;
    }
    if (file.size() >= sizeof(header_)) {
      std::memcpy(&header_, file.data(), sizeof(header_));
    }
    std::memcpy(header_.magic, layers::kTraceMagic, sizeof(header_.magic));
    header_.version = layers::kTraceVersion;
  }

  void change() {
    if (records_.empty() || draw(8) == 0) {
      return add_call();
    }
    const std::size_t at = draw(records_.size());
    switch (draw(10)) {
      case 0:
        return std::swap(records_[at], records_[draw(records_.size())]);
      case 1:
        records_.insert(place(draw(records_.size() + 1)), Bytes(records_[at]));
        return;
      case 2:
        records_.erase(place(at));
        return;
      case 3:
        header_.flags ^= layers::kTraceHasData;
        return;
      case 4: {
        Bytes& one = records_[at];
        one.resize(one.size() + 16);
        one.resize(
            LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(one.data()), one.size() - 16, one.size()));
        return;
      }
      default:
        return change_field(records_[at]);
    }
  }

  std::size_t write(std::uint8_t* to, std::size_t most) const {
    if (most < sizeof(header_)) {
      return 0;
    }
    std::memcpy(to, &header_, sizeof(header_));
    std::size_t size = sizeof(header_);
    for (const Bytes& one : records_) {
      const auto count = static_cast<std::uint32_t>(one.size());
      if (one.empty() || most - size < layers::kRecordHead + one.size()) {
        continue;
      }
      const auto check = static_cast<std::uint32_t>(layers::hash_of(one.data(), one.size()));
      std::memcpy(to + size, &count, sizeof(count));
      std::memcpy(to + size + sizeof(count), &check, sizeof(check));
      std::memcpy(to + size + layers::kRecordHead, one.data(), one.size());
      size += layers::kRecordHead + one.size();
    }
    return size;
  }

 private:
  std::uint64_t draw(std::uint64_t below) { return random_() % below; }
  std::vector<Bytes>::iterator place(std::size_t at) {
    return records_.begin() + static_cast<std::ptrdiff_t>(at);
  }
  template <class T>
  const T& any_of(const std::vector<T>& all) {
    return all[draw(all.size())];
  }

  // Functions, names of handles, and hashes that there are.
  void learn(const Bytes& record) {
    Decoder from(record);
    const auto type = static_cast<RecordType>(from.byte());
    if (type == RecordType::kFunction) {
      const std::uint64_t id = from.number();
      from.text();
      from.text();
      Function function;
      for (std::uint64_t i = from.number(); i > 0 && i < 32 && from.is_good(); --i) {
        const auto kind = static_cast<Kind>(from.byte());
        function.arguments.emplace_back(kind, static_cast<Kind>(from.byte()));
        from.text();
      }
      functions_.try_emplace(id, std::move(function));
    } else if (type == RecordType::kBlob) {
      hashes_.push_back(from.hash());
      blob_sizes_.push_back(from.number());
    } else if (type == RecordType::kCall) {
      for (const Field& field : fields_of(record)) {
        if (field.form == Field::Form::kNumber && layers::is_handle(field.kind)) {
          Decoder number(std::span(record).subspan(field.begin));
          names_[field.kind].push_back(number.number());
        }
      }
    }
  }

  std::vector<Field> fields_of(const Bytes& record) const {
    std::vector<Field> fields;
    Decoder from(record);
    const auto take = [&](Field::Form form, Kind kind = Kind::kNumber) {
      Field field{form, record.size() - from.left(), 0, kind};
      std::uint64_t value = 0;
      if (form == Field::Form::kNumber) {
        value = from.number();
      } else if (form == Field::Form::kBytes) {
        from.bytes();
      } else if (form == Field::Form::kHash) {
        from.hash();
      } else {
        value = from.byte();
      }
      field.end = record.size() - from.left();
      if (from.is_good()) {
        fields.push_back(field);
      }
      return value;
    };
    using Form = Field::Form;
    const auto type = static_cast<RecordType>(from.byte());
    if (type == RecordType::kContent) {
      take(Form::kNumber);
      take(Form::kNumber);
      take(Form::kHash);
    }
    if (type != RecordType::kCall) {
      return fields;
    }
    take(Form::kNumber);
    const auto function = functions_.find(take(Form::kNumber));
    for (int i = 0; i < 5; ++i) {
      take(Form::kNumber);  // thread, begin, duration, code, vendor's code
    }
    take(Form::kBytes);
    if (function == functions_.end()) {
      return fields;
    }
    for (const auto& [kind, makes] : function->second.arguments) {
      take_value(take, kind, makes, from);
    }
    return fields;
  }

  template <class Take>
  static void take_value(const Take& take, Kind kind, Kind makes, const Decoder& from) {
    using Form = Field::Form;
    switch (kind) {
      case Kind::kPlugin:
      case Kind::kStatus:
        return;
      case Kind::kOutNumber:
        take(Form::kByte);
        take(Form::kNumber);
        return;
      case Kind::kOutRows:
        take(Form::kNumber);
        [[fallthrough]];
      case Kind::kOutInfo:
      case Kind::kOutText:
        take(Form::kBytes);
        return;
      case Kind::kOptions:
        for (std::uint64_t i = take(Form::kNumber); i > 0 && from.is_good(); --i) {
          take(Form::kBytes);
          take(Form::kNumber);
          take(Form::kNumber);
          for (int byte = 0; byte < 8; ++byte) {
            take(Form::kByte);
          }
          take(Form::kBytes);
        }
        return;
      case Kind::kBindings:
      case Kind::kSymbols:
        for (std::uint64_t i = take(Form::kNumber); i > 0 && from.is_good(); --i) {
          take(Form::kNumber, kind == Kind::kBindings ? Kind::kBuffer : Kind::kNumber);
          kind == Kind::kBindings ? take(Form::kNumber) : 0;
        }
        return;
      case Kind::kProgramText:
        take(Form::kBytes);
        take(Form::kNumber);
        take(Form::kNumber);
        take(Form::kHash);
        return;
      case Kind::kSource:
      case Kind::kTarget: {
        const std::uint64_t memory = take(Form::kByte);
        memory != 0 ? take(Form::kNumber) : 0;
        memory == static_cast<std::uint64_t>(layers::Memory::kHere) ? take(Form::kHash) : 0;
        return;
      }
      default:
        take(Form::kNumber, kind == Kind::kOutHandle ? makes : kind);
    }
  }

  std::uint64_t number_for(Kind kind) {
    if (layers::is_handle(kind)) {
      const auto& names = names_[kind];
      return names.empty() || draw(16) == 0 ? draw(12) : any_of(names);
    }
    switch (draw(6)) {
      case 0:
        return draw(4);
      case 1:
        return draw(300);
      case 2:
        return (std::uint64_t{1} << draw(64)) + draw(3) - 1;
      case 3:
        return blob_sizes_.empty() ? 8 : any_of(blob_sizes_);
      case 4:
        return ~std::uint64_t{0} - draw(20);
      default:
        return std::uint64_t{4} << draw(8);
    }
  }
  layers::Hash hash() { return hashes_.empty() || draw(8) == 0 ? layers::Hash{1, draw(4)} : any_of(hashes_); }

  void change_field(Bytes& record) {
    const std::vector<Field> fields = fields_of(record);
    if (fields.empty()) {
      return;
    }
    const Field& field = any_of(fields);
    Bytes value;
    Encoder to(value, RecordType::kCall);  // which is left out again
    switch (field.form) {
      case Field::Form::kNumber:
        to.number(number_for(field.kind));
        break;
      case Field::Form::kHash:
        to.hash(hash());
        break;
      case Field::Form::kByte:
        to.byte(static_cast<std::uint8_t>(draw(draw(4) == 0 ? 256 : 4)));
        break;
      case Field::Form::kBytes: {
        const Bytes bytes(draw(12) == 0 ? 2000 : draw(80), static_cast<std::byte>(draw(256)));
        to.bytes(bytes.data(), bytes.size());
      }
    }
    value.insert(value.end(), record.begin() + static_cast<std::ptrdiff_t>(field.end), record.end());
    record.resize(field.begin);
    record.insert(record.end(), value.begin() + 1, value.end());
  }

  void encode_value(Encoder& to, const layers::Argument& argument) {
    switch (argument.kind) {
      case Kind::kPlugin:
      case Kind::kStatus:
        return;
      case Kind::kOutNumber:
        to.byte(3);
        return to.number(draw(3));
      case Kind::kOutRows:
        to.number(std::uint64_t{8} << draw(8));
        return to.text("");
      case Kind::kOutInfo:
      case Kind::kOutText:
        return to.text("");
      case Kind::kOptions:
        return to.number(0);
      case Kind::kBindings:
        to.number(2);
        for (int i = 0; i < 2; ++i) {
          to.number(number_for(Kind::kBuffer));
          to.number(64 * draw(3));
        }
        return;
      case Kind::kSymbols:
        to.number(1);
        return to.number(draw(4));
      case Kind::kProgramText:
        to.text(YOKE_PROGRAM_FORMAT);
        to.number(YOKE_PROGRAM_VERSION);
        to.number(number_for(Kind::kNumber));
        return to.hash(hash());
      case Kind::kSource:
      case Kind::kTarget: {
        const auto memory = draw(3);
        to.byte(static_cast<std::uint8_t>(memory));
        memory != 0 ? to.number(number_for(Kind::kNumber)) : void();
        return memory == 1 ? to.hash(hash()) : void();
      }
      case Kind::kOutHandle: {
        const std::uint64_t name = draw(3) == 0 ? number_for(argument.makes) : 50 + draw(50);
        names_[argument.makes].push_back(name);
        return to.number(name);
      }
      default:
        return to.number(number_for(argument.kind));
    }
  }

  // A call of any function, which is described first where it was not.
  void add_call() {
    const layers::Row& row = layers::rows()[draw(layers::rows().size())];
    const std::uint64_t id = kOwnNumbers + static_cast<std::uint64_t>(row.function);
    if (functions_.find(id) == functions_.end()) {
      Bytes description;
      Encoder to(description, RecordType::kFunction);
      to.number(id);
      to.text(row.table);
      to.text(row.name);
      Function function;
      for (std::size_t i = 0; i < row.argument_count && row.arguments[i].kind != Kind::kStatus; ++i) {
        function.arguments.emplace_back(row.arguments[i].kind, row.arguments[i].makes);
      }
      to.number(function.arguments.size());
      for (const auto& [kind, makes] : function.arguments) {
        to.byte(static_cast<std::uint8_t>(kind));
        to.byte(static_cast<std::uint8_t>(makes));
        to.text("");
      }
      records_.insert(records_.begin(), description);
      functions_[id] = std::move(function);
    }
    Bytes call;
    Encoder to(call, RecordType::kCall);
    to.number(1);
    to.number(id);
    for (int i = 0; i < 3; ++i) {
      to.number(1);
    }
    to.number(draw(6) == 0 ? draw(18) : YOKE_OK);
    to.number(0);
    to.text("");
    for (std::size_t i = 0; i < row.argument_count; ++i) {
      encode_value(to, row.arguments[i]);
    }
    records_.insert(place(draw(4) == 0 ? records_.size() : draw(records_.size() + 1)), call);
  }

  std::mt19937 random_;
  layers::TraceHeader header_{};
  std::vector<Bytes> records_;
  std::map<std::uint64_t, Function> functions_;
  std::map<Kind, std::vector<std::uint64_t>> names_;
  std::vector<layers::Hash> hashes_;
  std::vector<std::uint64_t> blob_sizes_;
};

}  // namespace
}  // namespace yoke::fuzz

std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                    unsigned seed) {
  if (seed % 64 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  yoke::fuzz::Trace trace(std::as_bytes(std::span(data, size)), seed);
  for (unsigned i = 0; i <= seed % 5; ++i) {
    trace.change();
  }
  return trace.write(data, max_size);
}
