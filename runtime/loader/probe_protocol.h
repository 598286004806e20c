// SPDX-License-Identifier: Apache-2.0
// runtime/loader/probe_protocol.h: the protocol between libyoke and yoke-probe.
//
// The child is started as `yoke-probe PATH NAME DEVICE INODE BYTES MODIFIED CHANGED
// [OPTION=VALUE...]` with a pipe as descriptor kProbeDescriptor. It writes lines of printable text,
// with words separated by tabs; the last line is `done`. The plugin runs in the same process and may
// write anything to the pipe, so the reader checks every line.
#pragma once

namespace yoke::loader {

constexpr int kProbeDescriptor = 3;
// The first line; the number is the version of the protocol.
constexpr const char* kProbeGreeting = "yoke-probe 3";

// The first words of the other lines.
// stage NAME: one of the stages below begins.
constexpr const char* kProbeStage = "stage";
// refused STAGE REASON FIX: the loader refused the plugin at this BackendCandidate::stage.
constexpr const char* kProbeRefused = "refused";
// threw WHAT: std::terminate was called.
constexpr const char* kProbeThrew = "threw";
// broke STAGE SETTING: the plugin changed a setting of the process (rule 22).
constexpr const char* kProbeBroke = "broke";
constexpr const char* kProbeDone = "done";

// The names of the stages, in order.
constexpr const char* kStageConstructor = "constructor";
constexpr const char* kStageEntry = "entry";
constexpr const char* kStageTables = "get_table";
constexpr const char* kStageDevices = "device_count";
constexpr const char* kStageDestroy = "destroy";

}  // namespace yoke::loader
