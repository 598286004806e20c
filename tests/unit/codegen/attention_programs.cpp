// SPDX-License-Identifier: Apache-2.0
// tests/unit/codegen/attention_programs.cpp: programs of attention, and what a library computes of them.
#include "attention_programs.h"

#include <gtest/gtest.h>
#include <yoke/program/text.h>

#include "../../support/attention_text.h"

namespace yoke::codegen::attention_programs {
namespace {

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
  return std::string(test::kAttentionArguments)
      .append(test::kAttentionForward)
      .append(test::kAttentionBackward);
}

std::string forward() {
  const std::string body = std::string(test::kAttentionArguments).append(test::kAttentionForward);
  return changed(body, {{std::string(test::kAttentionGradients), ""}});
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
