// SPDX-License-Identifier: Apache-2.0
// tests/unit/cli/train_error_test.cpp: yoke train reports bad input in one line and leaves no partial files.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "../../support/rounds.h"
#include "command.h"

namespace yoke {
namespace {

using test::run;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

struct BadUsage {
  std::vector<std::string> arguments;
  std::string message;
};

// Prints the arguments as the name of the test.
void PrintTo(const BadUsage& usage, std::ostream* out) {
  for (const std::string& argument : usage.arguments) {
    *out << argument << ' ';
  }
}

class YokeTrainUsage : public ::testing::TestWithParam<BadUsage> {};

TEST_P(YokeTrainUsage, ErrorIsOneLineAndExitCodeIsTwo) {
  std::vector<std::string> words = {"train"};
  words.insert(words.end(), GetParam().arguments.begin(), GetParam().arguments.end());
  const auto outcome = run(words);
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(outcome.err, AllOf(StartsWith("yoke: "), HasSubstr(GetParam().message)));
  EXPECT_EQ(test::line_count(outcome.err), 1U);
}

INSTANTIATE_TEST_SUITE_P(
    All, YokeTrainUsage,
    ::testing::Values(
        BadUsage{{"--shards", "0"}, "--shards takes a whole number from 1 to 4096, not '0'"},
        BadUsage{{"--shards", "-2"}, "from 1 to 4096, not '-2'"},
        BadUsage{{"--shards", "2.5"}, "--shards takes a whole number from 1 to 4096, not '2.5'"},
        BadUsage{{"--shards", "99999999999999999999"}, "--shards takes a whole number from 1 to 4096"},
        BadUsage{{"--shards", "4097"}, "from 1 to 4096, not '4097'"}, BadUsage{{"--shards"}, "--shards"},
        BadUsage{{"--backend", "cc:0"}, "--backend cc:N takes a whole number from 1 to 4096, not '0'"},
        BadUsage{{"--backend", "cc:4097"}, "--backend cc:N takes a whole number from 1 to 4096, not '4097'"},
        BadUsage{{"--backend", "cc:4096,null:1"}, "the counts add up to 4097 shards; the maximum is 4096"},
        BadUsage{{"--backend", "cc:x"}, "--backend cc:N takes a whole number"},
        BadUsage{{"--backend", "cc:2,null"}, "'null' needs a number of shards, as in cuda:1,cc:2"},
        BadUsage{{"--backend", "cc:2", "--shards", "3"}, "the counts add up to 2 shards, but --shards is 3"},
        BadUsage{{"--backend", "cc:1", "--shards", "3"}, "the counts add up to 1 shard, but --shards is 3"},
        BadUsage{{"--wait-timeout", "0"}, "--wait-timeout takes a number from 0.001 to 1"},
        BadUsage{{"--backend", ":2"}, "--backend takes a name (cc) or names with shard counts"},
        BadUsage{{"--backend", "cc,"}, "--backend takes a name"},
        BadUsage{{"--option", "threads=abc"}, "--option: cc: option 'threads' must be an integer, not 'abc'"},
        BadUsage{{"--batch", "0"}, "--batch takes a whole number from 1 to 1000000000, not '0'"},
        BadUsage{{"--epochs", "0"}, "--epochs takes a whole number from 1 to 1000000000, not '0'"},
        BadUsage{{"--epochs", "99999999999999999999"}, "--epochs takes a whole number from 1 to 1000000000"},
        BadUsage{{"--seed", "-1"}, "--seed takes a whole number from 0 to 4611686018427383807, not '-1'"},
        BadUsage{{"--lr", "fast"}, "--lr takes a number from 1e-38 to 1e+38, not 'fast'"},
        BadUsage{{"--lr", "nan"}, "--lr takes a number"}, BadUsage{{"--lr", "0"}, "--lr takes a number"},
        BadUsage{{"--lr", "1e39"}, "--lr takes a number"},
        BadUsage{{"--momentum", "1"}, "--momentum takes a number from 0 to less than 1, not '1'"},
        BadUsage{{"--weight-decay", "-0.1"}, "--weight-decay takes a number from 0 to 1e+38, not '-0.1'"},
        BadUsage{{"--accumulate", "0"}, "--accumulate takes a whole number from 1 to 4096, not '0'"},
        BadUsage{{"--reproducible", "-2"}, "--reproducible takes a whole number from 1 to 4096, not '-2'"},
        BadUsage{{"--row-weights", "3,x"}, "--row-weights takes a whole number from 1 to 1000000, not 'x'"},
        BadUsage{{"--row-weights", "3,0"}, "--row-weights takes a whole number from 1 to 1000000, not '0'"},
        BadUsage{{"--row-weights", "3,1", "--shards", "3"}, "--row-weights has 2 numbers for 3 shards"},
        BadUsage{{"--row-weights", "3,1", "--backend", "cc:1,null:2"},
                 "has 2 numbers for 3 shards; give one"},
        BadUsage{{"--row-weights", "3,1", "--reproducible", "4"},
                 "--row-weights does not work with --reproducible"},
        BadUsage{{"--nesterov"}, "--nesterov needs --momentum greater than 0"},
        BadUsage{{"--reproducible", "3"}, "--reproducible takes a power of two from 1 to 4096, not '3'"},
        BadUsage{{"--reproducible", "4", "--shards", "3"},
                 "--reproducible 4 needs a number of shards that divides it, not 3"},
        BadUsage{{"--reproducible", "4", "--backend", "cc:3"},
                 "--reproducible 4 needs a number of shards that divides it, not 3"},
        BadUsage{{"--reproducible", "4", "--accumulate", "2"},
                 "--reproducible 4 does not work with --accumulate; leave one of them out"},
        BadUsage{{"--reproducible", "4", "--merge", "ring"},
                 "--reproducible 4 needs --merge tree or auto; --merge is ring"},
        BadUsage{{"--reproducible", "4", "--wire", "bf16"},
                 "--reproducible 4 does not work with --wire bf16, whose rounding errors depend on the "
                 "number of shards; leave one of them out"},
        BadUsage{{"--accumulate", "4096", "--shards", "2"},
                 "--shards times --accumulate is 8192; the maximum is 4096"},
        BadUsage{{"--timeline", "a.json", "--save", "a.json"},
                 "--timeline and --save name the same file, a.json; give two different files"},
        BadUsage{{"--timeline", "./a.html", "--report", "a.html"},
                 "--timeline and --report name the same file, a.html; give two different files"},
        BadUsage{{"--timeline", "a.csv", "--data", "b/../a.csv"},
                 "--timeline a.csv would replace the file of --data; give another file"},
        BadUsage{{"--save", "a.npz", "--data", "a.npz"}, "--save a.npz would replace the file of --data"},
        BadUsage{{"--timeline", "a", "--trace", "b"}, "--timeline and --trace are the same option"},
        BadUsage{{"--no-decay", "*bias"},
                 "--no-decay has no effect without weight decay; give --weight-decay"},
        BadUsage{{"--lrr=1"}, "unknown option '--lrr'; did you mean '--lr'?"},
        BadUsage{{"--epochs", "--resume"},
                 "--epochs needs a value; write --epochs=VALUE if it starts with --"},
        BadUsage{{"--resume", "--resume"}, "--resume is given more than once"},
        BadUsage{{"--epochs", "1", "--epochs", "2"}, "--epochs takes one value, not several"},
        BadUsage{{"--schedule", "cosine:warmpu=3"}, "exponential gamma; did you mean 'warmup'?"},
        BadUsage{{"--schedule", "cosine:warmup=3,warmup=0"},
                 "'warmup' is given more than once; give it once"},
        BadUsage{{"--model", "gpt:layers=1,layers=3"}, "'layers' is given more than once; give it once"},
        BadUsage{{"--schedule", "step"}, "--schedule step needs every, the number of steps"},
        BadUsage{{"--schedule", "step:gamma=0.5"}, "as in step:every=1000,gamma=0.1"},
        BadUsage{
            {"--schedule", "exponential:warmup=2"},
            "--schedule exponential needs gamma, the factor after each step, as in exponential:gamma=0.999"},
        BadUsage{{"--model", "mpl:3"}, "not 'mpl:3'; did you mean 'mlp'?"},
        BadUsage{{"--config", "none.toml"}, "--config: cannot find or read none.toml: No such file"},
        BadUsage{{"--optimizer", "sdg"},
                 "--optimizer: no optimizer is named 'sdg'; the optimizers are sgd, adam, adamw, rmsprop, "
                 "adagrad, lion, lamb"},
        BadUsage{{"--clip", "0"}, "--clip 0 is not a limit greater than 0; use one such as 1.0, norm:1.0 or"},
        BadUsage{{"--clip", "value:x"}, "--clip value:x is not a limit"},
        BadUsage{{"--clip", "1.0x"}, "--clip 1.0x is not a limit"},
        BadUsage{{"--no-decay", "a,,b"}, "--no-decay a,,b has an empty pattern"},
        BadUsage{{"--optimizer", "adam", "--momentum", "0.5"},
                 "--momentum works with --optimizer sgd and rmsprop, not with adam"},
        BadUsage{{"--optimizer", "rmsprop", "--nesterov"},
                 "--nesterov works with --optimizer sgd, not with rmsprop"},
        BadUsage{{"--model", "cnn:3"}, "(mlp:500, mlp:300-100), not 'cnn:3'"},
        BadUsage{{"--model", "gpt:depth=2"}, "'depth=2' is not an option; use gpt:context=64,heads=4"},
        BadUsage{{"--model", "gpt:heads=0"}, "'heads=0' has no whole number in range; use gpt:context=64"},
        BadUsage{{"--model", "gpt"}, "--model gpt needs a text; give --data a file"},
        BadUsage{{"--model", "gpt:layers=1", "--data", "/"},
                 "--model gpt:layers=1 needs a text file, but / is a folder; give --data a file\n"},
        BadUsage{{"--model", "lenet"}, "--model lenet needs images; give --data a folder"},
        BadUsage{{"--model", "mlp:"}, "not 'mlp:'"},
        BadUsage{{"--model", "lennet"}, "not 'lennet'; did you mean 'lenet'?"},
        BadUsage{{"--model", "mlp:0"}, "not 'mlp:0'"}, BadUsage{{"--model", "mlp:30-"}, "not 'mlp:30-'"},
        BadUsage{{"--model", "mlp:3-x"}, "not 'mlp:3-x'"},
        BadUsage{{"--model", "mlp:99999999"}, "1 to 1,000,000"},
        BadUsage{{"--reduction", "max"}, "--reduction takes mean or sum, not 'max'"},
        BadUsage{{"--merge", "star"}, "--merge"},
        BadUsage{{"--merge", "nativ"}, "owner, tree, direct, ring or native; did you mean 'native'?"},
        BadUsage{{"--merge", "native", "--backend", "cc:1,null:1"},
                 "--merge native needs devices of one backend; --backend is cc:1,null:1"},
        BadUsage{{"--merge", "native", "--shards", "2"}, "the backend 'cc' does not add up gradients itself"},
        BadUsage{{"--merge", "direct", "--wire", "bf16", "--shards", "2"},
                 "--wire bf16 does not work with --merge direct; use owner, tree or ring"},
        BadUsage{{"--precision", "f16", "--wire", "bf16", "--shards", "2"},
                 "--wire bf16 does not work with --precision f16"},
        BadUsage{{"--placement", "sharded", "--optimizer", "lamb", "--shards", "2"},
                 "--placement sharded does not work with --optimizer lamb"},
        BadUsage{{"--wire", "bf61"}, "use full or bf16; did you mean 'bf16'?"},
        BadUsage{{"--placement", "shared"}, "everywhere or sharded; did you mean 'sharded'?"},
        BadUsage{{"--overlap", "atuo"}, "use auto, on or off; did you mean 'auto'?"},
        BadUsage{{"--precision", "bf6"}, "use f32, bf16 or f16; did you mean 'bf16'?"},
        BadUsage{{"--on-device-lost", "redistibute"}, "or redistribute; did you mean 'redistribute'?"},
        BadUsage{{"--reduction", "maen"}, "not 'maen'; did you mean 'mean'?"},
        BadUsage{{"--task", "regresion"}, "not 'regresion'; did you mean 'regression'?"},
        BadUsage{{"--augment", "flip,corp:4"}, "not 'flip,corp:4'; did you mean 'crop'?"},
        BadUsage{{"--clip", "nrom:1"}, "norm:1.0 or value:0.5; did you mean 'norm'?"},
        BadUsage{{"--row-weights", "measure"}, "not 'measure'; did you mean 'measured'?"},
        BadUsage{{"--model", "gpt:layer=2"}, "at most 1000 layers; did you mean 'layers'?"},
        BadUsage{{"--log-level", "loud"}, "--log-level takes trace"},
        BadUsage{{"--log-level", "wran"}, "error or off, not 'wran'; did you mean 'warn'?"},
        BadUsage{{"--classes", "0", "--data", "x"}, "--classes takes a whole number from 1 to 256, not '0'"},
        BadUsage{{"--classes", "300", "--data", "x"}, "from 1 to 256, not '300'"},
        BadUsage{{"--classes", "2"}, "--classes needs --data"},
        BadUsage{{"--layers", "trace"}, "--layers must come before the subcommand"},
        BadUsage{{"--epoch", "2"}, "unknown option '--epoch'; did you mean '--epochs'?"},
        BadUsage{{"--no-such"}, "unknown option '--no-such'; yoke train --help lists the options"},
        BadUsage{{"extra"}, "too many arguments"}));

TEST(YokeTrain, SchedulesTakeTheOptionsThatTheyNeed) {
  for (const std::string schedule : {"step:every=2", "step:warmup=1,every=2", "exponential:gamma=0.9"}) {
    EXPECT_EQ(run({"train", "--steps", "3", "--schedule", schedule}).code, 0) << schedule;
  }
}

TEST(YokeTrainError, EmptyValuesAreWrongUsage) {
  for (const std::string name :
       {"--save", "--data", "--model", "--backend", "--shards", "--lr", "--option"}) {
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{"train", name, ""}, std::vector<std::string>{"train", name + "="}}) {
      const auto outcome = run(words);
      EXPECT_EQ(outcome.code, 2) << name;
      EXPECT_EQ(outcome.err, "yoke: " + name + " has an empty value; is a shell variable not set?\n");
    }
  }
}

