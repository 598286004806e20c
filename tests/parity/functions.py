#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Computes what functions_test.cpp wrote to a folder again with PyTorch, and compares values and gradients."""
import json
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F


def first(x):  # channels first, as PyTorch has them
    return x.movedim(-1, 1)


def last(x):
    return x.movedim(1, -1)


def by_rank(x, one, two):
    return one if x.dim() == 3 else two


def conv(o, x, w):
    return last(by_rank(x, F.conv1d, F.conv2d)(first(x), first(w), stride=o["stride"], padding=o["padding"],
                                               dilation=o["dilation"], groups=o["groups"]))


def conv_transpose(o, x, w):
    return last(by_rank(x, F.conv_transpose1d, F.conv_transpose2d)(
        first(x), first(w), stride=o["stride"], padding=o["padding"], output_padding=o["output_padding"],
        dilation=o["dilation"], groups=o["groups"]))


def max_pool(o, x):
    return last(by_rank(x, F.max_pool1d, F.max_pool2d)(
        first(x), o["window"], stride=o["stride"], padding=o["padding"], dilation=o["dilation"],
        ceil_mode=o["ceil_mode"]))


def average_pool(o, x):
    return last(by_rank(x, F.avg_pool1d, F.avg_pool2d)(
        first(x), o["window"], stride=o["stride"], padding=o["padding"], ceil_mode=o["ceil_mode"],
        count_include_pad=o["count_padding"]))


def adaptive_average_pool(o, x):
    return last(by_rank(x, F.adaptive_avg_pool1d, F.adaptive_avg_pool2d)(first(x), o["count"]))


def attention(o, q, k, v, mask=None):
    def heads(x):
        return x.transpose(1, 2)
    if mask is not None:
        mask = mask > 0
    y = F.scaled_dot_product_attention(heads(q), heads(k), heads(v), attn_mask=mask, is_causal=o["causal"],
                                       enable_gqa=True)
    return y.transpose(1, 2)


def lstm(o, x, w_in, w_state, bias):
    zero = x.new_zeros(1, x.shape[0], w_state.shape[1])
    return torch._VF.lstm(x, (zero, zero), [w_in, w_state, bias, torch.zeros_like(bias)], True, 1, 0.0, False, False,
                          True)[0]


def gru(o, x, *weights):
    zero = x.new_zeros(1, x.shape[0], weights[1].shape[1])
    return torch._VF.gru(x, zero, list(weights), True, 1, 0.0, False, False, True)[0]


def causal_mask(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def attention_weights(name, weights, is_joined=True):  # query, key, value, output: weight and bias
    given = {"in_proj_bias": torch.cat(weights[1:6:2]), "out_proj.weight": weights[6], "out_proj.bias": weights[7]}
    if is_joined:
        given["in_proj_weight"] = torch.cat(weights[0:6:2])
    else:
        given.update(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights[0:6:2]))
    return {name + own: weight for own, weight in given.items()}


def multi_head_attention(o, x, context, lengths, *weights):
    width, others = x.shape[-1], context.shape[-1]
    layer = torch.nn.MultiheadAttention(width, o["heads"], batch_first=True, kdim=others, vdim=others, dtype=x.dtype)
    blocked = torch.arange(context.shape[1])[None, :] >= lengths[:, None]
    return torch.func.functional_call(layer, attention_weights("", weights, width == others), (x, context, context),
                                      {"key_padding_mask": blocked, "need_weights": False})[0]


def pairs(names, weights):
    return {name + end: weight for name, *both in zip(names, weights[::2], weights[1::2])
            for end, weight in zip((".weight", ".bias"), both)}


def encoder_block(o, x, *w):
    layer = torch.nn.TransformerEncoderLayer(x.shape[-1], o["heads"], o["hidden"], 0.0, batch_first=True,
                                             norm_first=o["norm_first"], dtype=x.dtype)
    given = {**pairs(["norm1"], w[:2]), **attention_weights("self_attn.", w[2:10]),
             **pairs(["norm2", "linear1", "linear2"], w[10:])}
    return torch.func.functional_call(layer, given, (x,), {"src_mask": causal_mask(x.shape[1])})


def decoder_block(o, x, memory, *w):
    layer = torch.nn.TransformerDecoderLayer(x.shape[-1], o["heads"], o["hidden"], 0.0, batch_first=True,
                                             norm_first=o["norm_first"], dtype=x.dtype)
    given = {**pairs(["norm1"], w[:2]), **attention_weights("self_attn.", w[2:10]), **pairs(["norm2"], w[10:12]),
             **attention_weights("multihead_attn.", w[12:20]), **pairs(["norm3", "linear1", "linear2"], w[20:])}
    return torch.func.functional_call(layer, given, (x, memory), {"tgt_mask": causal_mask(x.shape[1])})


def grouped_attention(o, x, *w):
    def heads(i, count):
        return F.linear(x, w[i], w[i + 1]).unflatten(-1, (count, -1)).transpose(1, 2)
    y = F.scaled_dot_product_attention(heads(0, o["heads"]), heads(2, o["key_heads"]), heads(4, o["key_heads"]),
                                       is_causal=o["causal"], enable_gqa=True)
    return F.linear(y.transpose(1, 2).flatten(2), w[6], w[7])


