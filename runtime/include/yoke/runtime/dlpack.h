// SPDX-License-Identifier: Apache-2.0
// runtime/include/yoke/runtime/dlpack.h: shares tensors with other libraries through DLPack, without copies.
//
// The structures have the names and the layout of dlpack.h 1.0, in a namespace, so that a source can include both.
// Cast pointers between the two: reinterpret_cast<yoke::dlpack::DLManagedTensor*>(tensor). A Python capsule
// "dltensor" holds a DLManagedTensor, "dltensor_versioned" a DLManagedTensorVersioned.
#pragma once

#include <yoke/runtime/context.h>

#include <cstdint>
#include <string_view>

namespace yoke {
namespace dlpack {

enum DLDeviceType : std::int32_t {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,  // pinned host memory
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLCUDAManaged = 13
};

struct DLDevice {
  DLDeviceType device_type;
  std::int32_t device_id;  // the driver's number of the device; 0 for host memory
};

enum DLDataTypeCode : std::uint8_t { kDLInt = 0, kDLUInt = 1, kDLFloat = 2, kDLBfloat = 4, kDLBool = 6 };

struct DLDataType {
  std::uint8_t code;  // DLDataTypeCode
  std::uint8_t bits;  // of an element
  std::uint16_t lanes;
};

struct DLTensor {
  void* data;
  DLDevice device;
  std::int32_t ndim;
  DLDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null: compact, row by row
  std::uint64_t byte_offset;
};

struct DLManagedTensor {
  DLTensor dl_tensor;
  void* manager_ctx;
  void (*deleter)(DLManagedTensor* self);  // may be null
};

struct DLPackVersion {
  std::uint32_t major;
  std::uint32_t minor;
};

constexpr std::uint64_t kDLReadOnly = 1;  // DLPACK_FLAG_BITMASK_READ_ONLY

struct DLManagedTensorVersioned {
  DLPackVersion version;
  void* manager_ctx;
  void (*deleter)(DLManagedTensorVersioned* self);  // may be null
  std::uint64_t flags;
  DLTensor dl_tensor;
};

}  // namespace dlpack

// Returns a tensor in the same memory. It keeps the buffer alive until its deleter is called. Any thread may call the
// deleter, which waits as ~Buffer does. The runtime does not order the other library's work: wait for the tensor's
// stream before the library uses the memory, and for the library before the stream uses it again.
// Throws Error kInvalidArgument if the tensor's type is unknown or its view is too small for it; kUnimplemented if
// the backend does not report addresses (yoke.memory/1), or the device is neither a CPU nor a device of cuda or hip.
dlpack::DLManagedTensorVersioned* to_dlpack(const ContextTensor& tensor);
// The same for libraries that know only DLPack before 1.0.
dlpack::DLManagedTensor* to_dlpack_unversioned(const ContextTensor& tensor);

// Adds a tensor of another library to the context, in the same memory. The context's device must be able to use
// the memory in place: its own memory, or host memory, which devices of cuda and hip pin. The other library's work on
// the memory must have finished. A tensor with kDLReadOnly becomes a constant (Context::set_constant), unless the
// host runs out of memory at that point; do not copy to it.
// Ownership: the context's tensor owns *tensor and calls its deleter when the last user of the buffer is
// destroyed. If this throws, the caller keeps *tensor and the deleter is not called.
// Throws Error kInvalidArgument: null or malformed, an empty dimension, strides that are not compact row by row,
// memory of another device. kUnimplemented: a type or major version that yoke does not support, memory that
// the backend cannot import. kAlreadyExists: the context has a tensor of that name.
const ContextTensor& from_dlpack(Context& context, std::string_view name,
                                 dlpack::DLManagedTensorVersioned* tensor);
const ContextTensor& from_dlpack(Context& context, std::string_view name, dlpack::DLManagedTensor* tensor);

}  // namespace yoke
