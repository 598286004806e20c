// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/dlpack.cpp: tensors as DLPack structures, and back.
#include <yoke/runtime/counted.h>
#include <yoke/runtime/dlpack.h>

#include <algorithm>
#include <iterator>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace yoke {

namespace {

using dlpack::DLDataType;
using dlpack::DLDevice;
using dlpack::DLTensor;

struct DlpackType {
  std::int32_t type;
  DLDataType as;
};

constexpr DlpackType kDlpackTypes[] = {
    {YOKE_TYPE_F64, {dlpack::kDLFloat, 64, 1}}, {YOKE_TYPE_F32, {dlpack::kDLFloat, 32, 1}},
    {YOKE_TYPE_F16, {dlpack::kDLFloat, 16, 1}}, {YOKE_TYPE_BF16, {dlpack::kDLBfloat, 16, 1}},
    {YOKE_TYPE_I64, {dlpack::kDLInt, 64, 1}},   {YOKE_TYPE_I32, {dlpack::kDLInt, 32, 1}},
    {YOKE_TYPE_U32, {dlpack::kDLUInt, 32, 1}},  {YOKE_TYPE_U8, {dlpack::kDLUInt, 8, 1}},
    {YOKE_TYPE_BOOL, {dlpack::kDLBool, 8, 1}},
};

[[noreturn]] void refuse_tensor(ErrorCode code, const std::string& what, const std::string& reason) {
  throw Error(code, what + ": " + reason);
}

template <class T>
std::string list_text(const std::vector<T>& values) {
  std::string text;
  for (const T& value : values) {
    text += (text.empty() ? "" : ", ") + std::to_string(value);
  }
  return "[" + text + "]";
}

std::vector<std::int64_t> compact_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) {
    strides[i - 1] = strides[i] * shape[i];
  }
  return strides;
}

// The device in DLPack's words; nothing if it has none.
std::optional<DLDevice> dlpack_device(const Device& device) {
  std::string api;
  std::uint64_t handle = 0;
  try {
    const NativeHandle native = device.native();
    api = native.api;
    handle = native.handle;
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kUnimplemented) {
      throw;
    }
  }
  if (api == "cuda" || api == "hip") {  // CUdevice and hipDevice_t are the numbers of devices
    return DLDevice{api == "cuda" ? dlpack::kDLCUDA : dlpack::kDLROCM, static_cast<std::int32_t>(handle)};
  }
  return device.info().host_visible ? std::optional(DLDevice{dlpack::kDLCPU, 0}) : std::nullopt;
}

std::string device_text(const DLDevice& device) {
  const std::string number = ":" + std::to_string(device.device_id);
  switch (device.device_type) {
    case dlpack::kDLCPU:
      return "cpu";
    case dlpack::kDLCUDA:
      return "cuda" + number;
    case dlpack::kDLROCM:
      return "hip" + number;
    default:
      return "a device of DLPack's type " + std::to_string(static_cast<std::int32_t>(device.device_type)) +
             number;
  }
}

// A tensor that another library uses, and what it needs.
template <class Managed>
struct SharedTensor {
  Managed managed = {};
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  std::shared_ptr<Buffer> buffer;
};

template <class Managed>
Managed* share_memory(const ContextTensor& tensor, const char* call) {
  const auto type = std::find_if(std::begin(kDlpackTypes), std::end(kDlpackTypes),
                                 [&](const DlpackType& one) { return one.type == tensor.spec.type; });
  if (type == std::end(kDlpackTypes)) {
    refuse_tensor(ErrorCode::kInvalidArgument, call,
                  "type " + std::to_string(tensor.spec.type) + " is unknown");
  }
  const BufferView& view = tensor.view;
  if (view.buffer == nullptr) {
    refuse_tensor(ErrorCode::kInvalidArgument, call, "the tensor has no buffer");
  }
  const std::uint64_t byte_count = tensor.spec.byte_count();
  const std::uint64_t size = view.buffer->byte_count();
  if (byte_count == 0 || view.byte_count < byte_count || view.offset > size ||
      size - view.offset < byte_count) {
    refuse_tensor(ErrorCode::kInvalidArgument, call,
                  "the tensor has " + detail::counted(byte_count, "byte") + ", its view " +
                      std::to_string(view.byte_count) + " at offset " + std::to_string(view.offset) + " of " +
                      std::to_string(size));
  }
  const Device& on = *view.buffer->device();
  const std::optional<DLDevice> device = dlpack_device(on);
  if (!device) {
    refuse_tensor(ErrorCode::kUnimplemented, call, "DLPack has no name for the device '" + on.name() + "'");
  }
  auto owner = std::make_unique<SharedTensor<Managed>>();
  owner->shape.assign(tensor.spec.dims.begin(), tensor.spec.dims.end());
  owner->strides = compact_strides(owner->shape);
  owner->buffer = view.buffer;
  DLTensor& to = owner->managed.dl_tensor;
  // The offset is part of the address, because some libraries ignore `byte_offset`.
  const auto address = static_cast<std::uintptr_t>(view.buffer->device_address() + view.offset);
  to.data = reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  to.device = *device;
  to.ndim = static_cast<std::int32_t>(owner->shape.size());
  to.dtype = type->as;
  to.shape = owner->shape.data();
  to.strides = owner->strides.data();
  owner->managed.manager_ctx = owner.get();
  owner->managed.deleter = [](Managed* self) {
    delete static_cast<SharedTensor<Managed>*>(self->manager_ctx);
  };
  return &owner.release()->managed;
}

