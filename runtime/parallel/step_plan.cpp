// SPDX-License-Identifier: Apache-2.0
// runtime/parallel/step_plan.cpp: allocates the memory of a training step, links its work, and queues it.
#include <yoke/runtime/parallel.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "parallel/strategies.h"
#include "schedule/range.h"

namespace yoke {

namespace {

constexpr std::size_t kFewShards = 8;

void fill_with_zeros(const Context& context, std::string_view name) {
  const std::uint64_t zero = 0;
  context.stream()->fill(context.tensor(name).view, &zero, 1);
}

}  // namespace

void StepPlan::require(Stage stage, const char* call) const {
  if (shards_.empty()) {  // a moved-from plan still has its stage
    throw Error(ErrorCode::kFailedPrecondition, std::string("step plan: ") + call + ": it is empty");
  }
  if (stage_ < stage) {
    constexpr const char* kBefore[] = {"", "", "call allocate() first", "call allocate_gradients() first",
                                       "call link() first"};
    throw Error(ErrorCode::kFailedPrecondition,
                std::string("step plan: ") + call + ": " + kBefore[static_cast<std::size_t>(stage)]);
  }
}

void StepPlan::check_tables(std::span<const SymbolTable> tables) const {
  if (tables.size() != shards_.size()) {
    throw Error(ErrorCode::kInvalidArgument, "step plan: " + detail::counted(tables.size(), "symbol table") +
                                                 " for " + detail::counted(shards_.size(), "shard") +
                                                 "; pass one per shard");
  }
}

BufferView StepPlan::arena_part(std::uint32_t shard, const Arena& arena, std::string_view what,
                                const Slice& part) const {
  const BufferView& all = shards_[shard].tensor(arena.name(what)).view;
  const std::uint64_t element = arena.element_byte_count();
  return {all.buffer, all.offset + part.begin * element, part.count() * element};
}

// Allocates an arena of a shard, or adopts the owner's, and names its parts after the parameters.
void StepPlan::make_arena(std::uint32_t shard, const Arena& arena, std::string_view what,
                          const std::string& prefix) {
  Context& context = shards_[shard];
  const std::string name = arena.name(what);
  if (shares_parameters_ && shard > 0 && what != "gradients") {
    context.adopt(name, arena.spec(), shards_[0].tensor(name).view);
  } else {
    context.allocate(name, arena.spec());
    fill_with_zeros(context, name);
  }
  for (std::size_t m = 0; m < arena.members.size(); ++m) {
    const StepParameter& parameter = parameters_[arena.members[m]];
    // With the padding up to the next parameter, so that a program's parameters are one range of memory.
    const std::uint64_t end = m + 1 < arena.offsets.size() ? arena.offsets[m + 1] : arena.element_count;
    context.adopt(prefix + parameter.name, parameter.spec,
                  arena_part(shard, arena, what, {arena.offsets[m], end}));
  }
}

// Shards that never compute gradients merge nothing, so their own stream is free.
void StepPlan::open_streams() {
  constexpr std::int32_t kHighPriority = 1;
  workers_ = shards_;
  for (std::uint32_t k = 0; overlaps_ && k < merging_; ++k) {
    const Stream& own = *shards_[k].stream();
    streams_.push_back(Stream::create(own.device(), own.name() + "/merge", kHighPriority));
    workers_[k] = shards_[k].child(streams_.back(), ChildAccess::kReadWrite);
  }
}

void StepPlan::allocate() {
  require(Stage::kPlanned, "allocate");
  for (std::uint32_t k = 0; k < shards_.size(); ++k) {
    for (std::uint32_t set = 0; set < set_count_; ++set) {
      for (const Arena& arena : arenas_) {
        make_arena(k, arena, name_in(set, "parameters"), name_in(set, ""));
        for (const std::string& state : states_of(arena)) {
          if (has_whole_state(k)) {
            make_arena(k, arena, name_in(set, state), name_in(set, state + "/"));
          }
        }
      }
    }
  }
  if (!has_whole_state(0)) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      for (const Part& part : parts_of(buckets_[b])) {
        for (const std::string& state : states_of(arenas_[buckets_[b].arena])) {
          shards_[part.shard].allocate(part_name(state, b),
                                       {arenas_[buckets_[b].arena].type, {part.range.count()}});
          fill_with_zeros(shards_[part.shard], part_name(state, b));
        }
      }
    }
  }
  if (number_count_ > 1) {  // a single shard's program may use it, too
    allocate_number();
  }
  open_streams();
  everyone_ = Collectives::create(strategy_, workers_, merge_use_, codes_, wire_,
                                  processes_.size > 1 ? processes_ : ProcessGroup());
  for (std::uint32_t set = 0; set < set_count_; ++set) {
    LinkedCollective& all = publish_.emplace_back();
    for (const Arena& arena : arenas_) {
      all.add(everyone_->broadcast(arena.name(name_in(set, "parameters"))));
    }
  }
  stage_ = Stage::kAllocated;
}