def rotary(o, x, positions):
    half = x.shape[-1] // 2
    angles = positions[:, None] * o["base"] ** (-2.0 * torch.arange(half, dtype=torch.float64) / x.shape[-1])
    turn = torch.polar(torch.ones_like(angles), angles)[None, :, None, :]
    parts = x.unflatten(-1, (half, 2) if o["interleaved"] else (2, half)).movedim(-1 if o["interleaved"] else -2, -1)
    y = torch.view_as_real(torch.view_as_complex(parts.double().contiguous()) * turn)
    return (y if o["interleaved"] else y.movedim(-1, -2)).flatten(-2).to(x.dtype)


def sinusoidal_positions(o, x):
    length, width = x.shape[1:]
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)
    return x * torch.stack([angles.sin(), angles.cos()], -1).flatten(1).to(x.dtype)


def running_statistics(o, x, mean, variance):
    mean, variance = mean.clone(), variance.clone()
    F.batch_norm(first(x), mean, variance, training=True, momentum=o["momentum"])
    return torch.stack([mean, variance])


FUNCTIONS = {
    "conv": conv,
    "conv_transpose": conv_transpose,
    "max_pool": max_pool,
    "average_pool": average_pool,
    "adaptive_average_pool": adaptive_average_pool,
    "layer_norm": lambda o, x, w, b: F.layer_norm(x, x.shape[-o["axes"]:], w, b),
    "rms_norm": lambda o, x, w: F.rms_norm(x, x.shape[-1:], w, o["eps"]),
    "group_norm": lambda o, x, w, b: last(F.group_norm(first(x), o["groups"], w, b)),
    "batch_norm": lambda o, x, w, b, mean, var: last(
        F.batch_norm(first(x), mean.clone(), var.clone(), w, b, training=o["training"])),
    "attention": attention,
    "cross_entropy": lambda o, x, labels: F.cross_entropy(
        x.flatten(0, 1), labels.flatten(), label_smoothing=o["smoothing"],
        ignore_index=o["ignored"], reduction="sum" if o["sum"] else "mean"),
    "binary_cross_entropy": lambda o, x, t: F.binary_cross_entropy_with_logits(
        x, t, pos_weight=torch.tensor(o["positive_weight"], dtype=x.dtype)),
    "mse": lambda o, x, t: F.mse_loss(x, t),
    "hinge": lambda o, x, t: (1 - x * t).clamp(min=0).mean(),
    "mae": lambda o, x, t: F.l1_loss(x, t),
    "huber": lambda o, x, t: F.huber_loss(x, t, delta=o["delta"]),
    "kl_divergence": lambda o, x, t: F.kl_div(x, t, reduction="batchmean"),
    "linear": lambda o, x, w, b: F.linear(x, w, b),
    "tied_embedding": lambda o, table, ids: F.linear(torch.tanh(F.embedding(ids, table)), table),
    "grouped_attention": grouped_attention,
    "rotary": rotary,
    "sinusoidal_positions": sinusoidal_positions,
    "learned_positions": lambda o, x, table: x + table[:x.shape[1]],
    "global_average_pool": lambda o, x: x.flatten(1, -2).mean(1),
    "global_max_pool": lambda o, x: x.flatten(1, -2).amax(1),
    "gelu": lambda o, x: F.gelu(x),
    "gelu_tanh": lambda o, x: F.gelu(x, approximate="tanh"),
    "silu": lambda o, x: F.silu(x),
    "softplus": lambda o, x: F.softplus(x),
    "lstm": lstm,
    "gru": gru,
    "multi_head_attention": multi_head_attention,
    "encoder_block": encoder_block,
    "decoder_block": decoder_block,
    "running_statistics": running_statistics,
    "leaky_relu": lambda o, x: F.leaky_relu(x, 0.2),
}
# Relative to the largest element, and to 1. In f32, sums of up to some hundred products, which norms of few elements
# divide by small deviations.
TOLERANCES = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-4}


def difference(got, wanted):
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    error = np.abs(got - wanted).max(initial=0) / max(1, np.abs(wanted).max(initial=0))
    return None if error <= TOLERANCES[got.dtype] else f"off by {error:.3g}"


def main():
    failures = 0
    count = 0
    types = set()
    for path in sorted(pathlib.Path(sys.argv[1]).glob("*.json")):
        call = json.loads(path.read_text())
        arrays = np.load(path.with_suffix(".npz"))
        inputs = [torch.from_numpy(arrays[f"x{i}"]) for i in range(sum(key[0] == "x" for key in arrays))]
        gradients = [key for key in arrays if key[0] == "g"]
        for key in gradients:
            inputs[int(key[1:])].requires_grad_(True)
        output = FUNCTIONS[call["function"]](call["options"], *inputs)
        found = {"y": difference(arrays["y"], output.detach().numpy())}
        if found["y"] is None and gradients:
            output.backward(torch.from_numpy(arrays["dy"]))
            for key in gradients:
                found[key] = difference(arrays[key], inputs[int(key[1:])].grad.numpy())
        count += 1
        types.add(str(arrays["y"].dtype))
        for key, problem in found.items():
            if problem:
                failures += 1
                print(f"{path.stem}: {key} is {problem}: {call['options']} {[tuple(x.shape) for x in inputs]}")
    print(f"{count} calls compared with PyTorch {torch.__version__} in {sorted(types)}, {failures} differences")
    return 1 if failures or types != {"float32", "float64"} else 0


if __name__ == "__main__":
    sys.exit(main())
