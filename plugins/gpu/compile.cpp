// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/compile.cpp: calls the run-time compiler, loads modules, and explains compile errors.
#include "compile.h"

#include <yoke/program/text.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

namespace yoke::gpu {
namespace {

constexpr const char* kFileName = "yoke_kernels";

// The line number in "yoke_kernels(12): error: ..." or "yoke_kernels:12:5: error: ..."; 0: none.
std::size_t line_of(std::string_view log) {
  const std::size_t error = log.find("error");
  const std::size_t at = log.rfind(kFileName, error);
  if (error == std::string_view::npos || at == std::string_view::npos) {
    return 0;
  }
  const std::size_t digits = log.find_first_of("0123456789", at);
  std::size_t line = 0;
  if (digits != std::string_view::npos) {
    (void)std::from_chars(log.data() + digits, log.data() + log.size(), line);
  }
  return line;
}

// The kernel whose text includes the line; null: none.
const codegen::Kernel* kernel_at(const codegen::Plan& plan, std::size_t line) {
  std::size_t offset = 0;
  for (; line > 1 && offset != std::string::npos; --line) {
    offset = plan.source.find('\n', offset);
    offset += offset == std::string::npos ? 0 : 1;
  }
  if (offset == std::string::npos) {
    return nullptr;
  }
  const codegen::Kernel* found = nullptr;
  std::size_t found_at = 0;
  for (const codegen::Kernel& kernel : plan.kernels) {
    const std::size_t name = plan.source.find(" " + kernel.name + "(");
    const std::size_t end = plan.source.find('\n', offset);
    if (name != std::string::npos && name <= end && name >= found_at) {
      found = &kernel;
      found_at = name;
    }
  }
  return found;
}

// One program of the run-time compiler.
class Compilation {
 public:
  Compilation(const Compiler& compiler, const std::string& source) : compiler_(compiler) {
    check(compiler_.create.name, compiler_.create(&program_, source.c_str(), kFileName, 0, nullptr, nullptr));
  }
  ~Compilation() {
    if (program_ != nullptr) {
      (void)compiler_.destroy(&program_);
    }
  }
  Compilation(const Compilation&) = delete;
  Compilation& operator=(const Compilation&) = delete;

  int compile(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    texts.reserve(options.size());
    for (const std::string& option : options) {
      texts.push_back(option.c_str());
    }
    return compiler_.compile(program_, static_cast<int>(texts.size()), texts.data());
  }
  std::string log() {
    std::size_t size = 0;
    if (compiler_.log_size(program_, &size) != 0 || size == 0) {
      return {};
    }
    std::string text(size, '\0');
    if (compiler_.log(program_, text.data()) != 0) {
      return {};
    }
    text.resize(std::min(text.find('\0'), text.size()));
    text.resize(text.find_last_not_of(" \n") + 1);
    return text;
  }
  std::string code(const Vendor& vendor, bool is_portable) {
    std::size_t size = 0;
    if (is_portable) {
      std::string bytes;
      check("reading portable code", vendor.portable_code(program_, bytes));
      return bytes;
    }
    check(compiler_.code_size.name, compiler_.code_size(program_, &size));
    std::string bytes(size, '\0');
    check(compiler_.code.name, compiler_.code(program_, bytes.data()));
    return bytes;
  }

 private:
  static void check(const char* name, int code) {
    if (code != 0) {
      throw sdk::Failure(YOKE_STATUS_INTERNAL,
                         std::string(name) + " failed with error " + std::to_string(code), code);
    }
  }

