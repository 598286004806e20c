// SPDX-License-Identifier: Apache-2.0
// tests/unit/layers/sticky_test.cpp: the layer validate knows which errors stay, which work has ended, and which
// memory belongs to pending work.
#include <sys/mman.h>

#include <utility>
#include <vector>

#include "layers_test.h"

namespace yoke::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kSecond = 1'000'000'000;

class ValidateErrors : public LayersTest {
 protected:
  ValidateErrors() {
    do_no_work(*control);
    code_ = YOKE_STATUS_OK;
    state_ = YOKE_STATE_PENDING;
    control->stream.stream_wait = [](auto, auto, yoke_error* e) { return result(e); };
    control->stream.event_wait = [](auto, auto, yoke_error* e) { return result(e); };
    control->stream.stream_query = [](auto, std::int32_t* out, auto) {
      *out = state_;
      return YOKE_STATUS_OK;
    };
    control->stream.event_query = [](auto, std::int32_t* out, auto) {
      *out = state_;
      return YOKE_STATUS_OK;
    };
  }
  static std::int32_t result(yoke_error* e) {
    return code_ == YOKE_STATUS_OK ? code_ : fail(e, code_, "the wait failed");
  }
  std::vector<std::string> new_found() {
    auto all = found();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(seen_));
    seen_ += all.size();
    return all;
  }
  void wait(yoke_stream* stream, std::int32_t code = YOKE_STATUS_OK) {
    code_ = code;
    EXPECT_EQ(streams->stream_wait(stream, 0, error()), code);
  }
  void wait(yoke_event* event, std::int32_t code = YOKE_STATUS_OK) {
    code_ = code;
    state_ = YOKE_STATE_DONE;
    EXPECT_EQ(streams->event_wait(event, 0, error()), code);
  }
  void query(yoke_stream* stream, std::int32_t state) {
    std::int32_t out = 0;
    state_ = state;
    EXPECT_EQ(streams->stream_query(stream, &out, error()), YOKE_STATUS_OK);
  }
  void query(yoke_event* event, std::int32_t state) {
    std::int32_t out = 0;
    state_ = state;
    EXPECT_EQ(streams->event_query(event, &out, error()), YOKE_STATUS_OK);
  }

  // The plugin keeps host callbacks until the test calls them.
  void queue_host_callbacks() {
    queued_.clear();
    control->stream.stream_host_callback = [](auto, auto callback, void* user, auto) {
      queued_.emplace_back(callback, user);
      return YOKE_STATUS_OK;
    };
  }

  static inline std::vector<std::pair<yoke_host_callback_fn, void*>> queued_;

 private:
  static inline std::int32_t code_ = YOKE_STATUS_OK;
  static inline std::int32_t state_ = YOKE_STATE_PENDING;
  std::size_t seen_ = 0;
};

TEST_F(ValidateErrors, ErrorsOfTheWaitItselfAreNotThoseOfTheWork) {
  enter();
  for (const std::int32_t code : {YOKE_STATUS_DEADLINE_EXCEEDED, YOKE_STATUS_UNIMPLEMENTED,
                                  YOKE_STATUS_INVALID_ARGUMENT, YOKE_STATUS_FAILED_PRECONDITION}) {
    auto* const stream = make_stream();
    wait(stream, code);
    wait(stream);
    EXPECT_THAT(new_found(), IsEmpty()) << code;
  }
  auto* const stream = make_stream();
  query(stream, YOKE_STATE_PENDING);
  wait(stream);
  EXPECT_THAT(new_found(), IsEmpty());
}

TEST_F(ValidateErrors, EveryReportOfSuccessAfterAFailureIsReported) {
  enter();
  auto* const stream = make_stream();
  auto* const event = record(stream);
  wait(stream, YOKE_STATUS_INTERNAL);
  query(stream, YOKE_STATE_PENDING);
  query(stream, YOKE_STATE_FAILED);
  wait(stream, YOKE_STATUS_INTERNAL);
  wait(event);
  EXPECT_THAT(new_found(), IsEmpty()) << "the event may be before the failure";
  wait(stream);
  query(stream, YOKE_STATE_DONE);
  EXPECT_THAT(new_found(), ElementsAre("19 plugin stream_wait", "19 plugin stream_query"));
  EXPECT_THAT(lines, Contains(HasSubstr("stream 2 failed before, but now the call reports success")));
  auto* const other = record(stream);
  query(other, YOKE_STATE_FAILED);
  wait(other);
  EXPECT_THAT(new_found(), ElementsAre("19 plugin event_wait"));
}

