// SPDX-License-Identifier: Apache-2.0
// tests/mutant/handmade/sets_10.h: the bugs of the last set, a sentence each, with their sources.
#pragma once

#include "sets_9.h"

namespace yoke::handmade {

// Set 10: real bugs of comparable projects, transplanted. Their public issue trackers were searched by topic:
// reductions, strided copies, asynchronous copies, events, priorities, memory pools, cache keys, tails, large
// indices, NaN, casts, ties, scatters, shutdown, staging, errors, current devices, memory counts, fills, timeouts,
// thread pools, leaks, axes. Each report was taken in the order in which the searches listed it, until there were
// 40, if its mechanism is known, can exist here and breaks a rule, however easy or hard it is to find. A bug keeps
// the condition of its original. The comments give the rule that each breaks, and the report.
inline constexpr BugRow kSet10[] = {
    // the files of this folder
    {"back_to_back",
     "the next element's long reduction overwrites the parts of the last one before they are combined"},
    // 24, csarofeen/pytorch #71
    {"trailing_index",
     "a copy of a slice at one index of the last dimension reads as if the slice were contiguous"},
    // 24, torch/cutorch #39
    {"assumed_alignment",
     "a strided copy whose strides are multiples of 16 fails if a row is not aligned to 16 bytes"},
    // 42, triton-lang/triton #2144
    {"synced_early",
     "a wait marks its work as waited for before it has waited, so another wait returns at once"},
    // 45, intel/llvm #8374
    {"tail_overwrite", "the last elements of a row are stored as 16, also beyond the end"},
    // 24, amd/IRON #198
    {"tail_in_vectors",
     "the terms after the last group of 4 are read from the number of groups on, not of terms"},
    // 24, halide/Halide #656
    {"zeros_by_sign", "argmax and argmin take -0 to be less than +0"},  // 24, signalnine/q27 #14
    {"early_close", "a device that is closed before its threads have started waits for them forever"},
    // 20, HansKristian-Work/vkd3d-proton #696
    {"failure_unsignaled", "work that fails never counts as finished, so that waits for it never end"},
    // 19, Samsung/ONE #16365
    {"fill_word_offset", "the offset of a fill is counted in words of 4 bytes"},
    // 16, KhronosGroup/MoltenVK #250
    {"kernel_leak", "the kernels of a code are never freed"},
    // 35, intel/intel-xpu-backend-for-triton #1883
    {"unit_step_rows",
     "sums and products of f32 read neighbors even if the reduction is not along the last dimension"},
    // 24, tracel-ai/burn #4861
    {"singleton_stride",
     "a reduction of two loops, the last with one iteration, advances by the last one's stride"},
    // 24, ml-explore/mlx #1389
    // board/
    {"reader_thread",
     "two reads of a buffer without a stream at the same time may both set its reading thread"},
    // 20, tenstorrent/tt-xla #3849
    {"upload_unwaited", "a large from_host reports COPIED when it is queued"},  // 16, rustnn/rustnn #167
    {"transfer_queue", "a from_host does not wait for the events that its stream waits for last"},
    // 18, ggml-org/llama.cpp #25229
    {"signature_key", "the key of the cache of codes has names and arguments, but no statements"},
    // 24, tracel-ai/cubecl #1455
    {"tail_unwritten", "the last elements of a sum of two values are not stored if they do not fill a warp"},
    // 24, pulp-platform/Deeploy #179
    {"pad_multiple", "a copy that pads at the front pads by a multiple of 16 bytes"},
    // 24, tenstorrent/tt-metal #15758
    {"tree_tie", "among equal maxima in different lanes, the one in the lower lane wins, whatever its index"},
    // 24, pytorch/pytorch #93630
    {"scatter_fold",
     "a scatter to more than 4 dimensions merges the leading ones by the loops' extents, not by its own"},
    // 24, tenstorrent/tt-metal #56875
    {"readback_reuse",
     "small copies to the host that are queued in a row go through one block before it is read"},
    // 18, tracel-ai/cubecl #901
    {"join_drops_errors", "a stream that waits for an event does not inherit its error"},
    // 18, openxla/xla #19898
    {"current_device", "a stream belongs to the device that its thread opened last"},
    // 53, mit-han-lab/torchsparse #372
    {"fill_unaligned", "a fill with 2 bytes does nothing if its start is not a multiple of 4"},
    // 16, intel/compute-runtime #567
    {"result_leak", "each launch takes two blocks for its result and frees one"},
    // 35, Genesis-Embodied-AI/quadrants #386
    {"axis_of_one",
     "a sum over a dimension of one element copies its operand in memory order, even if it is transposed"},
    // 24, IntelPython/dpctl #1391
    // strip/
    {"copy_as_bytes", "a copy of a whole tensor copies its bytes in order, even if the indices are permuted"},
    // 24, Oneflow-Inc/oneflow #7667
    {"panel_unwaited", "a product starts before another thread has packed the second operand"},
    // 24, NVIDIA/Fuser #3438
    {"staged_dma", "a from_host of more than 256 KiB without a stream returns when the bytes are staged"},
    // 16, ashalliants/ninfer-3090 #38
    {"device_event",
     "of several events of one device that a stream waits for in a row, only the last one counts"},
    // 18, torch/cutorch #222
    {"tile_reused",
     "a product with = computes the next rows in a tile whose last rows are still being copied"},
    // 24, eth-cscs/Tiled-MM #20
    {"untyped_key", "the key of the cache of kernels lacks the types of arguments"},
    // 24, Genesis-Embodied-AI/quadrants #912
    {"aligned_store",
     "vectors are stored at an address that is rounded down to a multiple of 16, if a row starts in between"},
    // 24, intel/torch-xpu-ops #1285
    {"pad_vector",
     "padded reads check every other element if the row has an even length, and take its neighbor along"},
    // 24, ROCm/rocMLIR #772
    {"element32", "the number of an element has 32 bits, too few for a tensor of 2^31 elements"},
    // 24, tinygrad/tinygrad #3961
    {"vector_cast", "floats become u8 with wrapping in full strips, and with saturation in the last one"},
    // 24, tensorflow/tensorflow #79689
    {"argmax_part",
     "argmax over one element is the first element of its thread's part if two threads share the rows"},
    // 24, pytorch/pytorch #38922
    {"error_at_enqueue",
     "a wait returns OK although work failed; the next copy or launch returns the error and forgets it"},
    // 19, ml-explore/mlx #4329
    {"fill_zeroes", "a fill with a pattern of 2 or 8 bytes fills zeros"},  // 16, gwoltman/gpuowl #29
};

}  // namespace yoke::handmade