void StepPlan::allocate_gradients() {
  require(Stage::kAllocated, "allocate_gradients");
  for (std::uint32_t k = 0; k < merging_; ++k) {
    for (const Arena& arena : arenas_) {
      if (!shards_[k].has(arena.name("gradients"))) {
        make_arena(k, arena, "gradients", "gradient/");
      }
    }
  }
  allocate_number();
  allocate_pieces();
  stage_ = std::max(stage_, Stage::kReady);
}

void StepPlan::link_merge(Bucket& bucket) {
  const std::string gradients = arenas_[bucket.arena].name("gradients");
  if (shares_parameters_) {
    bucket.merge = detail::partial_sum(*group_, gradients, bucket.range);
    bucket.collect = detail::final_sum(*group_, gradients, bucket.range);
  } else if (placement_ == Placement::kOwner) {
    bucket.merge = group_->reduce(gradients, bucket.range);
  } else if (placement_ == Placement::kEverywhere) {
    bucket.merge = group_->all_reduce(gradients, bucket.range);
  } else {
    bucket.merge = group_->reduce_scatter(gradients, bucket.range);
    bucket.collect = group_->gather(gradients, bucket.range);
  }
}

LinkedCollective StepPlan::link_publish(const Bucket& bucket, std::uint32_t set) {
  LinkedCollective all;
  std::vector<std::string> published = {"parameters"};
  if (keeps_last_step()) {
    const auto states = states_of(arenas_[bucket.arena]);
    published.insert(published.end(), states.begin(), states.end());
  }
  for (const std::string& what : published) {
    const std::string arena = arenas_[bucket.arena].name(name_in(set, what));
    if (shares_parameters_) {
      continue;
    }
    if (placement_ == Placement::kOwner) {
      all.add(everyone_->broadcast(arena, bucket.range));
      continue;
    }
    if (placement_ == Placement::kSharded) {
      all.add(group_->all_gather(arena, bucket.range));
    }
    if (idle_) {
      all.add(idle_->broadcast(arena, bucket.range));
    }
  }
  return all;
}

StepPlan::Renewal StepPlan::link_renewal(const UpdateOf& update, std::span<const SymbolTable> tables,
                                         std::size_t bucket, std::uint32_t from) {
  Renewal linked;
  for (const Part& part : parts_of(buckets_[bucket])) {
    linked.updates.push_back(link_update(update, tables, bucket, from, part, terms_of(part.shard)));
    if (terms_of(part.shard).size() > 1) {
      const std::vector<std::uint32_t> owner = {0};
      linked.after_collect.push_back(link_update(update, tables, bucket, from, part, owner));
    }
  }
  if (shares_parameters_) {
    // All, because a launch that reads parameters of several buckets reads one range.
    const Arena& arena = arenas_[buckets_[bucket].arena];
    linked.shared = arena_part(0, arena, name_in(set_after(from), "parameters"), {0, arena.element_count});
  }
  linked.publish = link_publish(buckets_[bucket], set_after(from));
  return linked;
}

StepPlan::Update StepPlan::link_update(const UpdateOf& update, std::span<const SymbolTable> tables,
                                       std::size_t bucket, std::uint32_t from, const Part& part,
                                       std::span<const std::uint32_t> terms) {
  const Arena& arena = arenas_[buckets_[bucket].arena];
  const TensorSpec spec{arena.type, {part.range.count()}};
  const auto term_count = static_cast<std::uint32_t>(terms.size());
  const StepProgram program = arena.is_running_state ? running_program(arena, part.range.count(), term_count)
                                                     : update(shape_of(buckets_[bucket], part, term_count));
  Context own = workers_[part.shard].child();
  const auto adopt = [&](std::uint32_t set, const std::string& prefix) {
    own.adopt(prefix + "value", spec, arena_part(part.shard, arena, name_in(set, "parameters"), part.range));
    for (const std::string& state : states_of(arena)) {
      own.adopt(prefix + state, spec,
                has_whole_state(part.shard) ? arena_part(part.shard, arena, name_in(set, state), part.range)
                                            : shards_[part.shard].tensor(part_name(state, bucket)).view);
    }
  };
  adopt(from, "");
  if (keeps_last_step()) {
    adopt(set_after(from), "next_");
  }
  for (std::size_t i = 0; i < terms.size(); ++i) {
    own.adopt("gradient_" + std::to_string(i), spec, arena_part(terms[i], arena, "gradients", part.range));
  }
  if (has_number_ && !arena.is_running_state) {
    own.adopt("number", number_spec(), shards_[part.shard].tensor(kNumber).view);
  }
  const auto code = codes_->get(own.stream()->device(), program.text);
  return {part.shard, StepRoutine(own.link(code, program.entry, program.rename), tables[part.shard])};
}

