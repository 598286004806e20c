// SPDX-License-Identifier: Apache-2.0
// plugins/gpu/driver.h: the functions of a GPU driver and of its run-time compiler, and what differs between
// vendors.
#pragma once

#include <yoke/sdk/failure.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codegen.h"

namespace yoke::gpu {

using Address = unsigned long long;  // CUdeviceptr; a pointer in HIP, which is passed the same way

// A function of a library, with its name for messages.
template <class Signature>
struct Function;
template <class... P>
struct Function<int(P...)> {
  int (*address)(P...) = nullptr;
  const char* name = "";

  int operator()(P... arguments) const { return address(arguments...); }
};

struct Driver {
#define YOKE_DRIVER(member, parameters, cuda, hip) Function<int parameters> member;
#include "driver.def"
};

struct Compiler {
#define YOKE_COMPILER(member, parameters, nvrtc, hiprtc) Function<int parameters> member;
#include "driver.def"
};

struct Blas {
#define YOKE_BLAS(member, parameters, cublaslt, hipblaslt) Function<int parameters> member;
#include "driver.def"
};

struct Dnn {
#define YOKE_DNN(member, parameters, cudnn, miopen) Function<int parameters> member;
#define YOKE_CUDNN(member, parameters, name) Function<int parameters> member;
#define YOKE_MIOPEN(member, parameters, name) Function<int parameters> member;
#include "driver.def"
};

// ncclUniqueId, which is passed by value.
struct CommId {
  char bytes[128];
};
struct Comm {
#define YOKE_COMM(member, parameters, function) Function<int parameters> member;
#include "driver.def"
};
inline constexpr int kOldestComm = 21400;  // the first release of NCCL with non-blocking communicators
// The oldest layout of ncclConfig_t, which newer releases accept.
struct CommConfig {
  std::size_t size = sizeof(CommConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = kOldestComm;
  int blocking = 0;
};
inline constexpr int kCommInProgress = 7;

// Error numbers that CUDA and HIP share.
inline constexpr int kInvalidValue = 1;
inline constexpr int kOutOfMemory = 2;
inline constexpr int kDeviceUnavailable = 46;
inline constexpr int kNoDevice = 100;
inline constexpr int kInvalidDevice = 101;
inline constexpr int kInvalidImage = 200;
inline constexpr int kNoImageForDevice = 209;
inline constexpr int kInvalidPtx = 218;
inline constexpr int kUnsupportedPtx = 222;
inline constexpr int kNotReady = 600;
inline constexpr int kPeerAlreadyEnabled = 704;
inline constexpr int kAlreadyRegistered = 712;
inline constexpr int kNotSupported = 801;
inline constexpr int kCaptureUnsupported = 900;
inline constexpr int kInvalidOption = 5;  // of the run-time compilers
// Whether every later call for the device fails.
bool is_sticky(int code);

inline constexpr unsigned kNonBlockingStream = 1;
inline constexpr unsigned kEventWithoutTiming = 2;
inline constexpr unsigned kPortableHostMemory = 1;
inline constexpr unsigned kMappedHostMemory = 2;
inline constexpr int kCaptureOfThread = 1;

// The primary context of one device.
struct Peer {
  void* context = nullptr;
  int device = 0;
};

// Numbers that cublasLt and hipBLASLt share.
inline constexpr int kBlasF32 = 0;
inline constexpr int kBlasF16 = 2;
inline constexpr int kBlasBF16 = 14;
inline constexpr std::uint32_t kBlasRelu = 2;  // epilogues; 1 without any, else the sum of these
inline constexpr std::uint32_t kBlasBias = 4;
inline constexpr int kBlasMaxWorkspace = 1;  // a preference
// The size of a result of the search for an algorithm, in 8-byte words; no library's result is larger.
inline constexpr std::size_t kBlasResultWords = 16;
// Only for cublasLt: sums have one part, or f32 parts that a second step adds.
inline constexpr std::uint32_t kBlasFixedOrder = 2;

struct LibraryFacts {
  const char* name;  // for display: "cublasLt"
  const char* version_function;
  const char* variable;
  std::vector<const char*> files;  // in the order in which they are tried
  int oldest;                      // 13.2 is 13 * major_unit + 2 * minor_unit
  int major_unit;
  int minor_unit;
};

// Numbers of the library of matrix products in which the vendors differ.
struct BlasFacts {
  LibraryFacts library;
  int compute_f32;
  int compute_tf32;
  std::int32_t plain;  // operations
  std::int32_t transposed;
  int transpose_a;  // attributes of a product
  int transpose_b;
  int epilogue;
  int bias_pointer;
  int bias_type;
  int batch_count;  // attributes of a layout
  int batch_stride;
  int reduction_schemes;        // preferences; -1: the library lacks it
  int alignment;                // of a; those of b, c and d follow
  int not_supported;            // the status for a product that the library does not support
  std::size_t algorithm_bytes;  // of a heuristic result, before the size of its workspace
};

// Numbers of the library of convolutions in which the vendors differ.
struct DnnFacts {
  LibraryFacts library;
  int f32;
  int f16;
  int bf16;
  bool takes_gradient_first;  // the factors are dy and w, dy and x, or w and x; else in the reverse order
  bool may_accumulate;
  int oldest_for_attention;  // the oldest version that computes attention
};
// The most results of a search, and the size of the largest one in 8-byte words.
inline constexpr std::size_t kDnnResults = 16;
inline constexpr std::size_t kDnnResultWords = 6;

// A convolution in the terms of a library of convolutions.
struct DnnCall {
  void* handle = nullptr;
  codegen::ConvolutionKind kind = codegen::ConvolutionKind::kForward;
  void* convolution = nullptr;
  std::array<void*, 3> tensors = {};  // the factors in the library's order, then the result
  std::array<Address, 3> data = {};
  std::uint64_t algorithm = 0;
  Address workspace = 0;
  std::size_t workspace_bytes = 0;
  bool accumulates = false;
};
// One of three functions that differ in what they compute.
template <class F>
const F& of_kind(codegen::ConvolutionKind kind, const F& forward, const F& input, const F& filter) {
  return kind == codegen::ConvolutionKind::kForward         ? forward
         : kind == codegen::ConvolutionKind::kInputGradient ? input
                                                            : filter;
}

// The first library function that failed, and its error number; 0: no function failed.
struct DnnFault {
  const char* name = "";
  int code = 0;
};

// Plans that need a larger workspace are not used.
inline constexpr std::uint64_t kLargestDnnWorkspace = std::uint64_t{256} << 20U;

// Attention that is bound to memory.
class BoundAttention {
 public:
  virtual ~BoundAttention() = default;
  virtual DnnFault launch(void* handle) const = 0;