  const Compiler& compiler_;
  void* program_ = nullptr;
};

std::string compile(Context& context, const program::Program& program, const codegen::Plan& plan,
                    const CodeRequest& request) {
  constexpr std::size_t kLongestLog = 2000;
  const codegen::Target& target = context.hardware().target;
  const Compiler& compiler = context.machine().library().compiler();
  // hiprtc takes one lock for all compilations, and is not known to be safe without it.
  static std::mutex one_at_a_time;
  std::unique_lock lock(one_at_a_time, std::defer_lock);
  if (target.dialect == codegen::Dialect::kHip) {
    lock.lock();
  }
  Compilation compilation(compiler, plan.source);
  const int code = compilation.compile(request.options);
  if (code == 0) {
    if (request.is_portable) {
      context.machine().host().log(YOKE_LOG_INFO, "code.portable program=" + program.name + " device=" +
                                                      target.architecture + " options=" + request.options[0]);
    }
    return compilation.code(context.vendor(), request.is_portable);
  }
  const std::string log = compilation.log().substr(0, kLongestLog);
  if (code == kInvalidOption) {
    throw sdk::Failure(YOKE_STATUS_FAILED_PRECONDITION,
                       std::string("the kernel compiler does not support ") + target.architecture + ": " +
                           log + "; " + context.vendor().facts().compiler_hint,
                       code);
  }
  throw sdk::Failure(YOKE_STATUS_INTERNAL,
                     place_of(program, plan, log) + ": " + compiler.compile.name + " rejects its kernel; " +
                         "this is a bug in the backend, so run the program on another one. The log: " + log,
                     code);
}

// Whether the driver cannot run the code, as opposed to any other failure of loading it.
bool is_refused_image(int code) {
  return code == kInvalidImage || code == kNoImageForDevice || code == kInvalidPtx || code == kUnsupportedPtx;
}

sdk::Failure too_new(const Context& context, int code, int major, int minor) {
  const Machine& machine = context.machine();
  const VendorFacts& facts = context.vendor().facts();
  return {YOKE_STATUS_FAILED_PRECONDITION,
          context.hardware().info.name + ": the driver, which supports " + facts.display + " " +
              version_text(facts, machine.driver_version()) + ", refuses the code of compiler " +
              std::to_string(major) + "." + std::to_string(minor) + ": " + context.vendor().error_text(code) +
              "; update the driver, or set " + facts.compiler_variable +
              " to a compiler that is not newer than the driver",
          code};
}

}  // namespace

std::string place_of(const program::Program& program, const codegen::Plan& plan, std::string_view log) {
  std::string text = "program '" + program.name + "'";
  const std::size_t line = line_of(log);
  const codegen::Kernel* kernel = line != 0 ? kernel_at(plan, line) : nullptr;
  if (kernel != nullptr && kernel->statement < program.statements.size()) {
    text += ", statement " + std::to_string(kernel->statement) + " '" +
            program::print(program, program.statements[kernel->statement]) + "'";
  }
  return text;
}

codegen::Target target_for(const Context& context, const PlanOptions& options) {
  codegen::Target target = context.hardware().target;
  target.atomics = options.atomics;
  target.fused_attention = options.fused_attention;
  target.wgmma = options.wgmma && target.dialect == codegen::Dialect::kCuda && target.capability == 90;
  return target;
}

codegen::Plan plan_for(Context& context, const program::Program& program, const PlanOptions& options) {
  const LibraryOptions& use = options.libraries;
  ProductChooser products(context.products(), use);
  ConvolutionChooser convolutions(context.convolutions(), use);
  AttentionChooser attentions(context.attentions());
  codegen::Libraries libraries;
  libraries.products = use.vendor ? &products : nullptr;
  libraries.convolutions = use.vendor && use.convolutions ? &convolutions : nullptr;
  libraries.attentions = use.vendor && use.attention ? &attentions : nullptr;
  return codegen::generate(program, target_for(context, options), libraries);
}

// NOLINTNEXTLINE(readability-function-size): a list of steps
Kernels::Kernels(std::shared_ptr<Context> context, const program::Program& program, const CodeCache& cache,
                 const PlanOptions& options)
    : context_(std::move(context)), plan_(plan_for(*context_, program, options)) {
  const codegen::Target target = target_for(*context_, options);
  Machine& machine = context_->machine();
  const std::string fault = context_->vendor().architecture_fault(target, machine.driver_version());
  if (!fault.empty()) {
    throw sdk::Failure(YOKE_STATUS_FAILED_PRECONDITION, fault);
  }
  std::string identity = machine.library().compiler_identity() + "\n";
  const CodeRequest request = context_->vendor().code_request(target);
  int major = 0;
  int minor = 0;
  (void)machine.library().compiler().version(&major, &minor);
  identity += std::to_string(major) + "." + std::to_string(minor) + "\n";
  for (const std::string& option : request.options) {
    identity += option + "\n";
  }
  key_ = program::digest(identity + plan_.source);
  std::string identities;
  for (const codegen::Launch& launch : plan_.launches) {
    const LibraryOptions& use = options.libraries;
    calls_.push_back(launch.product       ? context_->products().plan(*launch.product, use)
                     : launch.convolution ? context_->convolutions().plan(*launch.convolution, use)
                     : launch.attention   ? context_->attentions().plan(*launch.attention)
                                          : nullptr);
    if (launch.is_library_call() && calls_.back() == nullptr) {
      throw sdk::Failure(YOKE_STATUS_UNAVAILABLE, "a library no longer plans what it planned before");
    }
    identities += calls_.back() != nullptr ? calls_.back()->identity + "\n" : "";
  }
  std::string full_key = identities.empty() ? key_ : program::digest(key_ + "\n" + identities);

  image_ = machine.image(key_);
  const Current current = context_->enter();
  {
    const std::lock_guard lock(image_->mutex);
    bool is_stored = false;
    if (image_->bytes.empty()) {
      std::optional<std::string> stored = cache.find(key_);
      is_stored = stored.has_value();
      image_->bytes = is_stored ? std::move(*stored) : compile(*context_, program, plan_, request);
      if (!is_stored) {
        cache.store(key_, image_->bytes);
      }
    }
    int code = load(image_->bytes);
    if (is_stored && is_refused_image(code)) {
      // A different driver may have stored it: compile it again, once.
      cache.remove(key_);
      image_->bytes = compile(*context_, program, plan_, request);
      cache.store(key_, image_->bytes);
      code = load(image_->bytes);
    }
    if (is_refused_image(code)) {
      throw too_new(*context_, code, major, minor);
    }
    context_->check(context_->driver().module_load.name, code);
  }
  try {
    for (const codegen::Kernel& kernel : plan_.kernels) {
      context_->call(context_->driver().module_function, &functions_.emplace_back(), module_,
                     kernel.name.c_str());
      if (kernel.dynamic_shared_bytes != 0) {
        context_->check("allowing dynamic shared memory",
                        context_->vendor().allow_shared(functions_.back(), kernel.dynamic_shared_bytes));
      }
    }
  } catch (...) {
    (void)context_->driver().module_unload(module_);
    throw;
  }
  plan_.source = {};
  key_ = std::move(full_key);
}

int Kernels::load(const std::string& bytes) {
  return context_->driver().module_load(&module_, static_cast<const void*>(bytes.data()));
}

Kernels::~Kernels() {
  if (const Current current = context_->try_enter()) {
    (void)context_->driver().module_unload(module_);
  }
}

}  // namespace yoke::gpu