void StepPlan::link(const UpdateOf& update, std::span<const SymbolTable> tables, const StepNumber& number) {
  require(Stage::kReady, "link");
  check_tables(tables);
  if (!update) {
    throw Error(ErrorCode::kInvalidArgument,
                "step plan: link: the function for the optimizer's program is empty");
  }
  check_number(number);
  const std::span<const Context> all = workers_;
  group_ = merging_ == all.size()
               ? everyone_
               : Collectives::create(strategy_, all.first(merging_), merge_use_, codes_, wire_);
  if (merging_ < all.size()) {
    std::vector<Context> idle = {all[0]};
    idle.insert(idle.end(), all.begin() + merging_, all.end());
    idle_ = Collectives::create(MergeStrategy::kOwner, idle, merge_use_, codes_);
  }
  // The largest first, because a merge buffer that grows leaves the old one to what is linked with it.
  std::vector<std::size_t> order(buckets_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size_of = [&](std::size_t b) {
    return largest_merge(buckets_[b].arena, buckets_[b].range.count());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return size_of(a) > size_of(b); });
  for (const std::size_t b : order) {
    Bucket linked{.arena = buckets_[b].arena, .range = buckets_[b].range};
    link_merge(linked);
    for (std::uint32_t from = 0; from < set_count_; ++from) {
      linked.renew.push_back(link_renewal(update, tables, b, from));
    }
    linked.measure = link_measure(number, linked, false);
    if (!linked.renew[0].after_collect.empty()) {
      linked.measure_after_collect = link_measure(number, linked, true);
    }
    buckets_[b] = std::move(linked);
  }
  link_number(number);
  stage_ = Stage::kLinked;
}

// No shard waits for another's update or next gradient, so each records an event before them. Where many shards
// use the same parameters, they wait for a join instead of all others.
void StepPlan::run_updates(const Renewal& renewal, std::vector<Update>& updates,
                           std::span<const SymbolTable> tables) {
  const bool joins = shares_parameters_ && shards_.size() > kFewShards;
  if (joins) {
    workers_[0].stream()->join(renewal.shared);
  }
  const auto record = [&] {
    for (std::size_t i = 0; updates.size() > 1 && i < updates.size(); ++i) {
      workers_[updates[i].shard].stream()->record();
    }
  };
  record();
  for (Update& update : updates) {
    update.routine.run(tables[update.shard]);
  }
  if (joins) {
    workers_[0].stream()->join(renewal.shared);
    workers_[0].stream()->record();
  } else if (shares_parameters_) {
    record();
  }
}

void StepPlan::step(std::span<const SymbolTable> tables) {
  require(Stage::kLinked, "step");
  check_tables(tables);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    merge_bucket(b);
    update_bucket(b, tables);
  }
}

StepPlan::Bucket& StepPlan::bucket_at(std::size_t bucket, const char* call) {
  require(Stage::kLinked, call);
  if (bucket >= buckets_.size()) {
    throw Error(ErrorCode::kOutOfRange, "step plan: " + std::string(call) + ": " +
                                            detail::outside_text("bucket", bucket, buckets_.size()));
  }
  return buckets_[bucket];
}

void StepPlan::merge_bucket(std::size_t bucket) {
  Bucket& now = bucket_at(bucket, "merge_bucket");
  merged_ = false;
  now.merge.run();
}

void StepPlan::update_bucket(std::size_t bucket, std::span<const SymbolTable> tables) {
  const Bucket& now = bucket_at(bucket, "update_bucket");
  check_tables(tables);
  const auto renew = [&](Bucket& all) {
    Renewal& renewal = all.renew[set_];
    run_updates(renewal, renewal.updates, tables);
    renewal.publish.run();
  };
  if (has_number_) {
    now.measure.run();
  } else {
    renew(buckets_[bucket]);
  }
  if (++updated_buckets_ < buckets_.size()) {
    return;
  }
  updated_buckets_ = 0;
  if (has_number_) {
    combine_.run();
    std::for_each(buckets_.begin(), buckets_.end(), renew);
  }
  set_ = set_after(set_);
}

void StepPlan::merge() {
  require(Stage::kLinked, "merge");
  for (const Bucket& bucket : buckets_) {
    bucket.merge.run();
    bucket.collect.run();
  }
  merged_ = true;
}

void StepPlan::update(std::span<const SymbolTable> tables) {
  require(Stage::kLinked, "update");
  check_tables(tables);
  if (!merged_) {
    throw Error(ErrorCode::kFailedPrecondition, "step plan: update: call merge() first");
  }
  merged_ = false;
  for (const Bucket& bucket : buckets_) {
    const bool is_collected = !bucket.renew[set_].after_collect.empty();
    (is_collected ? bucket.measure_after_collect : bucket.measure).run();
  }
  combine_.run();
  for (Bucket& bucket : buckets_) {
    Renewal& now = bucket.renew[set_];
    run_updates(now, now.after_collect.empty() ? now.updates : now.after_collect, tables);
    now.publish.run();
  }
  set_ = set_after(set_);
}

void StepPlan::clear_gradients(std::uint32_t first) {
  require(Stage::kReady, "clear_gradients");
  for (std::uint32_t k = first; k < merging_; ++k) {
    for (const Arena& arena : arenas_) {
      fill_with_zeros(shards_[k], arena.name("gradients"));
    }
  }
}

void StepPlan::publish() {
  require(Stage::kAllocated, "publish");
  publish_[set_].run();
}

}  // namespace yoke
