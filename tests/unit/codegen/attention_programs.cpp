// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/attention_programs.cpp: programs of attention, and what a library computes of them.
#include "attention_programs.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

namespace yoke::codegen::attention_programs {
namespace {

constexpr std::string_view kArguments = R"( arg q : bf16[3, 32, 2, 16] in
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
constexpr std::string_view kForward = R"( mask[i, j] = i >= j
 s[b, h, i, j] = sum:f32[d] f32(q[b, i, h, d]) * f32(k[b, j, h, d])
 e[b, h, i, j] = select(mask[i, j], 0.25 * f32(s[b, h, i, j]), -1.7e+38)
 top[b, h, i] = max[j] e[b, h, i, j]
 e[b, h, i, j] = exp(e[b, h, i, j] - top[b, h, i])
 total[b, h, i] = sum[j] e[b, h, i, j]
 w[b, h, i, j] = bf16(e[b, h, i, j] / total[b, h, i])
 o[b, i, h, d] = sum:f32[j] f32(w[b, h, i, j]) * f32(v[b, j, h, d])
)";
constexpr std::string_view kBackward =
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

std::string text_of(const LibraryAttention& made) {
  const auto joined = [](const auto& numbers) {
    std::string text;
    for (const std::uint64_t number : numbers) {
      text += (text.empty() ? "" : ",") + std::to_string(number);
    }
    return text;
  };
  std::string text = made.kind == AttentionKind::kForward ? "forward " : "backward ";
  text += std::string(program::type_name(made.type)) + " scale " + std::to_string(made.scale).substr(0, 6) +
          (made.is_causal ? " causal" : "") + (made.has_statistics ? " statistics" : "");
  for (std::size_t i = 0; i < made.volume_count(); ++i) {
    const Volume& volume = made.volumes[i];
    text += " " + joined(volume.dims) + "/" + joined(volume.strides);
    text += volume.offset != 0 ? "@" + std::to_string(volume.offset) : "";
  }
  return text;
}

}  // namespace

std::string changed(std::string text, const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    const std::size_t at = text.find(change.from);
    EXPECT_NE(at, std::string::npos) << change.from;
    for (std::size_t next = at; next != std::string::npos;
         next = text.find(change.from, next + change.to.size())) {
      text.replace(next, change.from.size(), change.to);
    }
  }
  return text;
}

Plan plan_of(std::string_view body, Recorder& recorder) {
  const std::string text = "yoke.program 1\nprogram p() {\n" + std::string(body) + "}\n";
  return generate(program::parse_and_verify(text).programs.at(0), Target{}, {.attentions = &recorder});
}

std::string found_in(std::string_view body, Recorder recorder) {
  std::string found;
  for (const Launch& launch : plan_of(body, recorder).launches) {
    const std::size_t at = launch.remark.find("attention not by dnn: ");
    found += launch.attention          ? text_of(*launch.attention) + "\n"
             : at != std::string::npos ? launch.remark.substr(at) + "\n"
                                       : "";
  }
  return found;
}

std::string training() {
  return std::string(kArguments).append(kForward).append(kBackward);
}

std::string forward() {
  const std::string body = std::string(kArguments).append(kForward);
  return changed(
      body, {{" arg dq : bf16[3, 32, 2, 16] out\n arg dk : bf16[3, 32, 2, 16] out\n arg dv : bf16[3, 32, 2, "
              "16] out\n",
              ""}});
}

std::string repeated(const char* text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

void expect_refused(const std::string& text, const std::vector<Refusal>& refusals) {
  for (const auto& [changes, reason] : refusals) {
    const std::string found = found_in(changed(text, changes));
    EXPECT_EQ(found.find("ward "), std::string::npos) << (changes.empty() ? text : changes[0].to) << "\n"
                                                      << found;
    EXPECT_TRUE(reason.empty() ? found.empty() : found.find(reason) != std::string::npos)
        << (changes.empty() ? text : changes[0].to) << "\n"
        << found;
  }
}

}  // namespace yoke::codegen::attention_programs
