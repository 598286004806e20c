// SPDX-License-Identifier: Apache-2.0
// code.cpp: generates, builds, binds and launches kernels.
#include "code.h"

#include <yoke/program/access.h>
#include <yoke/program/memory.h>

#include <algorithm>
#include <utility>

namespace ocl {
namespace {

using yoke::program::Program;
using yoke::program::Statement;
using yoke::program::Type;
using yoke::sdk::Failure;

constexpr std::uint32_t kRevision = 4;  // version of the generated code; part of fingerprints

bool uses_f64(const yoke::program::Expr& expr) {
  return expr.type == Type::kF64 || std::any_of(expr.args.begin(), expr.args.end(), uses_f64);
}

// For statements with little work, the optimizer takes more time than it saves.
bool is_optimized(const DeviceOptions& options, const Statement& statement) {
  std::uint64_t iterations = 1;  // cannot overflow: below 2^63 in a verified program
  for (const yoke::program::Loop& loop : statement.loops) {
    iterations *= loop.extent;
  }
  return iterations >= options.optimize_from;
}

std::vector<std::uint64_t> workspace_offsets(const Program& program, std::uint64_t& byte_count) {
  yoke::program::MemoryPlan plan = yoke::program::plan_memory(yoke::program::lifetimes(program));
  byte_count = plan.byte_count;
  return std::move(plan.offsets);
}

// A 64-bit hash (FNV-1a) of everything but the program that the code depends on.
std::string key_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4) {
    digits += "0123456789abcdef"[(hash >> shift) & 15U];
  }
  return digits;
}

// Why the device does not support a statement; empty if it does.
std::string refusal(const Hardware& hardware, const Program& program, const Statement& statement,
                    const Body& body) {
  const bool wide = uses_f64(statement.value) || statement.accumulator_type() == Type::kF64 ||
                    program.tensors[statement.target.tensor].type == Type::kF64;
  if (wide && !hardware.has_f64) {
    return "'" + hardware.info.name + "' does not support f64 (cl_khr_fp64)";
  }
  const std::uint64_t bytes = parameter_bytes(body.slots.size(), body.symbols.size());
  if (bytes > hardware.max_argument_bytes) {
    return "the statement accesses " + std::to_string(body.slots.size()) + " tensors and needs " +
           std::to_string(bytes) + " bytes of kernel arguments; the limit of the device is " +
           std::to_string(hardware.max_argument_bytes);
  }
  return {};
}

// Iterations of a work-item on a CPU that outweigh its overhead.
constexpr std::uint64_t kWorkPerItem = 4096;
constexpr std::uint64_t kItemsPerCore = 8;
constexpr std::uint64_t kMostItemsOnGpu = std::uint64_t{1} << 22;

void divide_work(const Hardware& hardware, Step& step) {
  const std::uint64_t count = step.body.element_count;
  if (!hardware.is_cpu) {
    const std::uint64_t items = std::min(count, kMostItemsOnGpu);
    const std::uint64_t group = hardware.work_group_size;
    step.work_items = (items + group - 1) / group * group;
    return;
  }
  const std::uint64_t worth = std::max<std::uint64_t>(kWorkPerItem / step.body.work_per_element, 1);
  const std::uint64_t most = hardware.info.compute_unit_count * kItemsPerCore;
  const std::uint64_t chunk = std::max({worth, (count + most - 1) / most, std::uint64_t{1}});
  step.chunk = static_cast<std::int64_t>(chunk);
  step.work_items = (count + chunk - 1) / chunk;
}

std::string build_log(cl_program program, cl_device_id device) {
  constexpr std::size_t kLongest = 4000;
  std::size_t size = 0;
  if (api().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size) != CL_SUCCESS) {
    return "there is no log";
  }
  std::string log(size, '\0');
  if (api().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr) !=
      CL_SUCCESS) {
    return "there is no log";
  }
  log.resize(std::min({log.find('\0'), log.size(), kLongest}));
  return log;
}

}  // namespace

std::vector<yoke::sdk::Verdict> verdicts(const Hardware& hardware, std::string_view text) {
  std::vector<yoke::sdk::Verdict> result;
  const yoke::program::Module module = yoke::sdk::read_program(text);
  for (std::uint32_t p = 0; p < module.programs.size(); ++p) {
    const Program& program = module.programs[p];
    const std::vector<std::uint64_t> offsets(program.tensors.size());
    for (std::uint32_t s = 0; s < program.statements.size(); ++s) {
      std::set<std::string> helpers;
      const Body body = print_body(program, program.statements[s], offsets, {}, helpers);
      const std::string reason = refusal(hardware, program, program.statements[s], body);
      result.push_back({p, s, reason.empty() ? YOKE_VERDICT_NATIVE : YOKE_VERDICT_UNSUPPORTED,
                        reason.empty() ? body.remark : reason});
    }
  }
  return result;
}

