// SPDX-License-Identifier: Apache-2.0
// runtime/device/communicator.cpp: calls of yoke.collectives/1 for one member.
#include "device/communicator.h"

#include <algorithm>
#include <utility>

#include "device/call.h"

namespace yoke::detail {

bool has_collectives(const Device& device) {
  const BackendState& backend = device.backend()->state();
  return backend.has_collectives && backend.has_streams;
}

yoke_collectives_info describe_collectives(const Device& device) {
  yoke_collectives_info info{};
  info.struct_size = sizeof(info);
  call<&yoke_collectives_api::collectives_describe>(device, device.get(), &info);
  return info;
}

yoke_group_id create_group_id(const Device& device) {
  yoke_group_id id{};
  id.struct_size = sizeof(id);
  call<&yoke_collectives_api::group_id_create>(device, device.get(), &id);
  return id;
}

Communicator::Communicator(std::shared_ptr<Device> device, const yoke_group_id& id, std::uint32_t rank,
                           std::uint32_t size) {
  yoke_communicator_args args{};
  args.struct_size = sizeof(args);
  args.id = &id.bytes[0];
  args.rank = rank;
  args.size = size;
  yoke_communicator* raw = nullptr;
  call<&yoke_collectives_api::communicator_create>(*device, device->get(), &args, &raw);
  handle_ = {raw, Destroy{std::move(device)}};
}

void Communicator::wait(std::chrono::nanoseconds timeout) const {
  const auto timeout_ns =
      static_cast<std::uint64_t>(std::max(timeout, std::chrono::nanoseconds::zero()).count());
  call<&yoke_collectives_api::communicator_wait>(device(), get(), timeout_ns);
}

bool Communicator::has_failed() const noexcept {
  Status status;
  std::int32_t state = YOKE_STATE_FAILED;
  return attempt<&yoke_collectives_api::communicator_query>(device().backend()->state(), status, get(),
                                                            &state) != YOKE_STATUS_OK ||
         state == YOKE_STATE_FAILED;
}

void Communicator::abort() const noexcept {
  Status status;
  attempt<&yoke_collectives_api::communicator_abort>(device().backend()->state(), status, get());
}

void Communicator::Destroy::operator()(yoke_communicator* communicator) const noexcept {
  destroy<&yoke_collectives_api::communicator_destroy>(device->backend()->state(), communicator);
}

}  // namespace yoke::detail