TEST_F(ValidateErrors, EveryWorkOnALostDeviceFails) {
  enter();
  auto* const buffer = make_buffer(16);
  auto* const stream = make_stream();
  auto* const other = make_stream();
  copy_in(stream, buffer, kData.data(), 16);
  wait(stream, YOKE_STATUS_DEVICE_LOST);
  wait(stream, YOKE_STATUS_DEVICE_LOST);
  auto info = sized<yoke_memory_info>();
  EXPECT_EQ(backend->device_memory(device, &info, error()), YOKE_STATUS_OK);
  query(other, YOKE_STATE_PENDING);
  yoke_device* const mine = std::exchange(device, open_device(1));
  make_buffer(16);
  device = mine;
  EXPECT_THAT(new_found(), IsEmpty());
  wait(other);
  EXPECT_THAT(new_found(), ElementsAre("19 plugin stream_wait"));
  EXPECT_THAT(lines, Contains(HasSubstr("device 1 was lost before, but now the call returns OK")));
  copy_in(other, buffer, kData.data(), 16);
  EXPECT_THAT(new_found(), ElementsAre("19 plugin from_host"));
  make_buffer(16);
  EXPECT_THAT(new_found(), ElementsAre("19 plugin buffer_create"));
  make_stream();
  EXPECT_THAT(new_found(), ElementsAre("19 plugin stream_create"));
  wait(other);
}

TEST_F(ValidateErrors, CopyFromALostDeviceDoesNotLoseItsOwn) {
  control->backend.device_to_device = [](auto, auto, auto, auto, auto, auto, auto error) {
    return fail(error, YOKE_STATUS_DEVICE_LOST, "the other device is lost");
  };
  enter();
  auto* const target = make_buffer(16);
  auto* const near = make_buffer(16);
  auto* const stream = make_stream();
  yoke_device* const mine = std::exchange(device, open_device(1));
  auto* const source = make_buffer(16);
  device = mine;
  backend->device_to_device(stream, target, 0, source, 0, 16, error());
  make_buffer(16);
  EXPECT_THAT(new_found(), IsEmpty());
  backend->device_to_device(stream, target, 0, near, 0, 16, error());
  make_buffer(16);
  EXPECT_THAT(new_found(), ElementsAre("19 plugin buffer_create"));
}

TEST_F(ValidateErrors, WorkOfAnAbortedDeviceFails) {
  control->stream.device_abort = [](auto...) { return YOKE_STATUS_OK; };
  enter();
  auto* const stream = make_stream();
  auto* const event = record(stream);
  EXPECT_EQ(streams->device_abort(device, error()), YOKE_STATUS_OK);
  wait(event);
  query(stream, YOKE_STATE_FAILED);
  wait(stream, YOKE_STATUS_ABORTED);
  EXPECT_THAT(new_found(), IsEmpty());
  wait(make_stream());
  EXPECT_THAT(new_found(), ElementsAre("46 plugin stream_wait"));
  query(make_stream(), YOKE_STATE_DONE);
  EXPECT_THAT(new_found(), ElementsAre("46 plugin stream_query"));
}

TEST_F(ValidateErrors, FailedStreamMayBeDestroyedWithItsWork) {
  enter();
  auto* const stream = make_stream();
  wait(stream, YOKE_STATUS_INTERNAL);
  copy_in(stream, make_buffer(16), kData.data(), 16);
  streams->stream_destroy(stream);
  EXPECT_THAT(new_found(), IsEmpty());
  auto* const other = make_stream();
  copy_in(other, make_buffer(16), kData.data(), 16);
  query(other, YOKE_STATE_PENDING);
  wait(other, YOKE_STATUS_DEADLINE_EXCEEDED);
  streams->stream_destroy(other);
  EXPECT_THAT(new_found(), ElementsAre("18 host stream_destroy"));
}