 protected:
  BoundAttention() = default;
  BoundAttention(const BoundAttention&) = delete;
  BoundAttention& operator=(const BoundAttention&) = delete;
};

// Attention with a plan of the library.
class AttentionPlan {
 public:
  virtual ~AttentionPlan() = default;
  AttentionPlan(const AttentionPlan&) = delete;
  AttentionPlan& operator=(const AttentionPlan&) = delete;
  // `data` are the addresses of the volumes' first elements, then of the statistics if there are any.
  virtual std::unique_ptr<BoundAttention> bind(std::span<const Address> data, Address workspace,
                                               DnnFault& fault) const = 0;

  std::uint64_t workspace_byte_count = 0;
  std::string identity;  // of the algorithm

 protected:
  AttentionPlan() = default;
};

// The library of collectives.
struct CommFacts {
  const char* name;  // for display: "NCCL"
  const char* variable;
  std::vector<const char*> files;  // in the order in which they are tried
};

// Names and numbers of a vendor. The texts are parts of messages.
struct VendorFacts {
  const char* name;     // of the backend: "cuda"
  const char* display;  // "CUDA"
  codegen::Dialect dialect;
  const char* driver_variable;
  const char* compiler_variable;
  std::vector<const char*> driver_files;    // in the order in which they are tried
  std::vector<const char*> compiler_files;  // empty: only the driver's file
  std::vector<const char*> visible_variables;
  std::vector<const char*> nodes;
  const char* driver_hint;
  const char* permission_hint;
  const char* compiler_hint;
  const char* identify_function;  // what Vendor::identify and launch_host call, for messages
  const char* host_function;
  int oldest_driver;  // 13.2 is 13 * major_unit + 2 * minor_unit
  int major_unit;
  int minor_unit;
  // Attributes of devices.
  int multiprocessor_count;
  int warp_size;
  int threads_per_block;
  int shared_bytes_per_block;
  BlasFacts blas;
  DnnFacts dnn;
  CommFacts comm;
};

std::string version_text(const VendorFacts& facts, int version);  // "13.2"

using Lookup = void* (*)(void* library, const char* name);

// A pointer to a function that is looked up by name.
struct Binding {
  const char* name;
  void* pointer;
  template <class R, class... P>
  Binding(const char* function, R (**address)(P...)) : name(function), pointer(static_cast<void*>(address)) {}
};
// Looks up all functions. Returns the name of the first that is missing, or null.
const char* bind_all(Lookup lookup, void* library, std::initializer_list<Binding> functions);

// What to request from the run-time compiler.
struct CodeRequest {
  std::vector<std::string> options;
  bool is_portable = false;  // code that the driver translates for the device
};

// A host function for a stream to call.
struct HostCall {
  void (*function)(void*);
  void* user;
};

// What differs between vendors in more than names. One object per loaded driver.
class Vendor {
 public:
  virtual ~Vendor() = default;
  virtual const VendorFacts& facts() const = 0;
  // Looks up the functions that driver.def lists at its end. Returns the name of a missing one, or null.
  virtual const char* bind(Lookup lookup, void* library) = 0;
  // Looks up functions of the run-time compiler that not every release has.
  virtual void bind_compiler(Lookup, void*) {}
  virtual std::string error_text(int code) const = 0;  // "CUDA_ERROR_INVALID_VALUE (invalid argument)"
  // Sets target.dialect, capability and architecture.
  virtual int identify(const Driver& driver, int device, codegen::Target& target) const = 0;
  // Why the compiler of this version supports no such device; empty if it may support it.
  virtual std::string architecture_fault(const codegen::Target& target, int driver_version) const = 0;
  // Precondition: the compiler is open.
  virtual CodeRequest code_request(const codegen::Target& target) const = 0;
  // The portable code of a compiled program. Returns an error number of the compiler.
  virtual int portable_code(void*, std::string&) const { return kNotSupported; }
  // Lets launches of a kernel of the current context use this much dynamic shared memory, even if it is more than
  // target.shared_bytes together with what the kernel declares. HIP needs no permission.
  virtual int allow_shared(void*, std::uint32_t) const { return 0; }
  // Calls call.function(call.user) when all earlier work of the stream is done; reads `call` then. Even if
  // the result is a sticky error, which can be that of earlier work, the driver may have queued the call.
  virtual int launch_host(void* stream, HostCall& call) const = 0;
  // Forgets the error of the thread's last call, which other libraries may ask for. CUDA's driver keeps none.
  virtual void forget_error() const {}
  // Lets kernels of the current context access memory of `other`.
  virtual int enable_peer(Peer other) const = 0;
  // Sets the version of the open library of matrix products. Returns 0 or an error number of the library.
  virtual int blas_version(Lookup lookup, void* library, void* handle, int& version) const = 0;