Code::Code(Device& device, std::string_view text) : device_(device) {
  yoke::program::Module module = yoke::sdk::read_program(text);
  std::set<std::string> helpers;
  const std::string key = key_of(device.hardware().driver + "\n" + device.options().build_options + "\n" +
                                 std::to_string(device.options().optimize_from));
  for (Program& program : module.programs) {
    print_program(program, helpers);
    entries_.back().fingerprint = "opencl-" + std::to_string(kRevision) + "-" + key + "-" +
                                  yoke::program::fingerprint(yoke::program::Module{{program}});
    programs_.push_back(std::move(program));
  }
  std::string kernels = print_kernels(true);
  kernels += print_kernels(false);
  for (std::vector<Step>& steps : steps_) {
    for (Step& step : steps) {
      step.body.text = {};
    }
  }
  if (!kernels.empty()) {
    build(print_helpers(helpers, device.hardware()) + kernels);
  }
}

void Code::print_program(const Program& program, std::set<std::string>& helpers) {
  yoke::sdk::Entry entry = yoke::sdk::entry_of(program);
  const std::vector<std::uint64_t> offsets = workspace_offsets(program, entry.workspace_byte_count);
  std::vector<Step> steps;
  for (std::size_t s = 0; s < program.statements.size(); ++s) {
    Step step;
    const bool optimized = is_optimized(device_.options(), program.statements[s]);
    const bool is_cpu = device_.hardware().is_cpu;
    const Form form{is_cpu, is_cpu && optimized ? device_.hardware().vector_bytes : 0};
    step.body = print_body(program, program.statements[s], offsets, form, helpers);
    step.body.optimized = optimized;
    const std::string reason = refusal(device_.hardware(), program, program.statements[s], step.body);
    if (!reason.empty()) {
      throw Failure(YOKE_STATUS_UNIMPLEMENTED,
                    "statement " + std::to_string(s) + " of program '" + program.name + "': " + reason);
    }
    divide_work(device_.hardware(), step);
    steps.push_back(std::move(step));
  }
  entries_.push_back(std::move(entry));
  steps_.push_back(std::move(steps));
}

// Consecutive statements share a kernel as long as the parameters fit.
std::string Code::print_kernels(bool optimized) {
  std::string source;
  std::vector<const Body*> bodies;
  std::pair<std::size_t, std::size_t> widest;
  const auto finish = [&] {
    if (!bodies.empty()) {
      source += print_kernel(parameters_.size(), bodies, device_.hardware().work_group_size, optimized);
      parameters_.push_back(widest);
    }
    bodies.clear();
    widest = {};
  };
  for (std::vector<Step>& steps : steps_) {
    for (Step& step : steps) {
      const Body& body = step.body;
      if (body.optimized != optimized) {
        continue;
      }
      const auto wider = [&] {
        return std::pair(std::max(widest.first, body.slots.size()),
                         std::max(widest.second, body.symbols.size()));
      };
      const auto [slot_count, symbol_count] = wider();
      if (bodies.size() == device_.options().statements_per_kernel ||
          parameter_bytes(slot_count, symbol_count) > device_.hardware().max_argument_bytes) {
        finish();
      }
      widest = wider();
      step.kernel = parameters_.size();
      step.which = static_cast<std::int32_t>(bodies.size());
      bodies.push_back(&body);
    }
  }
  finish();
  return source;
}

void Code::build(const std::string& source) {
  const yoke::sdk::TraceSpan span(device_.host(), "opencl.build");
  const Hardware& hardware = device_.hardware();
  std::string options = "-cl-std=CL1.2 -w";
  if (hardware.divides_exactly) {
    options += " -cl-fp32-correctly-rounded-divide-sqrt";
  }
  if (!device_.options().build_options.empty()) {
    options += " " + device_.options().build_options;
  }
  const char* text = source.data();
  const std::size_t length = source.size();
  cl_int status = CL_SUCCESS;
  program_.reset(
      api().clCreateProgramWithSource(device_.context()->handle.get(), 1, &text, &length, &status));
  check(status, "clCreateProgramWithSource", "compiling programs");
  status = api().clBuildProgram(program_.get(), 1, &hardware.id, options.c_str(), nullptr, nullptr);
  if (status != CL_SUCCESS) {
    throw Failure(code_of(status),
                  "compiling program '" + entries_[0].name + "' for '" + hardware.info.name +
                      "' failed (options '" + options + "'): " + status_name(status) + "\n" +
                      build_log(program_.get(), hardware.id),
                  status);
  }
  if (hardware.is_cpu) {
    finish_on_cpu();
  }
}

OwnedKernel Code::make_kernel(std::size_t number, const std::string& what) const {
  const std::string name = "yoke_" + std::to_string(number);
  cl_int status = CL_SUCCESS;
  OwnedKernel kernel(api().clCreateKernel(program_.get(), name.c_str(), &status));
  check(status, "clCreateKernel", what);
  return kernel;
}

