// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe_protocol.h: what yoke-probe and the process that waits for it agree on.
//
// The child is started as `yoke-probe PATH NAME DEVICE INODE BYTES MODIFIED CHANGED` with a pipe as
// descriptor kProbeDescriptor. It writes lines of printable text, words between tabs; its last one is `done`.
// The plugin runs in the same process and may write anything there, so every line is checked before it is
// believed.
#pragma once

namespace yoke::loader {

constexpr int kProbeDescriptor = 3;
constexpr const char* kProbeGreeting =
    "yoke-probe 2";  // the first line; the number is the protocol's version

// The first word of the other lines.
constexpr const char* kProbeStage = "stage";  // stage, one of the four below: it begins now
constexpr const char* kProbeRefused =
    "refused";  // refused, BackendCandidate::stage, reason, mend: as the loader itself would
constexpr const char* kProbeThrew = "threw";  // threw, what(): the stage ended in std::terminate
constexpr const char* kProbeBroke = "broke";  // broke, sentence: it changed what is not its own (rule 22)
constexpr const char* kProbeDone = "done";

constexpr const char* kStageConstructor = "constructor";
constexpr const char* kStageEntry = "entry";
constexpr const char* kStageTables = "get_table";
constexpr const char* kStageDestroy = "destroy";

}  // namespace yoke::loader
