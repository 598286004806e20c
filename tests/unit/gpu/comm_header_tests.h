// SPDX-License-Identifier: Apache-2.0
// tests/unit/gpu/comm_header_tests.h: tests of the plugin's numbers and functions of a library of collectives, after the
// library's header. YOKE_COMM_TEST is the name of the suite.
#pragma once

#include <gpu/communicator.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "header_functions.h"

namespace yoke::gpu {
namespace {

TEST(YOKE_COMM_TEST, FunctionsHaveTheParametersOfTheHeader) {
#define ALIKE(member, function) YOKE_ALIKE(Comm, member, function)
  const std::vector<HeaderFunction> functions = {
      ALIKE(version, ncclGetVersion),      ALIKE(unique_id, ncclGetUniqueId),
      ALIKE(init, ncclCommInitRankConfig), ALIKE(async_error, ncclCommGetAsyncError),
      ALIKE(abort, ncclCommAbort),         ALIKE(destroy, ncclCommDestroy),
      ALIKE(group_start, ncclGroupStart),  ALIKE(group_end, ncclGroupEnd),
      ALIKE(all_reduce, ncclAllReduce),    ALIKE(reduce_scatter, ncclReduceScatter),
      ALIKE(all_gather, ncclAllGather),    ALIKE(broadcast, ncclBroadcast)};
#undef ALIKE
  const std::vector<Row> rows = {
#define YOKE_COMM(member, parameters, function) {#member, function},
#include <gpu/driver.def>
  };
  expect_all_alike(rows, functions);
}

// Enumerations and handles are passed alike: the header's types show their order.
template <class... P>
std::vector<int> kinds_of(ncclResult_t (*)(P...)) {
  return {(std::is_same_v<P, ncclDataType_t> ? 1
           : std::is_same_v<P, ncclRedOp_t>  ? 2
           : std::is_same_v<P, ncclComm_t>   ? 3
                                             : 0)...};
}

TEST(YOKE_COMM_TEST, ParametersAreInTheOrderOfTheHeader) {
  const auto kinds = [](auto* function) { return kinds_of(function); };
  EXPECT_EQ(kinds(static_cast<decltype(&ncclAllReduce)>(nullptr)), (std::vector<int>{0, 0, 0, 1, 2, 3, 0}));
  EXPECT_EQ(kinds(static_cast<decltype(&ncclReduceScatter)>(nullptr)),
            (std::vector<int>{0, 0, 0, 1, 2, 3, 0}));
  EXPECT_EQ(kinds(static_cast<decltype(&ncclAllGather)>(nullptr)), (std::vector<int>{0, 0, 0, 1, 3, 0}));
  EXPECT_EQ(kinds(static_cast<decltype(&ncclBroadcast)>(nullptr)), (std::vector<int>{0, 0, 0, 1, 0, 3, 0}));
}

TEST(YOKE_COMM_TEST, NumbersAreThoseOfTheHeader) {
  EXPECT_EQ(kCommInProgress, ncclInProgress);
  EXPECT_EQ(sizeof(CommId), sizeof(ncclUniqueId));
  EXPECT_EQ(sizeof(CommId), static_cast<std::size_t>(NCCL_UNIQUE_ID_BYTES));
  EXPECT_EQ(comm_type(YOKE_TYPE_F64), ncclFloat64);
  EXPECT_EQ(comm_type(YOKE_TYPE_F32), ncclFloat32);
  EXPECT_EQ(comm_type(YOKE_TYPE_F16), ncclFloat16);
  EXPECT_EQ(comm_type(YOKE_TYPE_BF16), ncclBfloat16);
  EXPECT_EQ(comm_type(YOKE_TYPE_I64), ncclInt64);
  EXPECT_EQ(comm_type(YOKE_TYPE_I32), ncclInt32);
  EXPECT_EQ(comm_type(YOKE_TYPE_U32), ncclUint32);
  EXPECT_EQ(comm_type(YOKE_TYPE_U8), ncclUint8);
  EXPECT_EQ(comm_type(YOKE_TYPE_BOOL), ncclUint8);
  EXPECT_EQ(comm_reduction(YOKE_REDUCTION_SUM), ncclSum);
  EXPECT_EQ(comm_reduction(YOKE_REDUCTION_MAX), ncclMax);
  EXPECT_EQ(comm_reduction(YOKE_REDUCTION_MIN), ncclMin);
}

TEST(YOKE_COMM_TEST, ErrorsHaveTheNamesOfTheHeader) {
  const std::vector<std::pair<int, const char*>> names = {{ncclSuccess, "ncclSuccess"},
                                                          {ncclUnhandledCudaError, "ncclUnhandledCudaError"},
                                                          {ncclSystemError, "ncclSystemError"},
                                                          {ncclInternalError, "ncclInternalError"},
                                                          {ncclInvalidArgument, "ncclInvalidArgument"},
                                                          {ncclInvalidUsage, "ncclInvalidUsage"},
                                                          {ncclRemoteError, "ncclRemoteError"},
                                                          {ncclInProgress, "ncclInProgress"}};
  for (const auto& [code, name] : names) {
    EXPECT_EQ(failure_of_comm("f", code).text().find("f failed: " + std::string(name) + ";"), 0U) << name;
  }
}

// Releases accept shorter configurations of earlier releases, whose fields have the same offsets.
TEST(YOKE_COMM_TEST, ConfigurationIsAPrefixOfTheHeaders) {
  EXPECT_EQ(offsetof(CommConfig, size), offsetof(ncclConfig_t, size));
  EXPECT_EQ(offsetof(CommConfig, magic), offsetof(ncclConfig_t, magic));
  EXPECT_EQ(offsetof(CommConfig, version), offsetof(ncclConfig_t, version));
  EXPECT_EQ(offsetof(CommConfig, blocking), offsetof(ncclConfig_t, blocking));
  EXPECT_EQ(sizeof(CommConfig::size), sizeof(ncclConfig_t::size));
  EXPECT_EQ(sizeof(CommConfig::blocking), sizeof(ncclConfig_t::blocking));
  EXPECT_LE(sizeof(CommConfig), sizeof(ncclConfig_t));
  const ncclConfig_t newest = NCCL_CONFIG_INITIALIZER;
  const CommConfig ours;
  EXPECT_EQ(ours.size, sizeof(CommConfig));
  EXPECT_EQ(ours.magic, newest.magic);
  EXPECT_LE(ours.version, newest.version);
  EXPECT_EQ(ours.version, static_cast<unsigned>(NCCL_VERSION(2, 14, 0)));
  EXPECT_EQ(ours.blocking, 0);
}

}  // namespace
}  // namespace yoke::gpu