TEST(YokeTrainError, MessagesNameNoFieldsOfTheLibrary) {
  for (const std::vector<std::string>& words : std::vector<std::vector<std::string>>{
           {"train", "--backend", "cc:0"},
           {"train", "--backend", "CC"},
           {"train", "--backend", "cc:1,cc"},
           {"train", "--batch", "3000"},
           {"train", "--option", "x"},
           {"train", "--merge", "none"},
           {"--plugin-option", "CC.devices=2", "train"},
           {"--plugin-option", "cc.devices=x", "train"},
           {"--plugin-option", "cc.devices=1", "--plugin-option", "cc.devices=2", "train"},
           {"--plugin-allow-list", "/nowhere", "train"}}) {
    const auto outcome = run(words);
    EXPECT_NE(outcome.code, 0) << words.back();
    EXPECT_THAT(outcome.err, Not(AnyOf(HasSubstr("::"), HasSubstr("options."), HasSubstr("backend_name"),
                                       HasSubstr("data_parallel"), HasSubstr("plugin_options"))));
  }
}

TEST(YokeTrainError, UnknownBackendListsTheBackendsFound) {
  const auto outcome = run({"train", "--backend", "quantum"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("quantum"), HasSubstr("cc"), HasSubstr("null")));
  EXPECT_EQ(outcome.out, "");
}

