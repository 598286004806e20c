// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_data.cpp: training data that stays on the shards, and its replacement.
#include "host_copy.h"
#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::fail;

namespace {

// Queues a copy of the tensor's first bytes, and keeps them until it has ended.
void queue_copy(const Context& context, const char* name, std::span<const std::byte> bytes,
                const std::shared_ptr<const void>& owner) {
  const BufferView& all = context.tensor(name).view;
  context.stream()->from_host({all.buffer, all.offset, bytes.size()}, bytes.data());
  detail::keep_for_copy(*context.stream(), owner);
}

}  // namespace

// With varying rows, each shard has all rows of the data.
void Trainer::Impl::upload(const Tensor& all, const char* name) {
  const detail::HostMemory memory = detail::host_memory(all);
  for (std::size_t k = 0; is_varying() && k < contexts.size(); ++k) {
    queue_copy(contexts[k], name, memory.bytes, memory.owner);
  }
  for (std::size_t s = 0; !is_varying() && s < variants[0].active; ++s) {
    const auto packed = std::make_shared<const std::vector<std::byte>>(plan.pack(memory.bytes, s));
    queue_copy(micro_batches[s].context, name, *packed, packed);
  }
}

void Trainer::Impl::check_new_data(const Tensor& new_inputs, const Tensor& new_targets) const {
  if (is_fed()) {
    throw Error(ErrorCode::kFailedPrecondition, "set_batch: the data comes from a feed");
  }
  for (const auto& [given, before, what] :
       {std::tuple(&new_inputs, &inputs, "inputs"), std::tuple(&new_targets, &targets, "targets")}) {
    Dims dims = before->dims();
    const bool has_rows = *given && given->rank() == dims.size() && dims.size() > 0;
    if (is_varying() && has_rows) {
      dims[0] = given->dims()[0];
    }
    if (!*given || given->source() != Source::kLiteral || given->type() != before->type() ||
        given->dims() != dims) {
      fail(std::string("set_batch: ") + what + " must be host data of shape " + dims_text(before->dims()) +
           " and type " + std::string(program::type_name(before->type())) + ", like the original data" +
           (is_varying() ? ", or with another number of rows"
                         : "; other numbers of rows need options.varying_rows"));
    }
  }
  const std::uint64_t rows = new_inputs.dims()[0];
  if (rows > most_rows || rows != new_targets.dims()[0]) {
    fail("set_batch: the inputs have " + std::to_string(rows) + " rows and the targets " +
         std::to_string(new_targets.dims()[0]) + "; give both the same number, 1 to " +
         std::to_string(most_rows) + ", the rows of the original data or options.max_rows");
  }
}

void Trainer::Impl::replace_data(const Tensor& new_inputs, const Tensor& new_targets) {
  upload(new_inputs, "inputs");
  upload(new_targets, "targets");
  if (new_inputs.dims()[0] != plan.total) {
    plan = plan_of(new_inputs.dims()[0]);
    batch_number = 0;
  }
  if (redistributes()) {  // the data of shards that take over the rows of others
    inputs = new_inputs;
    targets = new_targets;
  }
}

void Trainer::set_batch(const Tensor& inputs, const Tensor& targets) {
  impl_->check_new_data(inputs, targets);
  Impl::at_step(impl_, "set_batch()", [&] { impl_->replace_data(inputs, targets); });
}

}  // namespace yoke