  // Of the library of convolutions. Functions that return int return 0 or an error number of the library.
  virtual int dnn_version(const Dnn& dnn, int& version) const = 0;
  virtual int set_filters(const Dnn& dnn, void* filters, int type, const codegen::Volume& volume) const = 0;
  virtual int set_convolution(const Dnn& dnn, void* object, const codegen::LibraryConvolution& convolution,
                              bool tf32) const = 0;
  // The algorithms among the results of a search that always add in the same order and in f32, and whose rounding
  // errors do not spread to other elements, best first.
  virtual std::vector<std::uint64_t> algorithms(const codegen::LibraryConvolution& convolution,
                                                const std::uint64_t* results, std::size_t count) const = 0;
  // Does what a launch must not do, such as compiling kernels.
  virtual int prepare(const Dnn&, const DnnCall&) const { return 0; }
  // Launches it. Sets the name of the function that it calls.
  virtual int convolve(const Dnn& dnn, const DnnCall& call, const char*& name) const = 0;
  virtual bool is_unsupported(int code) const = 0;  // as opposed to a failure
  // Plans attention whose results are the same in each run. Returns null if the library does not compute it, or with
  // the fault of a function that failed.
  virtual std::unique_ptr<AttentionPlan> plan_attention(const Dnn&, void* /*handle*/, const codegen::Target&,
                                                        const codegen::LibraryAttention&, DnnFault&) const {
    return nullptr;
  }

  virtual int copy_peer(Address target, Peer to, Address source, Peer from, std::size_t byte_count,
                        void* stream) const = 0;

 protected:
  Vendor() = default;
  Vendor(const Vendor&) = delete;
  Vendor& operator=(const Vendor&) = delete;
};

// The failure of a call that returned `code`. `name` is the function's name in the vendor's library.
sdk::Failure failure_of(const Vendor& vendor, const char* name, int code, bool is_loss);
inline sdk::Failure failure_of(const Vendor& vendor, const char* name, int code) {
  return failure_of(vendor, name, code, is_sticky(code));
}

}  // namespace yoke::gpu