TEST_F(ValidateErrors, WorkOfADestroyedStreamIsNotPending) {
  enter();
  auto* const stream = make_stream();
  auto* const buffer = make_buffer(16);
  copy_in(stream, buffer, kData.data(), 16);
  streams->stream_destroy(stream);
  EXPECT_THAT(new_found(), ElementsAre("18 host stream_destroy"));
  backend->buffer_destroy(buffer);
  EXPECT_THAT(new_found(), IsEmpty()) << "reported once";
}

TEST_F(ValidateErrors, EventWaitMayGiveUpOnlyAtItsDeadline) {
  enter();
  auto* const event = record(make_stream());
  const auto wait_for = [&](std::uint64_t timeout, std::int32_t code) {
    wait(event, code);
    new_found();
    query(event, YOKE_STATE_PENDING);
    streams->event_wait(event, timeout, error());
    return new_found();
  };
  EXPECT_THAT(wait_for(0, YOKE_STATUS_DEADLINE_EXCEEDED), IsEmpty());
  EXPECT_THAT(wait_for(kSecond, YOKE_STATUS_DEADLINE_EXCEEDED), ElementsAre("21 plugin event_wait"));
  EXPECT_THAT(lines, Contains(HasSubstr(" of 1000 ms")));
  EXPECT_THAT(wait_for(0, YOKE_STATUS_INTERNAL), ElementsAre("21 plugin event_wait"));
  EXPECT_THAT(lines, Contains(HasSubstr("returned code 13, but event_query reports pending work")));
}

TEST_F(ValidateErrors, QueriesAndWaitsEndTheWorkBeforeThem) {
  enter();
  auto* const stream = make_stream();
  const auto found_if = [&](const auto& act) {
    auto* const buffer = make_buffer(16);
    copy_in(stream, buffer, kData.data(), 16);
    auto* const event = record(stream);
    act(event);
    backend->buffer_destroy(buffer);
    const auto all = new_found();
    wait(stream);
    streams->event_destroy(event);
    return all;
  };
  const auto pending = ElementsAre("15 host buffer_destroy");
  EXPECT_THAT(found_if([&](yoke_event*) {}), pending);
  EXPECT_THAT(found_if([&](yoke_event*) { query(stream, YOKE_STATE_PENDING); }), pending);
  EXPECT_THAT(found_if([&](yoke_event* event) { query(event, YOKE_STATE_PENDING); }), pending);
  EXPECT_THAT(found_if([&](yoke_event* event) { wait(event, YOKE_STATUS_DEADLINE_EXCEEDED); }), pending);
  EXPECT_THAT(found_if([&](yoke_event*) { query(stream, YOKE_STATE_DONE); }), IsEmpty());
  EXPECT_THAT(found_if([&](yoke_event* event) { query(event, YOKE_STATE_DONE); }), IsEmpty());
  EXPECT_THAT(found_if([&](yoke_event* event) { wait(event); }), IsEmpty());
  EXPECT_THAT(found_if([&](yoke_event*) { wait(stream); }), IsEmpty());
}

TEST_F(ValidateErrors, WorkAfterAnEventIsPendingWhenTheEventIsDone) {
  enter();
  auto* const stream = make_stream();
  auto* const before = make_buffer(16);
  auto* const after = make_buffer(16);
  copy_in(stream, before, kData.data(), 16);
  auto* const event = record(stream);
  copy_in(stream, after, kData.data(), 16);
  wait(event);
  backend->buffer_destroy(before);
  EXPECT_THAT(new_found(), IsEmpty());
  backend->buffer_destroy(after);
  EXPECT_THAT(new_found(), ElementsAre("15 host buffer_destroy"));
  wait(stream);
}

TEST_F(ValidateErrors, CompletionSpreadsOverChainsOfStreams) {
  enter();
  auto* const buffer = make_buffer(16);
  auto* const later = make_buffer(16);
  yoke_stream* const chain[] = {make_stream(), make_stream(), make_stream()};
  copy_in(chain[0], buffer, kData.data(), 16);
  streams->stream_wait_event(chain[1], record(chain[0]), error());
  streams->stream_wait_event(chain[2], record(chain[1]), error());
  copy_in(chain[0], later, kData.data(), 16);
  wait(record(chain[2]));
  backend->buffer_destroy(buffer);
  EXPECT_THAT(new_found(), IsEmpty());
  backend->buffer_destroy(later);
  EXPECT_THAT(new_found(), ElementsAre("15 host buffer_destroy"));
  for (auto* const stream : chain) {
    wait(stream);
  }
}

