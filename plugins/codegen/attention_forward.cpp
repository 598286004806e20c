// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_forward.cpp: attention in one kernel. A block has the queries of one head in registers and
// goes over all keys that they see, with the maximum and the sum of each row so far.
#include <algorithm>
#include <numbers>
#include <string_view>

#include "attention_kernel.h"

namespace yoke::codegen::attention {
namespace {

using matmul::fill_in;

constexpr std::int64_t kKeys = 64;  // of a tile

// A score of minus infinity must not meet another one: exp of their difference is NaN. Rows with infinity or NaN
// become NaN. Sums fade only where a maximum has changed.
constexpr std::string_view kSoftmax = R"(    float fade[$parts$][2], shift[$parts$][2];
    bool fades = false;
#pragma unroll
    for (int i = 0; i < $parts$; ++i)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        float high = top[i][r];
#pragma unroll
        for (int j = 0; j < $keys$ / 8; ++j) high = yk_max(high, yk_max(scores[i][j][r * 2], scores[i][j][r * 2 + 1]));
        high = yk_max(high, YK_SHUFFLE_XOR(high, 1));
        high = yk_max(high, YK_SHUFFLE_XOR(high, 2));
        const float base = high == -YK_INF_F32 ? 0.0f : high;
        fade[i][r] = yk_exp2((top[i][r] - base) * $scale$);
        fades = fades || fade[i][r] != 1;
        shift[i][r] = base * $scale$;
        top[i][r] = high;
      }
    if (yk_any(fades)) {
#pragma unroll
      for (int i = 0; i < $parts$; ++i)
#pragma unroll
        for (int r = 0; r < 2; ++r) {
          total[i][r] *= fade[i][r];
#pragma unroll
          for (int d = 0; d < $value_steps$ * 2; ++d) {
            result[i][d][r * 2] *= fade[i][r];
            result[i][d][r * 2 + 1] *= fade[i][r];
          }
        }
    }
#pragma unroll
    for (int i = 0; i < $parts$; ++i)
#pragma unroll
      for (int j = 0; j < $keys$ / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          scores[i][j][e] = yk_exp2(yk_multiply_add(scores[i][j][e], $scale$, -shift[i][e / 2]));
          total[i][e / 2] += scores[i][j][e];
        }
)";

// While the scores are computed, the values arrive; while these are added up, the next keys do.
constexpr std::string_view kForwardLoop = R"(
  const int end = $end$;
  for (int key = 0; key < end; key += $keys$) {
    YK_WAIT_FOR_COPIES(0);
    YK_SYNC();
$copy_values$    yk_commit_copies();
    float scores[$parts$][$keys$ / 8][4] = {};
$scores$$mask$$softmax$    unsigned weights[$parts$][$keys$ / 16][4];
$round$    YK_WAIT_FOR_COPIES(0);
    YK_SYNC();
    if (key + $keys$ < end) {
$copy_next_keys$    }
    yk_commit_copies();
$weigh$  }
)";

constexpr std::string_view kFinish = R"(#pragma unroll
  for (int i = 0; i < $parts$; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      total[i][r] += YK_SHUFFLE_XOR(total[i][r], 1);
      total[i][r] += YK_SHUFFLE_XOR(total[i][r], 2);
$statistics$      total[i][r] = 1.0f / total[i][r];
    }
  YK_SYNC();
)";

constexpr std::string_view kStatistics =
    R"(      const int query = warp_first + i * 16 + (int)(lane / 4) + r * 8;
      if (lane % 4 == 0 && query < $queries$)
        p4[(batch * $heads$ + head) * $queries$ll + query] = top[i][r] * $plain_scale$ + logf(total[i][r]);
)";

}  // namespace

