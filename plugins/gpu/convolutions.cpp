// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/convolutions.cpp: asks the vendor's library for algorithms, and launches its convolutions.
#include "convolutions.h"

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "context.h"

namespace yoke::gpu {

using codegen::LibraryConvolution;
using codegen::Volume;

// A convolution with its algorithm.
class PlannedConvolution final : public PlannedCall {
 public:
  explicit PlannedConvolution(Convolutions& owner)
      : PlannedCall(owner),
        convolutions(owner),
        object(owner.dnn().convolution_destroy),
        volumes{LibraryObject(owner.dnn().tensor_destroy), LibraryObject(owner.dnn().filters_destroy),
                LibraryObject(owner.dnn().tensor_destroy)} {}
  std::unique_ptr<LinkedCall> link(const codegen::Launch& launch, std::span<const Address> addresses,
                                   void* handle) const override;

  const Convolutions& convolutions;
  LibraryObject object;
  std::array<LibraryObject, 3> volumes;   // x, w, y
  std::array<std::size_t, 3> order = {};  // of the volumes in a call
  DnnCall call;                           // without handle and addresses
};

namespace {

std::string text_of(const LibraryConvolution& convolution, bool tf32) {
  std::string text =
      std::to_string(static_cast<int>(convolution.kind)) + " " + program::type_name(convolution.type).data();
  const auto add = [&](const auto& numbers) {
    for (const std::uint64_t number : numbers) {
      text += "," + std::to_string(number);
    }
  };
  for (const Volume& volume : convolution.volumes) {
    add(volume.dims);
    text += "/";
    add(volume.strides);
  }
  text += " groups " + std::to_string(convolution.groups) + " windows";
  add(convolution.stride);
  add(convolution.dilation);
  add(convolution.padding);
  return text + (convolution.accumulates ? " accumulates" : "") + (tf32 ? " tf32" : "");
}

// A convolution that is bound to memory.
class LinkedConvolution final : public LinkedCall {
 public:
  LinkedConvolution(const PlannedConvolution& planned, const DnnCall& call)
      : planned_(planned), call_(call) {}
  void launch(void* stream) const override {
    const Convolutions& convolutions = planned_.convolutions;
    const Dnn& dnn = convolutions.dnn();
    convolutions.check_launch(dnn.set_stream.name, dnn.set_stream(call_.handle, stream));
    const char* name = "";
    const int code = convolutions.vendor().convolve(dnn, call_, name);
    convolutions.check_launch(name, code);
  }