TEST_F(ValidateErrors, EarlyEventDoesNotReopenLaterWork) {
  enter();
  auto* const buffer = make_buffer(16);
  auto* const first = make_stream();
  auto* const second = make_stream();
  auto* const early = record(first);
  copy_in(first, buffer, kData.data(), 16);
  streams->stream_wait_event(second, early, error());
  wait(first);
  wait(second);
  backend->buffer_destroy(buffer);
  streams->stream_destroy(first);
  EXPECT_THAT(new_found(), IsEmpty());
}

TEST_F(ValidateErrors, UnmappedSourceIsReported) {
  do_no_work(*control, YOKE_SOURCE_UNTIL_EVENT);
  enter();
  auto* const stream = make_stream();
  void* const page = ::mmap(nullptr, 64, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  copy_in(stream, make_buffer(64), page, 64);
  ::munmap(page, 64);
  wait(stream);
  EXPECT_THAT(new_found(), ElementsAre("16 host from_host"));
  EXPECT_THAT(lines, Contains(HasSubstr("the 64-byte source was unmapped before the copy")));
}

TEST_F(ValidateErrors, OnlySourcesUnderATargetMayChange) {
  do_no_work(*control, YOKE_SOURCE_UNTIL_EVENT);
  enter();
  std::vector<std::byte> memory(4096);
  auto* const buffer = make_buffer(4096);
  auto* const stream = make_stream();
  const auto found_if = [&](std::size_t source, std::size_t target, std::size_t byte_count) {
    copy_in(stream, buffer, &memory[source], 64);
    backend->to_host(stream, buffer, 0, &memory[target], byte_count, error());
    memory[source + 1] ^= std::byte{1};
    wait(stream);
    return new_found();
  };
  const auto changed = ElementsAre("16 host from_host");
  EXPECT_THAT(found_if(1000, 1000, 64), IsEmpty());
  EXPECT_THAT(found_if(1000, 500, 501), IsEmpty());
  EXPECT_THAT(found_if(1000, 1063, 64), IsEmpty());
  EXPECT_THAT(found_if(1000, 500, 500), changed);
  EXPECT_THAT(found_if(1000, 1064, 64), changed);
  EXPECT_THAT(lines,
              Contains(HasSubstr("the 64-byte source was changed before the copy on stream 3 had ended")));
}

TEST_F(ValidateErrors, ManyPendingHostCallbacksAreCalled) {
  queue_host_callbacks();
  enter();
  auto* const stream = make_stream();
  const auto count = [](void* user, std::int32_t) { ++*static_cast<int*>(user); };
  std::vector<int> counts(4'200);  // the layer remembers 4,096 that were called
  for (int& one : counts) {
    streams->stream_host_callback(stream, count, &one, error());
  }
  for (const auto& [callback, user] : queued_) {
    callback(user, YOKE_STATUS_OK);
  }
  EXPECT_THAT(counts, ::testing::Each(1));
  wait(stream);
  EXPECT_THAT(new_found(), IsEmpty());
}

TEST_F(ValidateErrors, LateSecondHostCallbackIsReported) {
  queue_host_callbacks();
  enter();
  auto* const stream = make_stream();
  const auto count = [](void* user, std::int32_t) { ++*static_cast<int*>(user); };
  int counts[3] = {};
  for (int i = 0; i < 3; ++i) {
    streams->stream_host_callback(stream, count, &counts[i], error());
    if (i < 2) {
      queued_.back().first(queued_.back().second, YOKE_STATUS_OK);
    }
  }
  queued_[0].first(queued_[0].second, YOKE_STATUS_OK);
  EXPECT_THAT(new_found(), ElementsAre("58 plugin stream_host_callback"));
  EXPECT_THAT(counts, ElementsAre(1, 1, 0));
  queued_[2].first(queued_[2].second, YOKE_STATUS_OK);
  EXPECT_EQ(counts[2], 1);
  wait(stream);
  EXPECT_THAT(new_found(), IsEmpty());
}

}  // namespace
}  // namespace yoke::test
