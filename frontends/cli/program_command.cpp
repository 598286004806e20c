// SPDX-License-Identifier: Apache-2.0
// frontends/cli/program_command.cpp: yoke program: verifies, prints and runs a file in yoke's program format.
#include <yoke/program/text.h>
#include <yoke/runtime/closest.h>
#include <yoke/runtime/passes.h>
#include <yoke/runtime/runtime.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <limits>
#include <optional>
#include <system_error>
#include <utility>

#include "command_line.h"
#include "global_options.h"
#include "host_memory.h"
#include "run_program.h"
#include "text.h"
#include "train_setup.h"

namespace yoke::cli {
namespace {

struct ProgramOptions {
  std::string file;
  bool optimized = false;
  bool explain = false;
  bool run = false;
  std::string backend;  // empty: the reference executor
  std::vector<std::string> device_options;
  std::optional<std::int64_t> seed;  // empty: 0
  double tolerance = -1;             // negative: the default for the program's types
  std::vector<std::string> symbols;
  std::optional<std::int64_t> elements;  // of each output to print; empty: 6
};

std::string read_text(const std::string& file) {
  if (file == "-") {
    return {std::istreambuf_iterator<char>(std::cin), {}};
  }
  constexpr const char* kFix = "; give a file in yoke's program format, or - for standard input";
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    throw Error(ErrorCode::kInvalidArgument, "cannot read " + file + ": it is a folder" + kFix);
  }
  constexpr std::size_t kLongest = std::size_t{64} << 20U;
  std::string text(kLongest, '\0');
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (!in.is_open() || in.bad()) {
    const std::string why = errno == 0 ? "" : ": " + std::generic_category().message(errno);
    throw Error(ErrorCode::kNotFound, "cannot read " + file + why + kFix);
  }
  if (text.size() == kLongest) {
    throw Error(ErrorCode::kInvalidArgument, "cannot read " + file + ": it is larger than 64 MiB" + kFix);
  }
  return text;
}

// The values of --symbol NAME=VALUE. Other symbols get their lowest value.
std::vector<std::int64_t> symbol_values(const program::Program& program,
                                        const std::vector<std::string>& given) {
  std::vector<std::int64_t> values;
  for (std::size_t i = 0; i < program.launch_symbol_count(); ++i) {
    values.push_back(program.symbols[i].low);
  }
  for (const std::string& word : given) {
    const std::size_t equals = word.find('=');
    const std::string digits = equals == std::string::npos ? "" : word.substr(equals + 1);
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      throw UsageError("--symbol takes NAME=VALUE with a whole number, not '" + word + "'");
    }
    if (const auto found = program.find_symbol(word.substr(0, equals))) {
      const program::Symbol& symbol = program.symbols[*found];
      if (value < symbol.low || value >= symbol.high || (value - symbol.low) % symbol.step != 0) {
        throw UsageError("--symbol " + word + " is out of range; the range of '" + symbol.name + "' is " +
                         std::to_string(symbol.low) + ".." + std::to_string(symbol.high) + " step " +
                         std::to_string(symbol.step));
      }
      values[*found] = value;
    }
  }
  return values;
}

void check_symbols(const program::Module& module, const std::vector<std::string>& given) {
  const auto name_of = [](const std::string& word) { return word.substr(0, word.find('=')); };
  for (auto word = given.begin(); word != given.end(); ++word) {
    if (std::any_of(given.begin(), word,
                    [&](const auto& other) { return name_of(other) == name_of(*word); })) {
      throw UsageError("--symbol gives '" + name_of(*word) + "' two values");
    }
  }
  const auto unknown = std::find_if(given.begin(), given.end(), [&](const std::string& word) {
    return std::none_of(module.programs.begin(), module.programs.end(), [&](const program::Program& program) {
      return program.find_symbol(name_of(word)).has_value();
    });
  });
  if (unknown != given.end()) {
    std::vector<std::string> names;
    for (const program::Program& program : module.programs) {
      for (const program::Symbol& symbol : program.symbols) {
        names.push_back(symbol.name);
      }
    }
    throw UsageError("--symbol " + *unknown + ": no program in the file has a symbol '" + name_of(*unknown) +
                     "'" + did_you_mean(name_of(*unknown), names));
  }
}

