// SPDX-License-Identifier: Apache-2.0
// tests/support/attention_text.h: causal attention of 2 heads of 16 over 32 positions in bf16, as the tensor frontend
// writes it for training.
#pragma once

#include <string_view>

namespace yoke::test {

// The gradient's results are dq, dk and dv, and g is the gradient of o.
inline constexpr std::string_view kAttentionArguments = R"( arg q : bf16[3, 32, 2, 16] in
 arg k : bf16[3, 32, 2, 16] in
 arg v : bf16[3, 32, 2, 16] in
 arg g : bf16[3, 32, 2, 16] in
 arg o : bf16[3, 32, 2, 16] out
 arg dq : bf16[3, 32, 2, 16] out
 arg dk : bf16[3, 32, 2, 16] out
 arg dv : bf16[3, 32, 2, 16] out
 temp mask : bool[32, 32]
 temp s : bf16[3, 2, 32, 32]
 temp e : f32[3, 2, 32, 32]
 temp top : f32[3, 2, 32]
 temp total : f32[3, 2, 32]
 temp w : bf16[3, 2, 32, 32]
 temp dw : bf16[3, 2, 32, 32]
 temp df : f32[3, 2, 32, 32]
 temp rows : f32[3, 2, 32]
 temp part : f32[3, 2, 32, 1]
 temp ds : bf16[3, 2, 32, 32]
)";
inline constexpr std::string_view kAttentionForward = R"( mask[i, j] = i >= j
 s[b, h, i, j] = sum:f32[d] f32(q[b, i, h, d]) * f32(k[b, j, h, d])
 e[b, h, i, j] = select(mask[i, j], 0.25 * f32(s[b, h, i, j]), -1.7e+38)
 top[b, h, i] = max[j] e[b, h, i, j]
 e[b, h, i, j] = exp(e[b, h, i, j] - top[b, h, i])
 total[b, h, i] = sum[j] e[b, h, i, j]
 w[b, h, i, j] = bf16(e[b, h, i, j] / total[b, h, i])
 o[b, i, h, d] = sum:f32[j] f32(w[b, h, i, j]) * f32(v[b, j, h, d])
)";
inline constexpr std::string_view kAttentionBackward =
    R"( dv[b, j, h, d] = sum:f32[i] f32(g[b, i, h, d]) * f32(w[b, h, i, j])
 dw[b, h, i, j] = sum:f32[d] f32(g[b, i, h, d]) * f32(v[b, j, h, d])
 df[b, h, i, j] = f32(dw[b, h, i, j])
 rows[b, h, i] = sum[j] df[b, h, i, j] * (e[b, h, i, j] / total[b, h, i])
 part[b, h, i, j] = -(rows[b, h, i] / total[b, h, i])
 ds[b, h, i, j] = bf16(select(mask[i, j], )"
    R"((df[b, h, i, j] / total[b, h, i] + part[b, h, i, 0]) * e[b, h, i, j], 0) * 0.25)
 dk[b, j, h, d] = sum:f32[i] f32(ds[b, h, i, j]) * f32(q[b, i, h, d])
 dq[b, i, h, d] = sum:f32[j] f32(ds[b, h, i, j]) * f32(k[b, j, h, d])
)";
// Of the arguments, without the gradient.
inline constexpr std::string_view kAttentionGradients =
    " arg dq : bf16[3, 32, 2, 16] out\n arg dk : bf16[3, 32, 2, 16] out\n arg dv : bf16[3, 32, 2, 16] out\n";

}  // namespace yoke::test
