// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/generate_test.cpp: yoke generate writes text like that of the training, and repeats it by its seed.
#include <gmock/gmock.h>

#include "words.h"

namespace yoke {
namespace {

using test::joined;
using test::run;
using test::TemporaryFolder;
using test::write_file;
using ::testing::AnyOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class YokeGenerate : public ::testing::Test {
 protected:
  void train(const std::string& text, const std::vector<std::string>& more) {
    write_file(folder_ / "text.txt", text);
    std::filesystem::remove_all(folder_ / "run");
    const auto outcome =
        run(joined({"train", "--data", folder_ / "text.txt", "--save", folder_ / "run"}, more));
    ASSERT_EQ(outcome.code, 0) << outcome.err;
  }
  test::Outcome generate(const std::vector<std::string>& more) const {
    return run(joined({"generate", "--from", folder_ / "run"}, more));
  }
  std::string text_of(const std::vector<std::string>& more) const {
    const auto outcome = generate(more);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out;
  }
  static std::string repeated(const std::string& part, int count) {
    std::string text;
    for (int i = 0; i < count; ++i) {
      text += part;
    }
    return text;
  }

  TemporaryFolder folder_;
};

// Of this text, each model can tell the next character from those before it.
TEST_F(YokeGenerate, EveryModelContinuesATextThatItHasLearned) {
  const std::string part = "abcdefgh.\n";
  for (const std::string model :
       {"char-bigram:context=8", "char-mlp:context=3,hidden=16", "char-lstm:context=8,width=16",
        "gpt:layers=1,heads=2,width=16,context=8"}) {
    train(repeated(part, 100), {"--model", model, "--steps", "200", "--optimizer", "adam", "--lr", "0.02"});
    EXPECT_EQ(text_of({"--prompt", "abc", "--length", "27", "--temperature", "0"}), repeated(part, 3))
        << model;
    EXPECT_THAT(text_of({"--length", "30", "--temperature", "0.1", "--seed", "1"}), StartsWith(part))
        << model;
  }
}

TEST_F(YokeGenerate, SeedRepeatsTheTextAndIsPrinted) {
  train(repeated("one two three four\n", 50), {"--model", "char-bigram", "--steps", "20", "--lr", "1"});
  const auto first = generate({"--seed", "7", "--prompt", "t", "--length", "200"});
  EXPECT_EQ(first.err, "yoke: seed 7\n");
  EXPECT_THAT(first.out, StartsWith("t"));
  EXPECT_GE(first.out.size(), 201U);
  EXPECT_EQ(generate({"--seed", "7", "--prompt", "t", "--length", "200"}).out, first.out);
  EXPECT_NE(generate({"--seed", "8", "--prompt", "t", "--length", "200"}).out, first.out);
  EXPECT_EQ(text_of({"--seed", "7", "--prompt", "t", "--length", "100"}).substr(0, 101),
            first.out.substr(0, 101));
  const auto drawn = generate({"--prompt", "t"});
  ASSERT_THAT(drawn.err, StartsWith("yoke: seed "));
  const std::string seed = drawn.err.substr(11, drawn.err.size() - 12);
  EXPECT_EQ(generate({"--prompt", "t", "--seed", seed}).out, drawn.out);
  // The likeliest character alone, by either option.
  EXPECT_EQ(text_of({"--top-k", "1", "--prompt", "t"}), text_of({"--temperature", "0", "--prompt", "t"}));
  const std::string lines = text_of({"--lines", "3", "--prompt", "one", "--length", "100000"});
  EXPECT_EQ(test::line_count(lines), 3U);
  EXPECT_THAT(lines, EndsWith("\n"));
}

// The model, which sees one character, is trained until its probabilities are those of the text: 'b' follows 'a' three
// times as often as 'c'.
TEST_F(YokeGenerate, CharactersAreDrawnByTheirProbabilities) {
  train(repeated("abababac", 200), {"--model", "char-bigram:context=8", "--steps", "400", "--lr", "2"});
  const auto share = [&](const std::vector<std::string>& more) {
    const std::string text = text_of(joined({"--prompt", "a", "--length", "4000", "--seed", "3"}, more));
    int after_a = 0;
    int b_after_a = 0;
    for (std::size_t at = 1; at + 1 < text.size(); ++at) {  // the last one is the line break of the output
      after_a += text[at - 1] == 'a' ? 1 : 0;
      b_after_a += text[at - 1] == 'a' && text[at] == 'b' ? 1 : 0;
    }
    return static_cast<double>(b_after_a) / after_a;
  };
  EXPECT_NEAR(share({}), 0.75, 0.04);  // 4 deviations of 2000 draws
  EXPECT_NEAR(share({"--temperature", "0.5"}), 0.9, 0.03);
  EXPECT_NEAR(share({"--temperature", "100", "--top-k", "2"}), 0.5, 0.06);
}

TEST_F(YokeGenerate, ModelOfLinesEndsAtTheEndOfALine) {
  train(repeated("anna\nbert\n", 100),
        {"--model", "char-mlp:hidden=16", "--lines", "--steps", "300", "--lr", "0.5"});
  for (const std::string seed : {"1", "2", "3", "4"}) {
    EXPECT_THAT(text_of({"--seed", seed, "--temperature", "0.3"}), AnyOf("anna\n", "bert\n"));
  }
  EXPECT_EQ(text_of({"--prompt", "be", "--temperature", "0"}), "bert\n");
  EXPECT_EQ(test::line_count(text_of({"--lines", "5", "--seed", "1"})), 5U);
  EXPECT_EQ(text_of({"--prompt", "be", "--temperature", "0", "--length", "1"}), "ber\n");
}

TEST_F(YokeGenerate, MistakesAreErrors) {
  train(repeated("abc", 100), {"--model", "char-mlp:hidden=4", "--steps", "2"});
  const auto unknown = generate({"--prompt", "abxc"});
  EXPECT_EQ(unknown.code, 1);
  EXPECT_EQ(unknown.out, "");
  EXPECT_THAT(unknown.err, HasSubstr("--prompt has 'x' at position 3, which is not in the training text"));
  EXPECT_THAT(generate({"--prompt",
                        "a\xff"
                        "b"})
                  .err,
              HasSubstr("has byte 255 at position 2"));
  const auto shorter = generate({"--prompt", "ab"});
  EXPECT_EQ(shorter.code, 2);
  EXPECT_THAT(shorter.err, HasSubstr("--prompt needs at least 3 characters"));
  EXPECT_THAT(text_of({"--prompt", "abc", "--length", "1", "--seed", "0"}), EndsWith("\n"));
  EXPECT_EQ(generate({"--temperature", "-1"}).code, 2);
  EXPECT_EQ(generate({"--top-k", "0"}).code, 2);
  EXPECT_EQ(generate({"--length", "0"}).code, 2);
  EXPECT_EQ(run({"generate", "--prompt", "a"}).code, 2);
  EXPECT_THAT(run({"generate", "--from", "a", "--temperature", "0", "--top-k", "3"}).err,
              HasSubstr("--top-k has no effect with --temperature 0"));
  std::filesystem::remove_all(folder_ / "run");
  ASSERT_EQ(run({"train", "--epochs", "1", "--save", folder_ / "run"}).code, 0);
  const auto other = generate({"--prompt", "a"});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.err, HasSubstr("which does not generate text; use yoke predict"));
}

}  // namespace
}  // namespace yoke
