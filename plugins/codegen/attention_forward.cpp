// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_forward.cpp: attention in one kernel. A block has queries of one head in registers and goes
// over all keys that they see, with the maximum and the sum of each row so far.
#include <algorithm>
#include <numbers>
#include <string_view>

#include "attention_kernel.h"

namespace yoke::codegen::attention {
namespace {

using matmul::fill_in;

constexpr std::int64_t kKeys = 64;  // of a tile

// A score of minus infinity must not meet another one: exp of their difference is NaN. Rows with infinity or NaN
// become NaN. Sums are rescaled only where a maximum has changed.
constexpr std::string_view kSoftmax = R"(    float fade[$parts$][2];
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
      for (int r = 0; r < 2; ++r) {
        const float shift = (top[i][r] == -YK_INF_F32 ? 0.0f : top[i][r]) * -$scale$;
#pragma unroll
        for (int j = 0; j < $keys$ / 8; ++j)
#pragma unroll
          for (int e = r * 2; e < r * 2 + 2; ++e) {
            scores[i][j][e] = yk_exp2(yk_multiply_add(scores[i][j][e], $scale$, shift));
            total[i][r] += scores[i][j][e];
          }
      }
)";

// Values are copied while scores are computed, and the next keys while values are added up.
constexpr std::string_view kForwardLoop = R"(
  const int end = $end$;
  for (int key = 0; key < end; key += $keys$) {
    YK_WAIT_FOR_COPIES(0);
    YK_SYNC();
$copy_values$    yk_commit_copies();
    unsigned weights[$parts$][$keys$ / 16][4];
    $if_seen${
    float scores[$parts$][$keys$ / 8][4] = {};
$scores$$mask$$softmax$$round$    }
    YK_WAIT_FOR_COPIES(0);
    YK_SYNC();
    if (key + $keys$ < end) {
$copy_next_keys$    }
    yk_commit_copies();
    $if_seen${
$weigh$    }
  }
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

// Until the loop: the memory of a block, and its queries in registers. `q` and `o` have the rows of a block.
std::string start_text(const LibraryAttention& attention, const Rows& q, const Rows& k, const Rows& v,
                       const Rows& o) {
  const std::int64_t chunks = std::max({q.chunks(), k.chunks() + v.chunks(), o.chunks()});
  std::string text = place_text(attention, q.length(), q.count, attention.is_causal);
  text += "  YK_SHARED yk_16_bytes shared[" + std::to_string(chunks) +
          "];\n  const yk_place place = yk_place_of(shared);\n"
          "  const int warp_first = first + (int)warp * (16 * $parts$);\n";
  text += pointer_text(q, "p0") + pointer_text(k, "p1") + pointer_text(v, "p2");
  text += from_text(q) + from_text(k) + from_text(v);
  text += copy_text(q, "first") + "  yk_commit_copies();\n  YK_WAIT_FOR_COPIES(0);\n  YK_SYNC();\n";
  text += "  unsigned x[$parts$][" + std::to_string(q.steps()) + "][4];\n" +
          factor_text(q, "x", q.count / (16 * kWarps));
  text += "  YK_SYNC();\n" + copy_text(k, "0") + "  yk_commit_copies();\n";
  return text +
         R"(  float result[$parts$][$value_steps$ * 2][4] = {}, top[$parts$][2], total[$parts$][2] = {};
#pragma unroll
  for (int i = 0; i < $parts$; ++i) top[i][0] = top[i][1] = -YK_INF_F32;
)";
}

std::string forward_kernel(const LibraryAttention& attention, std::int64_t parts) {
  const auto& volumes = attention.volumes;
  const std::int64_t rows = parts * 16 * kWarps;
  const Rows q = {"q", &volumes[0], rows};
  const Rows k = {"k", &volumes[1], kKeys};
  const Rows v = Rows{"v", &volumes[2], kKeys}.at(k.chunks());
  const Rows o = {"o", &volumes[3], rows};
  const std::string type = type_text(attention);
  const std::string keys = std::to_string(k.length());
  std::string text =
      "(const unsigned short* p0, const unsigned short* p1, const unsigned short* p2, unsigned short* to";
  text += attention.has_statistics ? ", float* p4) {\n" : ") {\n";
  text.append(start_text(attention, q, k, v, o)).append(kForwardLoop).append(kFinish);
  text += pointer_text(o, "to") + store_text(o, "result", "total[i][r]", parts, type) + "}\n";
  return fill_in(
      text, {{"parts", std::to_string(parts)},
             {"keys", std::to_string(kKeys)},
             {"heads", std::to_string(volumes[0].dims[1])},
             {"queries", std::to_string(q.length())},
             {"value_steps", std::to_string(v.steps())},
             {"scale", float_text(attention.scale * std::numbers::log2e)},
             {"plain_scale", float_text(attention.scale)},
             {"rows", std::to_string(rows)},
             {"all", keys},
             {"end", attention.is_causal ? "first + $rows$ < $all$ ? first + $rows$ : $all$" : keys},
             {"copy_values", copy_text(v, "key")},
             {"copy_next_keys", copy_text(k, "key + $keys$")},
             {"scores", scores_text(k, "scores", "x", parts, type)},
             {"mask", mask_text(attention, "scores", parts, kKeys, "key", true)},
             {"softmax", std::string(kSoftmax)},
             {"round", round_text("weights", "scores", parts, kKeys, type)},
             // A block's last tiles of keys may be after all queries of a warp.
             {"if_seen", attention.is_causal && rows > kKeys ? "if (key < warp_first + 16 * $parts$) " : ""},
             {"weigh", weigh_text(v, "result", "weights", parts, type)},
             {"statistics", attention.has_statistics ? std::string(kStatistics) : ""}});
}

}  // namespace

void launch_forward(Builder& builder, const LibraryAttention& attention, const std::vector<Slot>& slots,
                    const std::string& remark) {
  const auto& [batch, heads, queries, size] = attention.volumes[0].dims;
  // More rows than 16 for each warp read shared memory less often, but need more registers.
  const bool is_small = std::max(size, attention.volumes[2].dims[3]) <= 64 && queries > 64;
  const std::uint64_t rows = is_small ? 128 : 64;
  declare_functions(builder);
  Launch launch;
  launch.kernel =
      builder.kernel(static_cast<std::uint32_t>(kThreads), forward_kernel(attention, is_small ? 2 : 1));
  launch.grid[0] = static_cast<std::uint32_t>(batch * heads * ((queries + rows - 1) / rows));
  launch.slots = slots;
  launch.remark = remark;
  builder.launch(std::move(launch));
}

}  // namespace yoke::codegen::attention
