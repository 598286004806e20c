// SPDX-License-Identifier: Apache-2.0
// frontends/replay/arguments.h: rebuilds the arguments of a call from their recorded values.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "replay/contents.h"
#include "replay/handles.h"
#include "replay/replay.h"

namespace yoke::replay {

// The words of a call, and the memory that they point to.
struct Arguments {
  std::array<std::uint64_t, abi::kMostArguments> words{};
  // The parameters of the C function: the words, or the address of a struct that holds them.
  std::array<std::uint64_t, abi::kMostParameters> parameters{};
  std::array<std::uint64_t, abi::kMostArguments> outs{};
  std::deque<std::vector<std::byte>> memory;
  std::vector<yoke::Option> options;
  std::vector<std::byte> target;  // of a to_host
  bool is_made_up = false;        // the source
};

class ArgumentBuilder {
 public:
  ArgumentBuilder(const Reader& reader, const Functions& functions, const Handles& handles,
                  const std::map<Key, Types>& types, const Options& options)
      : reader_(reader), functions_(functions), handles_(handles), types_(types), options_(options) {}

  // Options of the recorded backend are passed only if it is also the backend of the replay.
  void keep_options(bool keep) { keeps_options_ = keep; }
  // Returns why the call cannot be repeated; empty if `out` is complete.
  std::string build(const abi::Row& row, const Record& record, Arguments& out) const;
  // Sets the parameters from the words.
  static void pack(const abi::Row& row, Arguments& out);

 private:
  bool build_one(const abi::Row& row, const Record& record, std::size_t i, Arguments& out) const;
  bool build_handle(const abi::Argument& argument, const Record& record, std::size_t i, Arguments& out) const;
  bool build_info(const Value& value, std::size_t i, Arguments& out) const;
  bool build_rows(const abi::Argument& argument, const Record& record, std::size_t i, Arguments& out) const;
  void build_options(const abi::Argument& argument, const Value& value, std::size_t i, Arguments& out) const;
  bool build_bindings(const abi::Argument& argument, const Record& record, std::size_t i,
                      Arguments& out) const;
  void build_text(const Value& value, std::size_t i, Arguments& out) const;
  bool build_source(const abi::Row& row, const Record& record, std::size_t i, Arguments& out) const;

  const Reader& reader_;
  const Functions& functions_;
  const Handles& handles_;
  const std::map<Key, Types>& types_;  // by buffer
  const Options& options_;
  bool keeps_options_ = true;
};

}  // namespace yoke::replay
