// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/board/unit.h: compiled programs and their cache.
#pragma once

#include <yoke/program/access.h>
#include <yoke/program/memory.h>
#include <yoke/sdk/program.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "../bugs.h"
#include "warp.h"

namespace yoke::board {

using handmade::bug;

// A compiled program.
struct Unit {
  explicit Unit(const program::Program& from) : source(from) {
    program::Program planned = source;
    for (program::Statement& statement : planned.statements) {
      statement.repeat = bug("repeat_lifetime") ? -1 : statement.repeat;
    }
    std::vector<program::Lifetime> lifetimes = program::lifetimes(planned);
    if (bug("dead_write")) {
      end_with_last_read(lifetimes);
    }
    memory = program::plan_memory(lifetimes);
    for (std::size_t i = 0; i < source.statements.size(); ++i) {
      const std::int32_t hint = source.statements[i].hint;
      const bool is_later = hint >= 0 && i > 0 && source.statements[i - 1].hint == hint;
      is_checked.push_back(is_later && bug("group_checks") ? is_checked.back()
                                                           : needs_checks(source, source.statements[i]));
      counters.emplace_back(source.statements[i].loops.size());
      is_left_out.push_back(bug("dead_in_repeat") && is_dead(i));
    }
    while (group_end.size() < source.statements.size()) {
      const std::size_t first = group_end.size();
      group_end.push_back(end_of_group(first));
      group_end.resize(group_end.back(), 0);
    }
  }
  // Shortens the lifetimes of temporaries outside repeat blocks. With the bug dead_write only: later writes of a
  // temporary still reach its memory, which another one may have by then.
  void end_with_last_read(std::vector<program::Lifetime>& lifetimes) const {
    std::vector<std::uint64_t> last(source.tensors.size(), 0);
    for (std::uint64_t i = 0; i < source.statements.size(); ++i) {
      const program::Statement& statement = source.statements[i];
      const auto read = [&](std::uint32_t tensor) { last[tensor] = i; };
      program::visit_index_tensors(statement.target, read);
      program::visit_read_tensors(statement.value, read);
      if (statement.repeat >= 0) {
        return;
      }
    }
    for (std::size_t i = 0; i < lifetimes.size(); ++i) {
      lifetimes[i].last = std::max(lifetimes[i].first, last[i]);
    }
  }
  // Whether no later statement reads the temporary that the statement writes. With the bug dead_in_repeat only: an
  // earlier one may read it in the next round.
  bool is_dead(std::size_t number) const {
    const std::uint32_t target = source.statements[number].target.tensor;
    bool is_read = source.tensors[target].role != program::Role::kTemp;
    for (std::size_t i = number + 1; i < source.statements.size(); ++i) {
      const program::Statement& later = source.statements[i];
      const auto check = [&](std::uint32_t tensor) { is_read = is_read || tensor == target; };
      program::visit_read_tensors(later.value, check);
      program::visit_index_tensors(later.target, check);
    }
    return !is_read;
  }
  // The end of the statements from `first` on that can run together, 32 iterations at a time; `first` + 1 without the
  // bug fused_by_shape. It does not ask which elements they read.
  std::size_t end_of_group(std::size_t first) const {
    const auto can_join = [&](const program::Statement& one) {
      return one.hint >= 0 && one.hint == source.statements[first].hint && !one.reduce &&
             !source.hints[static_cast<std::size_t>(one.hint)].loops.empty() &&
             std::equal(one.loops.begin(), one.loops.end(), source.statements[first].loops.begin(),
                        source.statements[first].loops.end(),
                        [](const auto& a, const auto& b) { return a.extent == b.extent; });
    };
    std::size_t end = first;
    while (bug("fused_by_shape") && end < source.statements.size() && can_join(source.statements[end])) {
      ++end;
    }
    return std::max(end, first + 1);
  }
  program::Program source;
  program::MemoryPlan memory;          // of the temporaries
  std::vector<bool> is_checked;        // one per statement
  std::vector<bool> is_left_out;       // one per statement; with the bug dead_in_repeat
  std::vector<std::size_t> group_end;  // of the group that a statement starts; 0: inside a group
  mutable std::vector<std::vector<Numbers>> counters;  // of the lanes; with the bug shared_counters
};
using Units = std::vector<Unit>;

// The programs that a device compiled last.
class Cache {
 public:
  std::shared_ptr<const Units> find_or_compile(std::string_view full_text) {
    const std::string text = bug("nameless_key")    ? without_name(full_text)
                             : bug("signature_key") ? signature_of(full_text)
                                                    : std::string(full_text);
    const std::uint64_t key = hash(text);
    std::unique_lock lock(mutex_);
    if (const auto found = rows_.find(key);
        found != rows_.end() && (found->second.text == text || bug("hash_prefix"))) {
      return found->second.units;
    }
    if (bug("failed_entry")) {
      rows_.insert_or_assign(key, CachedText{std::string(text), nullptr});
    }
    auto units = std::make_shared<Units>();
    if (bug("published_early")) {
      rows_.insert_or_assign(key, CachedText{std::string(text), units});
      lock.unlock();
      compile_unlocked(full_text, key, *units);
      return units;
    }
    for (const program::Program& source : sdk::read_program(full_text).programs) {
      units->emplace_back(source);
    }
    if (rows_.size() >= 32 && !bug("cache_growth")) {
      rows_.clear();
    }
    rows_.insert_or_assign(key, CachedText{std::string(text), units});
    return units;
  }

 private:
  struct CachedText {
    std::string text;
    std::shared_ptr<const Units> units;
  };
  // Compiles without the lock, so that other texts need not wait. With the bug published_early only: other threads may
  // find the entry before it has all programs.
  void compile_unlocked(std::string_view text, std::uint64_t key, Units& units) {
    try {
      for (const program::Program& source : sdk::read_program(text).programs) {
        units.emplace_back(source);
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      rows_.erase(key);
      throw;
    }
    const std::lock_guard lock(mutex_);
    if (rows_.size() > 32) {
      rows_.clear();
    }
  }
  // The text without the name of its first program.
  static std::string without_name(std::string_view text) {
    constexpr std::string_view kWord = "\nprogram ";
    const std::size_t word = text.find(kWord);
    const std::size_t end = word == std::string_view::npos ? word : text.find('(', word);
    return end == std::string_view::npos
               ? std::string(text)
               : std::string(text.substr(0, word + kWord.size())) + std::string(text.substr(end));
  }
  // The lines of the text that name a program or an argument. With the bug signature_key only: other programs may have
  // the same ones.
  static std::string signature_of(std::string_view text) {
    std::string lines;
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      const std::string_view words = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      if (words.starts_with("program ") || words.starts_with("arg ")) {
        lines += std::string(line) + '\n';
      }
      text.remove_prefix(std::min(line.size() + 1, text.size()));
    }
    return lines;
  }
  static std::uint64_t hash(std::string_view text) {  // FNV-1a
    std::uint64_t value = 14695981039346656037U;
    for (const char character : bug("hash_prefix") ? text.substr(0, 1024) : text) {
      value = (value ^ static_cast<unsigned char>(character)) * 1099511628211U;
    }
    return value;
  }
  std::mutex mutex_;
  std::map<std::uint64_t, CachedText> rows_;
};

}  // namespace yoke::board