// PoCL finishes compiling a kernel at its first launch, which can take seconds. This function launches each
// kernel once without running a statement, so that later launches are fast.
void Code::finish_on_cpu() const {
  const std::string what = "compiling programs";
  for (std::size_t number = 0; number < parameters_.size(); ++number) {
    const OwnedKernel kernel = make_kernel(number, what);
    cl_uint next = 0;
    const auto set = [&](const auto& value) {
      check(api().clSetKernelArg(kernel.get(), next++, sizeof value, &value), "clSetKernelArg", what);
    };
    set(cl_int{-1});
    set(cl_long{0});
    for (std::size_t i = 0; i < parameters_[number].first; ++i) {
      set(cl_mem{nullptr});
      set(cl_ulong{0});
    }
    for (std::size_t i = 0; i < parameters_[number].second; ++i) {
      set(cl_long{0});
    }
    device_.submit(nullptr, "clEnqueueNDRangeKernel", "compiling programs", [&](auto queue, auto* event) {
      const std::size_t size = device_.hardware().work_group_size;
      return api().clEnqueueNDRangeKernel(queue, kernel.get(), 1, nullptr, &size, &size, 0, nullptr, event);
    });
  }
}

std::unique_ptr<yoke::sdk::Routine> Code::link(std::uint32_t entry,
                                               std::span<const yoke::sdk::Binding> bindings,
                                               const yoke::sdk::Binding& workspace) {
  return std::make_unique<Routine>(*this, entry, bindings, workspace);
}

Routine::Routine(const Code& code, std::uint32_t entry, std::span<const yoke::sdk::Binding> bindings,
                 const yoke::sdk::Binding& workspace)
    : device_(code.device_),
      program_(code.programs_[entry]),
      what_("program '" + code.entries_[entry].name + "'") {
  for (const Step& step : code.steps_[entry]) {
    OwnedKernel kernel = code.make_kernel(step.kernel, what_);
    cl_uint next = 0;
    const auto set = [&](std::size_t size, const void* value) {
      check(api().clSetKernelArg(kernel.get(), next++, size, value), "clSetKernelArg", what_);
    };
    set(sizeof(cl_int), &step.which);
    set(sizeof(cl_long), &step.chunk);
    const auto [slot_count, symbol_count] = code.parameters_[step.kernel];
    for (std::size_t i = 0; i < slot_count; ++i) {
      // Slots that this statement does not use get any valid buffer.
      const Slot& slot = step.body.slots[std::min(i, step.body.slots.size() - 1)];
      const yoke::sdk::Binding& bound = slot.is_workspace ? workspace : bindings[slot.argument];
      cl_mem memory = static_cast<Buffer*>(bound.buffer)->memory();
      const cl_ulong offset = bound.offset;
      set(sizeof memory, &memory);
      set(sizeof offset, &offset);
    }
    const cl_uint first_symbol = next;
    for (std::size_t i = 0; i < symbol_count; ++i) {
      const cl_long zero = 0;
      set(sizeof zero, &zero);
    }
    steps_.push_back({&step, std::move(kernel), first_symbol});
  }
}

void Routine::launch(yoke::sdk::Stream* stream, std::span<const std::int64_t> symbol_values) {
  if (steps_.empty()) {
    return;
  }
  std::vector<std::int64_t> symbols(symbol_values.begin(), symbol_values.end());
  symbols.resize(program_.symbols.size());
  device_.run(stream, [this, symbols = std::move(symbols)](auto queue) mutable {
    OwnedEvent last;
    try {
      yoke::program::run_in_order(program_, symbols,
                                  [&](std::size_t i) { enqueue(queue, steps_[i], symbols, last); });
    } catch (const Failure&) {
      (void)api().clFinish(queue);  // what is queued already may still run
      throw;
    }
    finish(CL_SUCCESS, last, "clEnqueueNDRangeKernel", what_);
  });
}

// Each statement waits for the one before, so that the last one carries an error of any.
void Routine::enqueue(cl_command_queue queue, const Bound& bound, std::span<const std::int64_t> symbol_values,
                      OwnedEvent& before) {
  for (std::size_t i = 0; i < bound.step->body.symbols.size(); ++i) {
    const cl_long value = symbol_values[bound.step->body.symbols[i]];
    check(api().clSetKernelArg(bound.kernel.get(), bound.first_symbol + static_cast<cl_uint>(i), sizeof value,
                               &value),
          "clSetKernelArg", what_);
  }
  const std::size_t global = bound.step->work_items;
  const std::size_t local = device_.hardware().work_group_size;
  const cl_event waits = before.get();
  cl_event event = nullptr;
  check(api().clEnqueueNDRangeKernel(queue, bound.kernel.get(), 1, nullptr, &global, &local,
                                     waits == nullptr ? 0 : 1, waits == nullptr ? nullptr : &waits, &event),
        "clEnqueueNDRangeKernel", what_);
  before.reset(event);
}

}  // namespace ocl
