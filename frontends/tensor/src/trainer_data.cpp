// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/trainer_data.cpp: training data that stays on the shards, and its replacement.
#include "host_copy.h"
#include "node.h"
#include "trainer_impl.h"

namespace yoke {

using detail::fail;

namespace {

// Queues a copy of the tensor's first bytes, and keeps them until it has ended.
void queue_copy(const Context& context, const std::string& name, std::span<const std::byte> bytes,
                const std::shared_ptr<const void>& owner) {
  const BufferView& all = context.tensor(name).view;
  context.stream()->from_host({all.buffer, all.offset, bytes.size()}, bytes.data());
  detail::keep_for_copy(*context.stream(), owner);
}

}  // namespace

// With varying rows, each shard has all rows of the data.
void Trainer::Impl::upload(const Batch& all) {
  for (const auto& [name, tensor] : all.fields()) {
    const detail::HostMemory memory = detail::host_memory(tensor);
    for (std::size_t k = 0; is_varying() && k < contexts.size(); ++k) {
      queue_copy(contexts[k], name, memory.bytes, memory.owner);
    }
    for (std::size_t s = 0; !is_varying() && s < variants[0].active; ++s) {
      const auto packed = std::make_shared<const std::vector<std::byte>>(plan.pack(memory.bytes, s));
      queue_copy(micro_batches[s].context, name, *packed, packed);
    }
  }
}

void Trainer::Impl::check_new_data(const Batch& given) const {
  if (is_fed()) {
    throw Error(ErrorCode::kFailedPrecondition, "set_batch: the data comes from a feed");
  }
  detail::check_fields(given, data, "set_batch: the data");
  std::string rows_text;
  bool is_valid = true;
  for (const auto& [name, before] : data.fields()) {
    const Tensor now = given[name];
    Dims dims = before.dims();
    const bool has_rows = now && now.rank() == dims.size();
    if (is_varying() && has_rows) {
      dims[0] = now.dims()[0];
    }
    if (!now || now.source() != Source::kLiteral || now.type() != before.type() || now.dims() != dims) {
      fail("set_batch: " + name + " must be host data of shape " + dims_text(before.dims()) + " and type " +
           std::string(program::type_name(before.type())) + ", like the original data" +
           (is_varying() ? ", or with another number of rows"
                         : "; other numbers of rows need options.varying_rows"));
    }
    rows_text += (rows_text.empty() ? "" : ", ") + name + " has " + detail::counted(dims[0], "row");
    is_valid = is_valid && dims[0] <= most_rows && dims[0] == given.row_count();
  }
  if (!is_valid) {
    fail("set_batch: " + rows_text + "; give all fields the same number, 1 to " + std::to_string(most_rows) +
         ", the rows of the original data or options.max_rows");
  }
}

void Trainer::Impl::replace_data(const Batch& given) {
  upload(given);
  if (const std::uint64_t rows = given.row_count(); rows != plan.total) {
    plan = plan_of(rows);
    batch_number = 0;
  }
  if (redistributes()) {  // the data of shards that take over the rows of others
    data = given;
  }
}

void Trainer::set_batch(const Batch& data) {
  impl_->check_new_data(data);
  Impl::at_step(impl_, "set_batch()", [&] { impl_->replace_data(data); });
}

}  // namespace yoke
