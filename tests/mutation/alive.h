// SPDX-License-Identifier: Apache-2.0
// tests/mutation/alive.h: chooses at run time which of the mistakes in a mutated source is alive. Every
// mutated source includes it.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace yoke_mutation {

// One byte per mutant, shared by all processes of a test: 1 if the mutant was reached. Null: not recorded.
[[gnu::visibility("hidden")]] inline unsigned char* open_reached() {
  const char* const path = std::getenv("YOKE_MUTANTS_REACHED");
  const int file = path != nullptr ? open(path, O_RDWR) : -1;
  if (file < 0) {
    return nullptr;
  }
  const off_t size = lseek(file, 0, SEEK_END);
  void* const bytes = mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  return bytes == MAP_FAILED ? nullptr : static_cast<unsigned char*>(bytes);
}

[[gnu::visibility("hidden")]] inline int read_chosen() {
  const char* const text = std::getenv("YOKE_MUTANT");
  return text != nullptr ? std::atoi(text) : 0;
}

[[gnu::visibility("hidden")]] inline unsigned char* const reached = open_reached();
[[gnu::visibility("hidden")]] inline const int chosen = read_chosen();

// Whether the mutant with this number, from 1, is alive in this process.
[[gnu::visibility("hidden")]] inline bool alive(int number) {
  if (reached != nullptr) {
    reached[number] = 1;
  }
  return number == chosen;
}

// std::min or std::max, the other one if `other`.
template <bool kMin, class T>
T limit(bool other, const T& a, const T& b) {
  return kMin != other ? std::min(a, b) : std::max(a, b);
}
template <bool kMin, class T>
T limit(bool other, std::initializer_list<T> values) {
  return kMin != other ? std::min(values) : std::max(values);
}

// std::any_of or std::all_of, the other one if `other`.
template <bool kAny, class Iterator, class Predicate>
bool quantify(bool other, Iterator first, Iterator last, Predicate predicate) {
  return kAny != other ? std::any_of(first, last, predicate) : std::all_of(first, last, predicate);
}

}  // namespace yoke_mutation
