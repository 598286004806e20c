// SPDX-License-Identifier: Apache-2.0
// tests/bench/gpu/gpu_bench.cpp: runs the cases and prints a table, or JSON for run.py.
#include "gpu_bench.h"

#include <dlfcn.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace yoke::bench {
namespace {

constexpr int kRepeats = 7;
constexpr int kLost = 3;  // exit status: the device is lost, and with it the cases after the last printed one

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

double clock_seconds(const std::function<void()>& run) {
  const auto start = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

void check(int code, const char* call) {
  if (code != 0) {
    throw std::runtime_error(std::string(call) + " failed with error " + std::to_string(code));
  }
}

}  // namespace

DriverCalls open_driver(const std::string& api) {
  const bool is_cuda = api == "cuda";
  const char* override_path = std::getenv(is_cuda ? "YOKE_CUDA_LIBRARY" : "YOKE_HIP_LIBRARY");
  void* library = nullptr;
  for (const char* name : {override_path, is_cuda ? "libcuda.so.1" : "libamdhip64.so.7", "libamdhip64.so.6",
                           "libamdhip64.so.5"}) {
    if (name != nullptr && library == nullptr) {
      library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    }
  }
  if (library == nullptr) {
    throw std::runtime_error("the driver of '" + api + "' cannot be opened");
  }
  DriverCalls calls;
  const auto find = [&](auto& function, const char* cuda, const char* hip) {
    function = reinterpret_cast<std::decay_t<decltype(function)>>(::dlsym(library, is_cuda ? cuda : hip));
    if (function == nullptr) {
      throw std::runtime_error(std::string("the driver lacks ") + (is_cuda ? cuda : hip));
    }
  };
#define YOKE_DRIVER(member, parameters, cuda, hip) find(calls.member, cuda, hip);
#include "driver.def"
  return calls;
}

Bench::Bench(std::shared_ptr<Device> device, bool small)
    : device_(std::move(device)), stream_(Stream::create(device_)), small_(small) {
  try {
    const NativeHandle native = stream_->native();
    if (native.api == "cuda" || native.api == "hip") {
      driver_ = open_driver(native.api);
      native_stream_ = reinterpret_cast<void*>(native.handle);
      const std::uint64_t context = device_->native().context;
      if (context != 0) {
        check(driver_->context_set(reinterpret_cast<void*>(context)), "setting the context");
      }
      check(driver_->event_create(&start_, 0), "creating an event");
      check(driver_->event_create(&stop_, 0), "creating an event");
    }
  } catch (const Error&) {
    driver_.reset();  // not a GPU: the host's clock measures
  }
}

Bench::~Bench() {
  if (driver_) {
    (void)driver_->event_destroy(start_);
    (void)driver_->event_destroy(stop_);
  }
}

Linked Bench::link(const std::string& text) const {
  const std::shared_ptr<const Code> code = compile(device_, "yoke.program 1\n" + text);
  Linked linked;
  for (const ArgumentInfo& argument : code->entries()[0].arguments) {
    auto buffer = std::make_shared<Buffer>(device_, argument.byte_count);
    linked.arguments.push_back({std::move(buffer), 0, argument.byte_count});
    const float eighth = 0.125F;
    const std::uint16_t eighth_of_bf16 = 0x3e00;
    const std::uint32_t zero = 0;
    const bool is_half = argument.type == YOKE_TYPE_BF16;
    const void* pattern = is_half                          ? static_cast<const void*>(&eighth_of_bf16)
                          : argument.type == YOKE_TYPE_F32 ? static_cast<const void*>(&eighth)
                                                           : static_cast<const void*>(&zero);
    stream_->fill(linked.arguments.back(), pattern, is_half ? 2 : 4);
  }
  linked.routine = Routine::link(code, 0, linked.arguments);
  stream_->launch(*linked.routine);  // the first launches prepare what later ones reuse
  stream_->launch(*linked.routine);
  stream_->wait();
  return linked;
}

double Bench::seconds_of(const std::function<void()>& run) const {
  const double first = clock_seconds([&] {
    run();
    stream_->wait();
  });
  const int count = std::clamp(static_cast<int>(0.02 / std::max(first, 1e-6)), 1, 1000);
  std::vector<double> times;
  for (int repeat = 0; repeat < kRepeats; ++repeat) {
    float milliseconds = 0;
    const double clock = clock_seconds([&] {
      if (driver_) {
        check(driver_->event_record(start_, native_stream_), "recording an event");
      }
      for (int i = 0; i < count; ++i) {
        run();
      }
      if (driver_) {
        check(driver_->event_record(stop_, native_stream_), "recording an event");
      }
      stream_->wait();
    });
    if (driver_) {
      check(driver_->event_synchronize(stop_), "waiting for an event");
      check(driver_->event_elapsed(&milliseconds, start_, stop_), "comparing events");
    }
    times.push_back((driver_ ? milliseconds / 1e3 : clock) / count);
  }
  return median(times);
}

double Bench::host_seconds_of(const std::function<void()>& run) const {
  constexpr int kCalls = 200;  // fewer than a driver queues before it blocks
  std::vector<double> times;
  for (int repeat = 0; repeat < 5 * kRepeats; ++repeat) {
    times.push_back(clock_seconds([&] {
                      for (int i = 0; i < kCalls; ++i) {
                        run();
                      }
                    }) /
                    kCalls);
    stream_->wait();
  }
  return median(times);
}

double Bench::copy_bandwidth() {
  if (copy_bandwidth_ == 0) {
    const std::uint64_t bytes = size(std::uint64_t{2} << 30, 1 << 16);
    const BufferView from{std::make_shared<Buffer>(device_, bytes), 0, bytes};
    const BufferView to{std::make_shared<Buffer>(device_, bytes), 0, bytes};
    const std::uint32_t zero = 0;
    stream_->fill(from, &zero, 4);
    copy_bandwidth_ = 2 * static_cast<double>(bytes) / seconds_of([&] { stream_->copy(to, from); });
  }
  return copy_bandwidth_;
}

namespace {

namespace po = boost::program_options;

nlohmann::json to_json(const Row& row) {
  nlohmann::json json = {{"name", row.name},
                         {"unit", row.unit},
                         {"detail", row.detail},
                         {"missing", row.missing},
                         {"lost", row.lost}};
  if (row.missing.empty()) {
    json["value"] = row.value;
  }
  if (row.bar) {
    json["bar"] = *row.bar;
    json["at_least"] = row.at_least;
    json["met"] = row.is_met();
  }
  return json;
}

void print(const Row& row, bool as_json) {
  if (as_json) {
    std::cout << to_json(row) << std::endl;  // now, as a later case may end the program
    return;
  }
  std::printf("%-52s ", row.name.c_str());
  if (!row.missing.empty()) {
    std::printf("not measured: %s\n", row.missing.c_str());
    return;
  }
  std::printf("%10.3g %-4s", row.value, row.unit.c_str());
  if (row.bar) {
    std::printf(" bar %s %.3g %s", row.at_least ? ">=" : "<=", *row.bar, row.is_met() ? "met   " : "MISSED");
  }
  std::printf("  %s\n", row.detail.c_str());
  std::fflush(stdout);
}

// A handle of the device, with those of `more` options that the backend has.
std::shared_ptr<Device> open_device(Backend& backend, std::vector<std::string> options,
                                    const std::vector<std::string>& more) {
  const std::vector<OptionSpec> specs = backend.option_specs();
  for (const std::string& one : more) {
    const std::string name = one.substr(0, one.find('='));
    if (std::any_of(specs.begin(), specs.end(), [&](const OptionSpec& spec) { return spec.name == name; })) {
      std::erase_if(options, [&](const std::string& option) { return option.starts_with(name + "="); });
      options.push_back(one);
    }
  }
  return backend.open_device(0, backend.parse_options(options));
}

std::vector<Case> chosen_cases(const std::string& text, std::size_t first) {
  std::vector<Case> chosen = cases();
  chosen.erase(chosen.begin(), chosen.begin() + static_cast<std::ptrdiff_t>(std::min(first, chosen.size())));
  std::erase_if(chosen, [&](const Case& one) { return one.name.find(text) == std::string::npos; });
  return chosen;
}

Row measure(const Case& one, const std::function<Bench&(const std::vector<std::string>&)>& open) {
  Row row;
  try {
    row = one.run(open(one.options));
  } catch (const Error& error) {
    row.missing = error.what();
    row.lost = error.code() == ErrorCode::kDeviceLost;
  } catch (const std::exception& error) {
    row.missing = error.what();
  }
  row.name = one.name;
  return row;
}

int run(int argc, char** argv) {
  po::options_description described("gpu_bench: times the parts of training on a GPU backend");
  described.add_options()("help", "print this text")(
      "backend", po::value<std::string>()->default_value("cuda"), "backend")(
      "option", po::value<std::vector<std::string>>()->default_value({}, ""),
      "option of the device, name=value")("only", po::value<std::string>()->default_value(""),
                                          "run the cases whose names contain this text")(
      "first", po::value<std::size_t>()->default_value(0), "skip this many cases at the start")(
      "small", "tiny sizes, to test the benchmark itself; the figures mean nothing")(
      "json", "print JSON: a line for each case, then one for the device");
  po::variables_map given;
  po::store(po::parse_command_line(argc, argv, described), given);
  if (given.count("help") != 0) {
    std::cout << described;
    return 0;
  }
  RuntimeOptions options;
  options.strict = true;
  Runtime runtime(options);
  const std::shared_ptr<Backend> backend = runtime.backend(given["backend"].as<std::string>());
  if (backend->device_count() == 0) {
    std::cout << "skipped: " << backend->no_device_reason() << "\n";
    return 77;
  }
  const bool small = given.count("small") != 0;
  const auto texts = given["option"].as<std::vector<std::string>>();
  Bench bench(open_device(*backend, texts, {}), small);
  std::map<std::vector<std::string>, Bench> others;  // by options
  const auto open = [&](const std::vector<std::string>& more) -> Bench& {
    return more.empty() ? bench
                        : others.try_emplace(more, open_device(*backend, texts, more), small).first->second;
  };
  bool all_met = true;
  for (const Case& one : chosen_cases(given["only"].as<std::string>(), given["first"].as<std::size_t>())) {
    const Row row = measure(one, open);
    all_met = all_met && row.is_met();
    print(row, given.count("json") != 0);
    if (row.lost) {
      return kLost;
    }
  }
  if (given.count("json") != 0) {
    std::cout << nlohmann::json{{"device", bench.device().info().name},
                                {"backend", backend->name()},
                                {"copy_bytes_per_second", bench.copy_bandwidth()}}
              << "\n";
  }
  return all_met || small ? 0 : 1;
}

}  // namespace
}  // namespace yoke::bench

int main(int argc, char** argv) {
  try {
    return yoke::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 2;
  }
}
