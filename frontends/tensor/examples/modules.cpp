// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/examples/modules.cpp: modules on four devices, whose parameters are registered for distribution.
// Members have different numbers of rows and one does not use all parameters; they train like one member with all rows.
#include <yoke/program/text.h>
#include <yoke/yoke.h>

#include <cmath>
#include <iostream>

namespace {

using yoke::Tensor;

const auto kTrunk = yoke::nn::named("trunk", yoke::nn::sequential(yoke::nn::linear(8), yoke::nn::tanh()));
const auto kCube = yoke::nn::named("cube", yoke::nn::linear(1));
const auto kSquare = yoke::nn::named("square", yoke::nn::linear(1));

Tensor loss_of(const std::vector<float>& rows, bool uses_square) {
  const Tensor x = yoke::tensor(rows, {rows.size(), 1}) * 0.2F;
  const Tensor cube = yoke::mse(kCube(kTrunk(x)), x * x * x, yoke::Reduce::kSum);
  return uses_square ? cube + yoke::mse(kSquare(kTrunk(x)), x * x, yoke::Reduce::kSum) : cube;
}

// Trains one member per loss, each on its own device. Returns the whole loss with the parameters of the last member.
double train(yoke::Backend& backend, const std::vector<Tensor>& losses, const yoke::GradUpdate& all) {
  yoke::init_params(yoke::Stream::create(backend.open_device(0)), all.params, 7);
  const auto link = [&](yoke::Context& member, const yoke::GradUpdate& update, const yoke::Lowered& program) {
    const auto names = yoke::distributed_names(update, program);
    const auto code = yoke::compile(member.stream()->device(), yoke::program::print(program.program));
    yoke::allocate_missing(member, program, names);
    yoke::all_host_to_device(member, program);
    return member.link(code, program.program.name, names);
  };
  const auto sgd = yoke::sgd_update(all, 0.02F);
  std::vector<yoke::Context> members;
  std::vector<yoke::GradUpdate> updates;
  std::vector<yoke::LinkedRoutine> backward, step;
  for (const Tensor& loss : losses) {
    const auto number = static_cast<std::uint32_t>(members.size());
    members.emplace_back(yoke::Stream::create(backend.open_device(number)));
    updates.push_back(yoke::grad_update(loss));
    backward.push_back(link(members.back(), updates.back(), updates.back().lowered));
    step.push_back(link(members.back(), all, sgd));
  }
  yoke::DistributedGroup group({yoke::Reduction::kSum}, members);
  group.register_sync_parameters(all.params);
  for (int i = 0; i < 3000; ++i) {
    for (std::uint32_t k = 0; k < group.size(); ++k) {
      backward[k].run();
      for (const yoke::Parameter& used : updates[k].params) {
        group.submit_gradient_sync(k, yoke::DistributedParamId::of(used));
      }
    }
    group.sync_collective();
    for (const yoke::LinkedRoutine& update : step) {
      update.run();
    }
  }
  yoke::all_device_to_host(members.back(), sgd);
  return yoke::forward_and_forget(members[0].stream(), all.loss)[0];
}

}  // namespace

int main() try {
  yoke::RuntimeOptions options;
  options.plugin_options["cc"] = {"devices=4"};
  yoke::Runtime runtime(options);
  const auto backend = runtime.backend("cc");
  const std::vector<Tensor> losses = {loss_of({-5, -4, -3, -2}, true), loss_of({-1, 0, 1}, true),
                                      loss_of({2, 3}, true), loss_of({4, 5}, false)};
  const Tensor total = losses[0] + losses[1] + losses[2] + losses[3];
  const double one = train(*backend, {total}, yoke::grad_update(total));
  const double four = train(*backend, losses, yoke::grad_update(total));
  std::cout << "loss after training: " << one << " on one device, " << four << " on four\n";
  return four < 0.05 && std::abs(four - one) < 1e-4 ? 0 : 1;
} catch (const yoke::Error& error) {
  return std::cerr << error.what() << '\n', 1;
}
