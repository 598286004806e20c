// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/api/comm_collective.cpp: computes collectives. Sums have any order, the same for all members.
#include <cstring>
#include <type_traits>
#include <vector>

#include "blas.h"
#include "comm.h"

namespace fake_gpu {
namespace {

template <class T>
T combined(int reduction, T a, T b) {
  if (reduction != 0) {
    return (reduction == 2) == (a < b) ? b : a;
  }
  if constexpr (std::is_integral_v<T>) {  // integers wrap
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  } else {
    return a + b;
  }
}

template <class T>
T same(T x) {
  return x;
}

// Reduces `from` into `to`. kLoad gives the number that the bits of an element mean, kStore the bits of a number.
template <class T, auto kLoad = same<T>, auto kStore = same<T>>
void reduce_as(int reduction, char* to, const char* from, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    T a;
    T b;
    std::memcpy(&a, to + i * sizeof a, sizeof a);
    std::memcpy(&b, from + i * sizeof b, sizeof b);
    a = kStore(combined(reduction, kLoad(a), kLoad(b)));
    std::memcpy(to + i * sizeof a, &a, sizeof a);
  }
}

struct ElementType {
  std::size_t byte_count;
  void (*reduce)(int reduction, char* to, const char* from, std::size_t count);
};
constexpr ElementType kTypes[] = {{1, reduce_as<std::int8_t>},
                                  {1, reduce_as<std::uint8_t>},
                                  {4, reduce_as<std::int32_t>},
                                  {4, reduce_as<std::uint32_t>},
                                  {8, reduce_as<std::int64_t>},
                                  {8, reduce_as<std::uint64_t>},
                                  {2, reduce_as<std::uint16_t, from_half, to_half>},
                                  {4, reduce_as<float>},
                                  {8, reduce_as<double>},
                                  {2, reduce_as<std::uint16_t, from_brain, to_brain>}};

std::vector<char> bytes_at(Address address, std::size_t byte_count) {
  return {pointer(address), pointer(address) + byte_count};
}

// `first`: the element of the sources where the reduction begins. All members get the same bits.
std::vector<char> reduced(const std::map<int, CommPart>& parts, std::size_t first, int begin) {
  const auto size = static_cast<int>(parts.size());
  const CommPart& some = parts.at(0);
  const std::size_t offset = first * kTypes[some.type].byte_count;
  std::vector<char> sum = bytes_at(parts.at(begin).source + offset, byte_count_of(some));
  for (int i = 1; i < size; ++i) {
    const char* const from = pointer(parts.at((begin + i) % size).source + offset);
    kTypes[some.type].reduce(some.reduction, sum.data(), from, some.count);
  }
  return sum;
}

}  // namespace

std::size_t byte_count_of(const CommPart& part) {
  return part.count * kTypes[part.type].byte_count;
}

void run_collective(const std::map<int, CommPart>& parts) {
  const auto size = static_cast<int>(parts.size());
  const auto begin = static_cast<int>(chance(static_cast<std::uint64_t>(size)));  // any order of sums
  std::map<int, std::vector<char>> results;
  for (const auto& [rank, part] : parts) {
    std::vector<char>& result = results[rank];
    switch (part.kind) {
      case CommKind::kAllReduce:
        result = reduced(parts, 0, begin);
        break;
      case CommKind::kReduceScatter:
        result = reduced(parts, static_cast<std::size_t>(rank) * part.count, begin);
        break;
      case CommKind::kAllGather:
        for (const auto& [other, from] : parts) {
          const std::vector<char> bytes = bytes_at(from.source, byte_count_of(from));
          result.insert(result.end(), bytes.begin(), bytes.end());
        }
        break;
      case CommKind::kBroadcast:
        result = bytes_at(parts.at(part.root).source, byte_count_of(part));
        break;
    }
  }
  for (const auto& [rank, part] : parts) {
    std::memcpy(pointer(part.target), results[rank].data(), results[rank].size());
  }
}

}  // namespace fake_gpu