void launch_forward(Builder& builder, const LibraryAttention& attention, const std::vector<Slot>& slots,
                    const std::string& remark) {
  const auto& [batch, heads, queries, size] = attention.volumes[0].dims;
  const auto keys = attention.volumes[1].dims[2];
  const auto value_size = attention.volumes[2].dims[3];
  // More rows than 16 for each warp read shared memory less often, but need more registers.
  const std::int64_t parts = std::max(size, value_size) <= 64 && queries > 64 ? 2 : 1;
  const std::int64_t rows = parts * 16 * kWarps;
  const Rows q = {"q", &attention.volumes[0], rows};
  const Rows k = {"k", &attention.volumes[1], kKeys};
  const Rows v = Rows{"v", &attention.volumes[2], kKeys}.at(k.chunks());
  const Rows o = {"o", &attention.volumes[3], rows};
  const std::int64_t chunks = std::max({q.chunks(), k.chunks() + v.chunks(), o.chunks()});
  const std::string type = type_text(attention);
  const auto length = static_cast<std::int64_t>(queries);
  std::string text =
      "(const unsigned short* p0, const unsigned short* p1, const unsigned short* p2, unsigned short* "
      "result_of";
  text += attention.has_statistics ? ", float* p4) {\n" : ") {\n";
  text += place_text(attention, length, rows, attention.is_causal);
  text += "  YK_SHARED yk_16_bytes shared[" + std::to_string(chunks) +
          "];\n  const yk_place place = yk_place_of(shared);\n";
  text += "  const int warp_first = first + (int)warp * " + std::to_string(parts * 16) + ";\n";
  text += pointer_text(q, "p0") + pointer_text(k, "p1") + pointer_text(v, "p2");
  text += from_text(q) + from_text(k) + from_text(v) + copy_text(q, "first") +
          "  yk_commit_copies();\n  YK_WAIT_FOR_COPIES(0);\n  YK_SYNC();\n";
  text += "  unsigned x[$parts$][" + std::to_string(q.steps()) + "][4];\n" + factor_text(q, "x", parts);
  text += "  YK_SYNC();\n" + copy_text(k, "0") + "  yk_commit_copies();\n";
  text += "  float result[$parts$][$value_steps$ * 2][4] = {}, top[$parts$][2], total[$parts$][2] = {};\n";
  text += "#pragma unroll\n  for (int i = 0; i < $parts$; ++i) top[i][0] = top[i][1] = -YK_INF_F32;\n";
  text.append(kForwardLoop).append(kFinish);
  text += pointer_text(o, "result_of") + store_text(o, "result", "total[i][r]", parts, type) + "}\n";
  text =
      fill_in(text, {{"parts", std::to_string(parts)},
                     {"keys", std::to_string(kKeys)},
                     {"heads", std::to_string(heads)},
                     {"queries", std::to_string(queries)},
                     {"value_steps", std::to_string(v.steps())},
                     {"scale", float_text(attention.scale * std::numbers::log2e)},
                     {"plain_scale", float_text(attention.scale)},
                     {"end", attention.is_causal
                                 ? fill_in("first + $rows$ < $length$ ? first + $rows$ : $length$",
                                           {{"rows", std::to_string(rows)}, {"length", std::to_string(keys)}})
                                 : std::to_string(keys)},
                     {"copy_values", copy_text(v, "key")},
                     {"copy_next_keys", copy_text(k, "key + " + std::to_string(kKeys))},
                     {"scores", scores_text(k, "scores", "x", parts, type)},
                     {"mask", mask_text(attention, "scores", parts, kKeys, "key", true)},
                     {"softmax", std::string(kSoftmax)},
                     {"round", round_text("weights", "scores", parts, kKeys, type)},
                     {"weigh", weigh_text(v, "result", "weights", parts, type)},
                     {"statistics", attention.has_statistics ? std::string(kStatistics) : ""}});
  declare_functions(builder);
  Launch launch;
  launch.kernel = builder.kernel(static_cast<std::uint32_t>(kThreads), text);
  launch.grid[0] = static_cast<std::uint32_t>(
      batch * heads * ((queries + static_cast<std::uint64_t>(rows) - 1) / static_cast<std::uint64_t>(rows)));
  launch.slots = slots;
  launch.remark = remark;
  builder.launch(std::move(launch));
}

}  // namespace yoke::codegen::attention