TEST(YokeTrainError, InvalidDeviceOptionsFailBeforeTheDataIsRead) {
  const auto error_of = [](const std::string& option) {
    const auto outcome = run({"train", "--data", "/nowhere", "--option", "threads=1", "--option", option});
    EXPECT_EQ(outcome.code, 2) << option;
    EXPECT_EQ(outcome.out, "");
    return outcome.err;
  };
  EXPECT_EQ(error_of("thread=2"),
            "yoke: --option: cc: option 'thread' is unknown; the options are threads, kernels, pin, "
            "memory_limit; did you mean 'threads'?\n");
  EXPECT_EQ(error_of("kernels=sse9"),
            "yoke: --option: cc: option 'kernels' is 'sse9'; its values are best, plain, avx2, avx512\n");
  EXPECT_EQ(error_of("pin=yes"), "yoke: --option: cc: option 'pin' must be on or off, not 'yes'\n");
  EXPECT_EQ(error_of("threads=2"), "yoke: --option: cc: option 'threads' is given twice\n");
  EXPECT_EQ(error_of("pin"), "yoke: --option: cc: 'pin' is not an option; write name=value\n");
}

TEST(YokeTrainError, KernelThatNeverReturnsEndsTheRunAfterOneTimeout) {
  const test::UserFolder folder;
  folder.place("kernel_hangs");
  const auto start = std::chrono::steady_clock::now();
  const auto outcome = run({"--probe", "none", "train", "--backend", "kernel_hangs", "--shards", "2",
                            "--epochs", "1", "--wait-timeout", "4"});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("; --wait-timeout sets a limit other than 4 s\n"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("abort the stream")));
  if (test::kTriesAll) {  // with a sanitizer, the rest of the run may take longer than the timeout
    EXPECT_LT(seconds.count(), 7.9) << "twice the timeout";
  }
}

