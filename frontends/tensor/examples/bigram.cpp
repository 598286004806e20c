// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/examples/bigram.cpp: predicts the next character of names from the one before, on four streams, with a
// hand-written loop over batches in turn.
#include <yoke/program/text.h>
#include <yoke/yoke.h>

#include <fstream>
#include <iostream>

namespace {

constexpr std::size_t kWorkers = 4;
constexpr std::int64_t kRows = 3800;  // of a batch

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
  const yoke::Symbol row{"row", 0, count / kRows * kRows, kRows};  // the last few bigrams are left out
  const yoke::Tensor inputs = yoke::rows(yoke::tensor(from, {from.size()}, "from"), row, kRows);
  const yoke::Tensor targets = yoke::rows(yoke::tensor(to, {to.size()}, "to"), row, kRows);
  const yoke::Parameter logits("logits", {27, 27}, yoke::Initializer::zeros());
  logits.set_values(std::vector<std::byte>(logits.byte_count()));  // each character is as likely as any other
  const auto update = yoke::grad_update(yoke::cross_entropy(yoke::take(logits.tensor(), inputs), targets));
  const auto sgd = yoke::sgd_update(update, 50.0F / kWorkers);  // the gradients of a round are added up

  yoke::Runtime runtime;
  const auto device = runtime.backend("cc")->open_device(0);
  const auto code = yoke::compile(device, yoke::program::print(update.lowered.program));
  yoke::ParallelUpdate run;
  for (std::size_t k = 0; k < kWorkers; ++k) {
    yoke::Context context(yoke::Stream::create(device));
    yoke::allocate_missing(context, update.lowered);
    yoke::all_host_to_device(context, update.lowered);
    run.grad_updates.push_back(context.link(code, "gradient", yoke::context_names(update.lowered)));
    run.contexts.push_back(context);
  }
  run.sgd_update = run.contexts[0].link(yoke::compile(device, yoke::program::print(sgd.program)),
                                        "sgd_update", yoke::context_names(sgd));
  run.bindings = {{row}};
  float loss = 0;
  double sum = 0;
  run.post_sync = [&](std::uint32_t) {  // the owner has the sum of the round's losses
    run.contexts[0].to_host("loss", std::as_writable_bytes(std::span(&loss, 1)));
    run.contexts[0].stream()->wait();
    sum += static_cast<double>(loss);
  };
  const auto epoch = yoke::parallel_update(run, update);
  double mean = 0;
  for (int i = 1; i <= 20; ++i, sum = 0) {
    epoch();
    mean = sum * kRows / static_cast<double>(row.high);
    std::cout << "epoch " << i << ": loss " << mean << " on " << count << " bigrams\n";
  }
  return count == 228146 && mean < 2.47;  // counting all bigrams gives 2.454
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2 || !std::ifstream(argv[1])) {
      std::cout << "skipped: give the path of names.txt, a list of names in lower case, one per line\n";
      return 0;
    }
    return learns(argv[1]) ? 0 : 1;
  } catch (const yoke::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