void print_outputs(const program::Program& program, const ArgumentBytes& arguments,
                   const ProgramOptions& options) {
  const auto most = static_cast<std::uint64_t>(options.elements.value_or(6));
  const auto numbers = program.arguments();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const program::Tensor& tensor = program.tensors[numbers[i]];
    if (tensor.role == program::Role::kIn) {
      continue;
    }
    double low = std::numeric_limits<double>::infinity();
    double high = -low;
    double sum = 0;
    std::vector<std::string> first;
    for (const double value : element_values(tensor, arguments[i])) {
      low = std::min(low, value);
      high = std::max(high, value);
      sum += value;
      if (first.size() < most) {
        first.push_back(shortest(value));
      }
    }
    std::vector<std::string> dims;
    for (const std::uint64_t dim : tensor.dims) {
      dims.push_back(std::to_string(dim));
    }
    std::cout << "  " << tensor.name << " : " << program::type_name(tensor.type) << "[" << join(dims, ", ")
              << "]  min " << shortest(low) << ", max " << shortest(high) << ", mean "
              << shortest(sum / static_cast<double>(tensor.element_count())) << "; first " << join(first, " ")
              << (tensor.element_count() > most ? " ..." : "") << '\n';
  }
}

// How much rounding and another order of summation may change a result, relative to the larger of the value
// and 1.
double usual_tolerance(const program::Program& program) {
  double tolerance = 0;
  for (const program::Tensor& tensor : program.tensors) {
    const double one = tensor.type == program::Type::kBF16  ? 0.1
                       : tensor.type == program::Type::kF16 ? 0.02
                       : tensor.type == program::Type::kF32 ? 1e-3
                       : tensor.type == program::Type::kF64 ? 1e-6
                                                            : 0;
    tolerance = std::max(tolerance, one);
  }
  return tolerance;
}

// A device has a copy and a buffer of each argument; the buffers of CPUs are in host memory. Values are converted from
// and to f64, one argument at a time.
void check_memory(const program::Program& program, const std::shared_ptr<Device>& device) {
  double needed = 0;  // products of dimensions may exceed 64 bits
  double converted = 0;
  for (const program::Tensor& tensor : program.tensors) {
    const auto elements = static_cast<double>(tensor.element_count());
    needed += elements * static_cast<double>(program::byte_size(tensor.type)) * (device ? 3 : 1);
    converted = std::max(converted, elements * sizeof(double));
  }
  needed += converted;
  const auto available = available_host_memory();
  if (available && needed > static_cast<double>(*available)) {
    throw Error(ErrorCode::kResourceExhausted,
                "program '" + program.name +
                    "': out of memory: " + byte_text(static_cast<std::uint64_t>(std::min(needed, 9e18))) +
                    " needed for its tensors, " + byte_text(*available) +
                    " available; use smaller dimensions");
  }
}

// Returns whether the device's results are those of the reference executor, within the tolerance.
bool run_program(const program::Program& program, const std::shared_ptr<Device>& device,
                 const ProgramOptions& options) {
  const auto values = symbol_values(program, options.symbols);
  check_memory(program, device);
  const std::int64_t seed = options.seed.value_or(0);
  ArgumentBytes reference = random_arguments(program, seed);
  ArgumentBytes got = device ? reference : ArgumentBytes();
  std::cout << "# " << program.name << " on " << (device ? device->name() : "the reference executor")
            << ", seed " << seed << '\n';
  run_on_reference(program, reference, values);
  if (!device) {
    print_outputs(program, reference, options);
    return true;
  }
  const auto start = std::chrono::steady_clock::now();
  run_on_device(device, program::print(program), program, got, values);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  print_outputs(program, got, options);
  const Difference difference = largest_difference(program, got, reference);
  std::cout << "  compiled and run in " << fixed(seconds.count() * 1e3, 1)
            << " ms; largest difference from the reference executor: " << shortest(difference.relative)
            << (difference.place.empty() ? "" : ", " + difference.place) << '\n';
  const double tolerance = options.tolerance < 0 ? usual_tolerance(program) : options.tolerance;
  if (difference.relative <= tolerance) {
    return true;
  }
  std::cerr << "yoke: program '" << program.name << "': " << device->name()
            << " differs from the reference executor by " << shortest(difference.relative)
            << ", more than the tolerance " << shortest(tolerance) << "; --tolerance sets another one\n";
  return false;
}