TEST(YokeTrainError, AbortThatIsNotLateDoesNotMentionTheTimeout) {
  const test::UserFolder folder;
  folder.place("kernel_aborts");
  const auto outcome =
      run({"--probe", "none", "train", "--backend", "kernel_aborts", "--shards", "2", "--epochs", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the driver has aborted the kernel"));
  EXPECT_THAT(outcome.err, testing::Not(HasSubstr("--wait-timeout")));
}

TEST(YokeTrain, BackendThatComputesNothingIsMentioned) {
  const auto outcome = run({"train", "--backend", "null", "--epochs", "1"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.err, HasSubstr("yoke: warning: the backend 'null' computes nothing"));
}

TEST(YokeTrainError, TooLittleMemoryIsRefusedWithTheNumbers) {
  const auto outcome = run({"train", "--epochs", "1", "--shards", "1", "--option", "memory_limit=4096"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("yoke: this run needs "), HasSubstr(" KiB on cc:0, but 4.0 KiB are available"),
                    HasSubstr("Needed: cc:0 "), HasSubstr("(parameters 2.2 KiB, gradients 0 bytes, "),
                    HasSubstr("data 17.6 KiB)"), HasSubstr(" in total; use fewer shards"),
                    HasSubstr("--force to start anyway")));
  EXPECT_EQ(test::line_count(outcome.err), 1U);
  // The weights of the second layer alone have 4 TB.
  const auto huge = run({"train", "--model", "mlp:1000000-1000000", "--shards", "4"});
  EXPECT_EQ(huge.code, 1);
  EXPECT_THAT(huge.err, AllOf(HasSubstr(" TiB of host memory, but "), HasSubstr("gradients ")));
  // One shard fits in memory; all of them do not.
  const auto many = run({"train", "--model", "mlp:1000000", "--batch", "1024", "--shards", "1024", "--option",
                         "memory_limit=8000000000"});
  EXPECT_EQ(many.code, 1);
  EXPECT_THAT(many.err,
              AllOf(StartsWith("yoke: this run needs "), HasSubstr(" GiB on cc:0, but 7.5 GiB are available"),
                    HasSubstr("use fewer shards")));
}

TEST(YokeTrainError, ForceStartsInSpiteOfTooLittleMemory) {
  const auto outcome = run({"train", "--epochs", "1", "--force", "--option", "memory_limit=1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              AllOf(StartsWith("yoke: warning: this run needs "), HasSubstr("because of --force\n"),
                    HasSubstr("yoke: "),
                    HasSubstr("device 0 is out of memory: 2304 bytes requested, 0 of 1 in use")));
}

TEST(YokeTrainError, StrictFailsForABackendWithoutPrograms) {
  const test::UserFolder folder;
  folder.place("memory");
  const auto outcome = run({"--probe", "none", "train", "--backend", "memory", "--strict"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err,
              StartsWith("yoke: memory:0: backend 'memory' does not run programs (it does not provide "
                         "yoke.program/1), and strict mode forbids the fallback to 'cc'"));
  EXPECT_EQ(test::line_count(outcome.err), 1U) << "no warning of a fallback that does not happen";
}

TEST(YokeTrainError, BatchLargerThanTheDataIsReported) {
  const auto outcome = run({"train", "--batch", "2001"});
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(outcome.err, "yoke: --batch 2001 exceeds the 2000 training examples; use a smaller batch\n");
}

TEST(YokeTrainError, UnusableDataFoldersAreReported) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path();
  EXPECT_THAT(run({"train", "--data", path}).err, HasSubstr("the folder " + path + " is empty"));
  EXPECT_THAT(run({"train", "--data", path + "/none"}).err, HasSubstr("No such file or directory"));
  test::write_file(folder / "train-images-idx3-ubyte", "short");
  const auto damaged = run({"train", "--data", path});
  EXPECT_EQ(damaged.code, 1);
  EXPECT_THAT(damaged.err, HasSubstr("train-images-idx3-ubyte: the file ends at byte 5"));
  EXPECT_EQ(test::line_count(damaged.err), 1U);
  std::filesystem::permissions(path, std::filesystem::perms::none);
  // Root may read every folder, so the command runs as an unprivileged user, who may not be able to start it.
  const auto forbidden = test::Command({"train", "--data", path}, std::nullopt, true).wait();
  if (forbidden.code == 127) {
    GTEST_SKIP() << "an unprivileged user cannot start " << YOKE_TEST_COMMAND;
  }
  EXPECT_THAT(forbidden.err, HasSubstr("Permission denied"));
}

TEST(YokeTrainError, PipesDevicesAndFilesThatOnlyLookLikeGzipAreRefused) {
  const test::TemporaryFolder folder;
  const auto images = folder / "train-images-idx3-ubyte";
  const auto error = [&] {
    const auto outcome = run({"train", "--data", folder.path()});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_EQ(test::line_count(outcome.err), 1U);
    return outcome.err;
  };
  ASSERT_EQ(::mkfifo(images.c_str(), 0600), 0);
  EXPECT_THAT(error(), HasSubstr("it is a pipe or a device, not a regular file"));
  std::filesystem::rename(images, folder / "x.txt");
  EXPECT_THAT(run({"train", "--data", folder / "x.txt"}).err,
              HasSubstr("it is a pipe or a device, not a regular file"));
  std::filesystem::create_symlink("/dev/zero", images);
  EXPECT_THAT(error(), HasSubstr("it is a pipe or a device, not a regular file"));
  std::filesystem::remove(images);
  test::write_file(images.string() + ".gz", "<html>Not found</html>");
  EXPECT_THAT(error(), HasSubstr("train-images-idx3-ubyte.gz: it is not a gzip file, despite its name"));
  EXPECT_THAT(run({"train", "--data", images.string() + ".gz"}).err,
              HasSubstr("is neither a folder of images nor, by its name, a table"));
}

TEST(YokeTrainError, LabelOutOfRangeIsReported) {
  const test::TemporaryFolder folder;
  for (const std::string part : {"train", "t10k"}) {
    test::write_file(folder / (part + "-images-idx3-ubyte"), test::idx_images(2, 1, 1, "ab"));
    test::write_file(folder / (part + "-labels-idx1-ubyte"), test::idx_labels({9, 10}));
  }
  const auto outcome = run({"train", "--data", folder.path(), "--classes", "10", "--batch", "1"});
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(
      outcome.err,
      HasSubstr(
          "train-labels-idx1-ubyte: label 10 of item 1, at byte 9, is out of range for 10 classes (0 to 9)"));
}

TEST(YokeTrainError, UnusableSaveTargetFailsBeforeTraining) {
  const test::TemporaryFolder folder;
  const auto missing = run({"train", "--save", folder / "none/a.npz"});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.err, AllOf(HasSubstr("cannot save to"), HasSubstr("create its folder first")));
  EXPECT_EQ(missing.out, "");
  test::write_file(folder / "file", "");
  EXPECT_THAT(run({"train", "--save", folder / "file"}).err, HasSubstr("file is a file, not a folder; "));
}

TEST(YokeTrainError, FullDiskIsReportedAtTheEnd) {
  const test::TemporaryFolder folder;
  // Enough for the check before training, not for the 500 x 2 + 500 + 2 x 500 + 2 parameters after it.
  const auto outcome =
      test::Command({"train", "--epochs", "1", "--model", "mlp:500", "--json", "--save", folder / "a.npz"},
                    5000)
          .wait();
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("yoke: cannot save to " + (folder / "a.npz").string() +
                                     ": File too large; free some space"));
  EXPECT_EQ(test::json_value(outcome.last_line(), "saved"), "null");
  EXPECT_THAT(folder.names(), IsEmpty());
}

}  // namespace
}  // namespace yoke
