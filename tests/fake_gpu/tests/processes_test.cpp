// SPDX-License-Identifier: Apache-2.0
// tests/fake_gpu/tests/processes_test.cpp: two threads, each with members of a group, as two processes would have.
#include <yoke/runtime/collective.h>

#include <string>
#include <thread>
#include <vector>

#include "on_fakes.h"
#include "test_paths.h"

namespace yoke::testing {
namespace {

class ProcessesOnFakes : public OnFakes, public ::testing::WithParamInterface<const char*> {};

TEST_P(ProcessesOnFakes, AddUpAndBroadcastWithTheVendorsLibrary) {
  RuntimeOptions options;
  options.plugin_dirs = {test::plugin_folder()};
  options.search_environment = false;
  Runtime runtime(options);
  constexpr std::uint32_t kSize = 3;
  constexpr std::uint64_t kCount = 1000;
  std::vector<Context> members;
  for (std::uint32_t k = 0; k < kSize; ++k) {
    Context& member = members.emplace_back(Stream::create(runtime.backend(GetParam())->open_device(k)));
    for (const char* name : {"sum", "copy"}) {
      const std::vector<float> values(kCount, static_cast<float>(k + 1));
      member.init_from_host(name, {YOKE_TYPE_F32, {kCount}}, std::as_bytes(std::span(values)));
    }
    member.stream()->wait();
  }
  const std::vector<std::byte> id = create_group_id(*members[0].stream()->device());
  std::vector<std::string> errors(2);
  std::vector<std::thread> threads;
  for (std::uint32_t process = 0; process < 2; ++process) {
    threads.emplace_back([&, process] {
      try {
        const std::span<const Context> all = members;
        const std::span<const Context> here = process == 0 ? all.first(1) : all.subspan(1);
        const auto group = Collectives::create(MergeStrategy::kAuto, here, MergeUse::kStreaming, nullptr,
                                               Wire::kFull, {process, kSize, id});
        LinkedCollective work = group->all_reduce("sum");
        work.add(group->broadcast("copy"));
        work.add(group->barrier());
        work.run();
        for (const Context& member : here) {
          member.stream()->wait();
        }
      } catch (const Error& error) {
        errors[process] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(errors[0], "");
  EXPECT_EQ(errors[1], "");
  for (const Context& member : members) {
    std::vector<float> values(kCount);
    member.to_host("sum", std::as_writable_bytes(std::span(values)));
    member.stream()->wait();
    EXPECT_EQ(values, std::vector<float>(kCount, 6.0F));
    member.to_host("copy", std::as_writable_bytes(std::span(values)));
    member.stream()->wait();
    EXPECT_EQ(values, std::vector<float>(kCount, 1.0F));
  }
}
INSTANTIATE_TEST_SUITE_P(Vendors, ProcessesOnFakes, ::testing::Values("cuda", "hip"),
                         [](const auto& each) { return std::string(each.param); });

}  // namespace
}  // namespace yoke::testing
