// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/include/yoke/yoke.h: includes all public headers of the tensor frontend.
#pragma once

#include <yoke/all_reduce.h>
#include <yoke/attention.h>
#include <yoke/augmentation.h>
#include <yoke/batch.h>
#include <yoke/checkpoint.h>
#include <yoke/composite.h>
#include <yoke/convolution.h>
#include <yoke/data_parallel.h>
#include <yoke/datasets.h>
#include <yoke/distributed.h>
#include <yoke/example_loop.h>
#include <yoke/gradients.h>
#include <yoke/losses.h>
#include <yoke/lower.h>
#include <yoke/mode.h>
#include <yoke/models.h>
#include <yoke/module.h>
#include <yoke/nn.h>
#include <yoke/normalization.h>
#include <yoke/npz.h>
#include <yoke/ops.h>
#include <yoke/optimizer.h>
#include <yoke/output_file.h>
#include <yoke/parallel_update.h>
#include <yoke/parameter.h>
#include <yoke/predictor.h>
#include <yoke/random.h>
#include <yoke/safetensors.h>
#include <yoke/scan.h>
#include <yoke/schedules.h>
#include <yoke/shuffle.h>
#include <yoke/tensor.h>
#include <yoke/train_helpers.h>
