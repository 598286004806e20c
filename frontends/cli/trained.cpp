// SPDX-License-Identifier: Apache-2.0
// frontends/cli/trained.cpp: rebuilds a trained model from the notes of its checkpoint.
#include "trained.h"

#include <yoke/checkpoint.h>

#include <algorithm>
#include <set>
#include <utility>

#include "global_options.h"
#include "text.h"
#include "train_checkpoints.h"
#include "train_setup.h"

namespace yoke::cli {

void describe_trained(CommandLine& line, TrainedOptions& options) {
  line.text("from", &options.from,
            "folder of checkpoints that yoke train --save has written: its best if it has one, otherwise its "
            "latest; or one checkpoint",
            "DIR");
  line.text("backend", &options.backend, "backend to compute on, default cc", "NAME");
  line.texts("option", &options.device_options,
             "option of the device, may be repeated; yoke backends --help-options BACKEND lists them",
             "[BACKEND.]NAME=VALUE");
  line.text("log-level", &options.log_level,
            "trace, debug, info (default with --layers), warn (default), error or off", "NAME");
}

namespace {

std::string note_of(const Checkpoint& checkpoint, const std::string& name, const std::string& where) {
  const auto found = checkpoint.notes.find(name);
  if (found == checkpoint.notes.end()) {
    throw Error(
        ErrorCode::kFailedPrecondition,
        where + " has no note '" + name +
            "', because another program or an older version of yoke wrote it; save it again with yoke "
            "train --resume");
  }
  return found->second;
}

nn::Module module_of(const Trained& trained, const std::string& where) {
  const auto unknown = [&] {
    return Error(ErrorCode::kDataLoss, where + ": the model '" + trained.model.substr(0, 100) +
                                           "' is unknown, or does not fit the data; use another checkpoint, "
                                           "or train again");
  };
  try {
    const ModelKind kind = model_kind(trained.model);
    const bool is_text = kind == ModelKind::kText;
    if (is_text != (trained.data.kind == DataKind::kText) ||
        (kind == ModelKind::kImages && trained.data.kind != DataKind::kImages)) {
      throw unknown();
    }
    return make_model(trained.model, trained.data.output_count, trained.data.row_count,
                      trained.data.column_count);
  } catch (const UsageError&) {
    throw unknown();
  }
}

// Called before the model's expressions are built, because these may be many.
void check_names(const Trained& trained, const std::string& where) {
  std::set<std::string> names;
  for (const NamedArray& array : trained.parameters) {
    names.insert(array.name);
  }
  const std::vector<Parameter> all = nn::parameters_and_states(trained.module);
  const auto missing = std::find_if(
      all.begin(), all.end(), [&](const Parameter& parameter) { return !names.contains(parameter.name()); });
  if (missing != all.end() || names.size() != all.size()) {
    throw Error(ErrorCode::kDataLoss,
                where + ": the parameters are not those of the model " + trained.model.substr(0, 100) +
                    (missing != all.end() ? ", which has '" + missing->name() + "'" : std::string()) +
                    "; use another checkpoint, or train again");
  }
}

}  // namespace

Trained load_trained(const TrainedOptions& options) {
  check_backend_name(options.backend);
  if (options.from.empty()) {
    throw UsageError("--from is missing; give a folder of checkpoints that yoke train --save has written");
  }
  Trained trained;
  Checkpoint checkpoint = load_best_or_latest(options.from);
  trained.checkpoint = checkpoint.folder;
  const std::string where = trained.checkpoint.string();
  trained.step = checkpoint.state.step;
  trained.model = note_of(checkpoint, "model", where);
  trained.data = parse_preparation(note_of(checkpoint, kDataNote, where), where);
  trained.parameters = std::move(checkpoint.state.parameters);
  trained.module = module_of(trained, where);
  check_names(trained, where);
  return trained;
}

Predictor make_predictor(const TrainedOptions& options, Trained& trained) {
  RuntimeOptions given = runtime_options();
  if (!options.log_level.empty()) {
    given.log_level = log_level_by_name(options.log_level);
  }
  const auto runtime = std::make_shared<Runtime>(make_runtime(given));
  const std::vector<std::shared_ptr<Backend>> backends = {runtime->backend(options.backend)};
  warn_of_null(backends);
  return Predictor(std::move(trained.parameters), trained.module,
                   {.backend_name = options.backend,
                    .device_options = device_options(options.device_options, backends),
                    .runtime = runtime});
}

}  // namespace yoke::cli
