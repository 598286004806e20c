// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/examples/bigram.cpp: predicts characters of names, on four streams, by a round_robin loop.
#include <yoke/yoke.h>

#include <fstream>
#include <iostream>

namespace {

constexpr std::int64_t kWorkers = 4, kRows = 3800;  // of a batch
bool learns(const char* path) {
  std::vector<std::uint8_t> from, to;  // 0: start and end of a name; 1 to 26: a to z
  std::ifstream names(path);
  for (std::string name; std::getline(names, name);) {
    std::uint8_t before = 0;
    for (const char c : name + '`') {  // the character before 'a'
      from.push_back(before);
      to.push_back(before = static_cast<std::uint8_t>(c - '`'));
    }
  }
  const auto count = static_cast<std::int64_t>(from.size());
  const yoke::Symbol row{"row", 0, count - count % (kRows * kWorkers), kRows};  // only full rounds
  const yoke::Tensor inputs = yoke::rows(yoke::tensor(from, {from.size()}, "from"), row, kRows);
  const yoke::Tensor targets = yoke::rows(yoke::tensor(to, {to.size()}, "to"), row, kRows);
  const yoke::Parameter logits("logits", {27, 27},
                               yoke::Initializer::zeros());  // all characters are equally likely
  const auto update = yoke::grad_update(yoke::cross_entropy(yoke::take(logits.tensor(), inputs), targets));
  const auto sgd = yoke::sgd_update(update, 50.0F / kWorkers);  // the gradients of a round are added up

  yoke::Runtime runtime;
  const auto device = runtime.backend("cc")->open_device(0);
  yoke::init_params(yoke::Stream::create(device), update.params, 0);
  const yoke::CodeBatch code = yoke::compile_batch(device, {update.lowered, sgd});
  std::vector<yoke::Context> contexts;
  std::vector<yoke::Binding> bindings = {{row}};
  std::vector<std::vector<yoke::Binding>> own(kWorkers, bindings);
  std::vector<std::function<void()>> workers;
  yoke::LinkedRoutine step;  // on the owner, the first worker
  for (std::vector<yoke::Binding>& mine : own) {
    const auto [context, routines] = yoke::link_batch(yoke::Context(yoke::Stream::create(device)), code);
    yoke::all_host_to_device(context, update.lowered);
    workers.emplace_back([gradient = *routines[0], &at = mine[0].value] { gradient.run(std::span(&at, 1)); });
    step = contexts.empty() ? *routines[1] : step;
    contexts.push_back(context);
  }
  const auto group = yoke::Collectives::create(yoke::MergeStrategy::kTree, contexts);
  yoke::LinkedCollective merge = group->reduce("gradient_0");
  merge.add(group->reduce("loss"));
  const yoke::LinkedCollective publish = group->broadcast("logits");
  float loss = 0;
  double sum = 0, mean = 0;
  const auto sync = [&](std::uint32_t) {  // the owner gets the sums of a round
    merge.run();
    step.run();
    publish.run();
    contexts[0].to_host("loss", std::as_writable_bytes(std::span(&loss, 1)));
    contexts[0].stream()->wait();
    sum += static_cast<double>(loss);
  };
  for (int i = 1; i <= 20; ++i, sum = 0) {
    yoke::round_robin(workers, own, bindings, sync);
    mean = sum * kRows / static_cast<double>(row.high);
    std::cout << "epoch " << i << ": loss " << mean << " on " << count << " bigrams\n";
  }
  return count == 228146 && mean < 2.47;  // counting all bigrams gives 2.454
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc != 2 || !std::ifstream(argv[1])) {
    return std::cout << "skipped: give the path of names.txt, with one name in lower case per line\n", 0;
  }
  return learns(argv[1]) ? 0 : 1;
} catch (const yoke::Error& error) {
  return std::cerr << error.what() << '\n', 1;
}