 private:
  const PlannedConvolution& planned_;
  DnnCall call_;
};

// The libraries take sizes as int.
bool fits_int(const LibraryConvolution& convolution) {
  const auto fits = [](const auto& numbers) {
    return std::all_of(numbers.begin(), numbers.end(),
                       [](std::uint64_t number) { return number <= std::numeric_limits<int>::max(); });
  };
  return fits(convolution.stride) && fits(convolution.dilation) && fits(convolution.padding) &&
         std::all_of(convolution.volumes.begin(), convolution.volumes.end(),
                     [&](const Volume& volume) { return fits(volume.dims) && fits(volume.strides); });
}

int set_tensor(const Dnn& dnn, void* tensor, int type, const Volume& volume) {
  const auto dim = [&](std::size_t i) { return static_cast<int>(volume.dims[i]); };
  const auto stride = [&](std::size_t i) { return static_cast<int>(volume.strides[i]); };
  return dnn.tensor_set(tensor, type, dim(0), dim(1), dim(2), dim(3), stride(0), stride(1), stride(2),
                        stride(3));
}

}  // namespace

std::unique_ptr<LinkedCall> PlannedConvolution::link(const codegen::Launch& launch,
                                                     std::span<const Address> addresses, void* handle) const {
  DnnCall linked = call;
  linked.handle = handle;
  for (std::size_t i = 0; i < 3; ++i) {
    const Volume& volume = launch.convolution->volumes[order[i]];
    linked.data[i] = addresses[order[i]] + volume.offset * program::byte_size(launch.convolution->type);
  }
  // What a launch needs may be kept with the handle.
  library.check("preparing a convolution", library.vendor().prepare(convolutions.dnn(), linked));
  linked.workspace = workspace_byte_count != 0 ? addresses.back() : Address{0};
  return std::make_unique<LinkedConvolution>(*this, linked);
}

Convolutions::Convolutions(Context& context)
    : DnnLibrary(context, context.vendor().facts().dnn.library, "convolution", "vendor_convolution") {}

const DnnFacts& Convolutions::facts() const noexcept {
  return vendor().facts().dnn;
}

bool Convolutions::is_supported(const char* name, int code) const {
  if (code != 0 && !vendor().is_unsupported(code)) {
    check(name, code);
  }
  return code == 0;
}

// Makes the library's objects. Returns false if it does not support the convolution.
bool Convolutions::describe(const LibraryConvolution& convolution, bool tf32,
                            PlannedConvolution& planned) const {
  const Dnn& dnn = this->dnn();
  const int type = convolution.type == program::Type::kF32   ? facts().f32
                   : convolution.type == program::Type::kF16 ? facts().f16
                                                             : facts().bf16;
  for (std::size_t i = 0; i < 3; ++i) {
    const Volume& volume = convolution.volumes[i];
    const bool is_filters = i == 1;
    void*& object = planned.volumes[i].handle;
    const auto& create = is_filters ? dnn.filters_create : dnn.tensor_create;
    check(create.name, create(&object));
    if (!is_supported("describing a tensor", is_filters ? vendor().set_filters(dnn, object, type, volume)
                                                        : set_tensor(dnn, object, type, volume))) {
      return false;
    }
  }
  void*& object = planned.object.handle;
  check(dnn.convolution_create.name, dnn.convolution_create(&object));
  if (!is_supported("describing a convolution", vendor().set_convolution(dnn, object, convolution, tf32)) ||
      !is_supported(dnn.convolution_groups.name,
                    dnn.convolution_groups(object, static_cast<int>(convolution.groups)))) {
    return false;
  }
  constexpr std::array<std::size_t, 3> kOrders[] = {{0, 1, 2}, {1, 2, 0}, {0, 2, 1}};
  planned.order = kOrders[static_cast<std::size_t>(convolution.kind)];
  if (facts().takes_gradient_first) {
    std::swap(planned.order[0], planned.order[1]);
  }
  planned.call.kind = convolution.kind;
  planned.call.convolution = object;
  planned.call.accumulates = convolution.accumulates;
  for (std::size_t i = 0; i < 3; ++i) {
    planned.call.tensors[i] = planned.volumes[planned.order[i]].handle;
  }
  return true;
}

// Returns false if no algorithm fits.
bool Convolutions::find_algorithm(const LibraryConvolution& convolution, PlannedConvolution& planned) {
  const Dnn& dnn = this->dnn();
  DnnCall& call = planned.call;
  const Handle handle = take_handle();
  call.handle = handle.get();
  std::array<std::uint64_t, kDnnResults* kDnnResultWords> results = {};
  std::size_t count = 0;
  const auto& find = of_kind(call.kind, dnn.forward_find, dnn.input_find, dnn.filter_find);
  if (!is_supported(find.name, find(call.handle, call.tensors[0], call.tensors[1], call.convolution,
                                    call.tensors[2], kDnnResults, &count, results.data()))) {
    return false;
  }
  const auto& size = of_kind(call.kind, dnn.forward_workspace, dnn.input_workspace, dnn.filter_workspace);
  for (const std::uint64_t algorithm : vendor().algorithms(convolution, results.data(), count)) {
    call.algorithm = algorithm;
    if (is_supported(size.name, size(call.handle, call.tensors[0], call.tensors[1], call.convolution,
                                     call.tensors[2], algorithm, &call.workspace_bytes)) &&
        call.workspace_bytes <= kLargestDnnWorkspace &&
        is_supported("preparing a convolution", vendor().prepare(dnn, call))) {
      planned.workspace_byte_count = call.workspace_bytes;
      planned.identity = " algorithm " + std::to_string(algorithm);
      return true;
    }
  }
  return false;
}

DeviceLibrary::Planned Convolutions::plan(const LibraryConvolution& convolution,
                                          const LibraryOptions& options) {
  const bool tf32 = options.tf32 && convolution.type == program::Type::kF32;
  return DeviceLibrary::plan(text_of(convolution, tf32), [&]() -> std::shared_ptr<PlannedCall> {
    if ((convolution.accumulates && !facts().may_accumulate) || !fits_int(convolution)) {
      return nullptr;
    }
    auto made = std::make_shared<PlannedConvolution>(*this);
    const Current current = context().enter();
    return describe(convolution, tf32, *made) && find_algorithm(convolution, *made) ? made : nullptr;
  });
}

std::optional<std::uint64_t> ConvolutionChooser::workspace_for(const LibraryConvolution& convolution) {
  const auto planned = convolutions_.plan(convolution, options_);
  return planned != nullptr ? std::optional(planned->workspace_byte_count) : std::nullopt;
}

}  // namespace yoke::gpu