TensorSpec checked_spec(const DLTensor& from, const std::string& what) {
  if (from.ndim < 0 || (from.ndim > 0 && from.shape == nullptr)) {
    refuse_tensor(ErrorCode::kInvalidArgument, what,
                  "it has " + detail::counted(from.ndim, "dimension") + " and no shape");
  }
  const std::vector<std::int64_t> shape(from.shape, from.shape + from.ndim);
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t dim) { return dim <= 0; })) {
    refuse_tensor(ErrorCode::kInvalidArgument, what,
                  "its shape is " + list_text(shape) + "; each dimension must be at least 1");
  }
  const auto type =
      std::find_if(std::begin(kDlpackTypes), std::end(kDlpackTypes), [&](const DlpackType& one) {
        return one.as.code == from.dtype.code && one.as.bits == from.dtype.bits && from.dtype.lanes == 1;
      });
  if (type == std::end(kDlpackTypes)) {
    refuse_tensor(ErrorCode::kUnimplemented, what,
                  "its elements have DLPack's type code " + std::to_string(from.dtype.code) + ", " +
                      detail::counted(from.dtype.bits, "bit") + " and " +
                      detail::counted(from.dtype.lanes, "lane") + ", which yoke lacks");
  }
  TensorSpec spec = {type->type, {shape.begin(), shape.end()}};
  (void)spec.byte_count();  // throws if it is too large, before the strides could overflow
  const std::vector<std::int64_t> compact = compact_strides(shape);
  for (std::size_t i = 0; from.strides != nullptr && i < shape.size(); ++i) {
    if (shape[i] > 1 && from.strides[i] != compact[i]) {
      refuse_tensor(ErrorCode::kInvalidArgument, what,
                    "its strides are " + list_text(std::vector(from.strides, from.strides + from.ndim)) +
                        ", not " + list_text(compact) + " as for a compact tensor; copy it first");
    }
  }
  return spec;
}

// How `device` imports the memory of a tensor.
std::int32_t memory_kind(const DLTensor& from, const Device& device, const std::string& what) {
  const std::optional<DLDevice> own = dlpack_device(device);
  const std::int32_t type = from.device.device_type;
  if (type == dlpack::kDLCPU || type == dlpack::kDLCUDAHost || type == dlpack::kDLROCMHost) {
    return YOKE_MEMORY_HOST;
  }
  const bool is_own = own && ((own->device_type == type && own->device_id == from.device.device_id) ||
                              (own->device_type == dlpack::kDLCUDA && type == dlpack::kDLCUDAManaged));
  if (!is_own) {
    refuse_tensor(ErrorCode::kInvalidArgument, what,
                  "its memory is on " + device_text(from.device) + ", and the context's device is '" +
                      device.name() + "'; copy it to that device first");
  }
  return YOKE_MEMORY_DEVICE;
}

template <class Managed>
const ContextTensor& adopt_managed(Context& context, std::string_view name, Managed* managed,
                                   bool is_constant) {
  const std::string what = "from_dlpack: tensor '" + std::string(name) + "'";
  const DLTensor& from = managed->dl_tensor;
  const TensorSpec spec = checked_spec(from, what);
  if (from.data == nullptr) {
    refuse_tensor(ErrorCode::kInvalidArgument, what, "its data pointer is null");
  }
  const std::shared_ptr<Device>& device = context.stream()->device();
  const auto is_accepted = std::make_shared<bool>(false);
  const auto release = [managed, is_accepted] {
    if (*is_accepted && managed->deleter != nullptr) {
      managed->deleter(managed);
    }
  };
  const auto buffer =
      Buffer::import(device, {.address = reinterpret_cast<std::uintptr_t>(from.data) + from.byte_offset,
                              .byte_count = spec.byte_count(),
                              .kind = memory_kind(from, *device, what),
                              .release = release});
  const ContextTensor& adopted = context.adopt(name, spec, {buffer, 0, spec.byte_count()});
  *is_accepted = true;  // from here on, the context owns it
  try {
    if (is_constant) {
      context.set_constant(name);
    }
  } catch (const std::bad_alloc&) {  // an error would say that the caller keeps the tensor
  }
  return adopted;
}

void check_present(const void* tensor, std::string_view name) {
  if (tensor == nullptr) {
    refuse_tensor(ErrorCode::kInvalidArgument, "from_dlpack: tensor '" + std::string(name) + "'",
                  "it is null");
  }
}

}  // namespace

dlpack::DLManagedTensorVersioned* to_dlpack(const ContextTensor& tensor) {
  auto* const shared = share_memory<dlpack::DLManagedTensorVersioned>(tensor, "to_dlpack");
  shared->version = {1, 0};
  return shared;
}

dlpack::DLManagedTensor* to_dlpack_unversioned(const ContextTensor& tensor) {
  return share_memory<dlpack::DLManagedTensor>(tensor, "to_dlpack_unversioned");
}

const ContextTensor& from_dlpack(Context& context, std::string_view name,
                                 dlpack::DLManagedTensorVersioned* tensor) {
  check_present(tensor, name);
  if (tensor->version.major != 1) {  // other versions may have another layout
    refuse_tensor(ErrorCode::kUnimplemented, "from_dlpack: tensor '" + std::string(name) + "'",
                  "it has version " + std::to_string(tensor->version.major) + "." +
                      std::to_string(tensor->version.minor) + " of DLPack; yoke reads 1.x");
  }
  return adopt_managed(context, name, tensor, (tensor->flags & dlpack::kDLReadOnly) != 0);
}

const ContextTensor& from_dlpack(Context& context, std::string_view name, dlpack::DLManagedTensor* tensor) {
  check_present(tensor, name);
  return adopt_managed(context, name, tensor, false);
}

}  // namespace yoke