bool is_reference(const ProgramOptions& options) {
  return options.backend.empty() || options.backend == "reference";
}

// Throws UsageError for options that would have no effect.
void check_options(const ProgramOptions& options) {
  const std::pair<const char*, bool> needs_run[] = {
      {"--backend", !options.backend.empty()}, {"--option", !options.device_options.empty()},
      {"--seed", options.seed.has_value()},    {"--tolerance", options.tolerance >= 0},
      {"--symbol", !options.symbols.empty()},  {"--elements", options.elements.has_value()}};
  for (const auto& [name, is_typed] : needs_run) {
    if (is_typed && !options.run) {
      throw UsageError(std::string(name) + " needs --run");
    }
  }
  check_backend_name(options.backend);
  if (!options.device_options.empty() && is_reference(options)) {
    throw UsageError("--option needs a --backend other than reference, which has no options");
  }
  if (options.run + options.explain + options.optimized > 1) {
    throw UsageError("--run, --explain and --optimized print different things; use one of them");
  }
}

int run_all(const program::Module& module, const ProgramOptions& options) {
  check_symbols(module, options.symbols);
  std::shared_ptr<Device> device;
  if (!is_reference(options)) {
    RuntimeOptions alone = runtime_options();
    alone.fallback_backend = "";  // it would show another backend's results
    const auto backend = make_runtime(alone).backend(options.backend);
    device = backend->open_device(0, device_options(options.device_options, {backend}));
  }
  bool matches = true;
  for (const program::Program& program : module.programs) {
    matches = run_program(program, device, options) && matches;
  }
  return matches ? kDone : kFailed;
}

}  // namespace

int program_command(Arguments arguments) {
  ProgramOptions options;
  CommandLine line(
      "yoke program FILE [OPTION...]",
      "Verifies a file in yoke's program format (- for standard input) and prints it in canonical form.");
  line.positional("FILE", &options.file, "the program");
  line.flag("optimized", &options.optimized, "print the program as backends receive it, after yoke's passes");
  line.flag("explain", &options.explain, "print what yoke's passes do with each statement, and the result");
  line.flag("run", &options.run,
            "run every program of the file on random input and print its outputs instead of the text");
  line.text("backend", &options.backend, "for --run: a backend, or reference (default)", "NAME");
  line.texts(
      "option", &options.device_options,
      "for --run: option of the device, may be repeated; yoke backends --help-options BACKEND lists them",
      "NAME=VALUE");
  line.integer("seed", &options.seed, {}, "for --run: seed of the random input, may be negative, default 0");
  line.number(
      "tolerance", &options.tolerance, {},
      "for --run: the largest relative difference from the reference executor; more exits with 1. Default: "
      "1e-6 for f64, 1e-3 for f32, 0.02 for f16, 0.1 for bf16, 0 for integers");
  line.texts("symbol", &options.symbols, "for --run: value of a symbol, default the lowest", "NAME=VALUE");
  line.integer("elements", &options.elements, {1, std::numeric_limits<std::int64_t>::max()},
               "for --run: number of elements of each output to print, default 6");
  if (!line.parse(arguments)) {
    return kDone;
  }
  check_options(options);
  program::Module module;
  try {
    module = program::parse_and_verify(read_text(options.file));
  } catch (const program::ProgramError& error) {
    throw Error(ErrorCode::kInvalidArgument, options.file + ": " + error.what());
  }
  if (options.run) {
    return run_all(module, options);
  }
  if (options.explain) {
    for (const program::Program& program : module.programs) {
      explain_program(program);
    }
    return kDone;
  }
  if (options.optimized) {
    for (program::Program& program : module.programs) {
      program = passes::optimize(std::move(program)).program;
    }
  }
  std::cout << program::print(module);
  return kDone;
}

}  // namespace yoke::cli
