// SPDX-License-Identifier: Apache-2.0
// plugins/codegen/attention_backward.cpp: the gradient of attention in three kernels. One computes what each query
// needs; one has keys and values in registers and goes over the queries that see them; one has queries and goes over
// keys. Both compute the weights again, so that sums stay in registers and have a fixed order.
#include <algorithm>
#include <numbers>
#include <string_view>

#include "attention_kernel.h"

namespace yoke::codegen::attention {
namespace {

using matmul::fill_in;
using matmul::Values;

constexpr std::int64_t kPadding = 128;  // maximum queries per block

// In the order of LibraryAttention::volumes.
enum Number : std::size_t { kQ, kK, kV, kO, kOGradient, kQGradient, kKGradient, kVGradient };

std::int64_t padded_queries(const LibraryAttention& attention) {
  const auto queries = static_cast<std::int64_t>(attention.volumes[kQ].dims[2]);
  return (queries + kPadding - 1) / kPadding * kPadding;
}

// For each query, the statistic for exp2, and the sum of its result times the gradient of it. Queries that pad the
// last block have zeros.
std::string queries_kernel(const LibraryAttention& attention, const std::string& type) {
  const Rows o = {"o", &attention.volumes[kO]};
  const Rows g = {"g", &attention.volumes[kOGradient]};
  std::string text =
      R"((const unsigned short* p0, const unsigned short* p1, const float* p2, float* per_query) {
  const unsigned item = blockIdx.x * ($threads$ / $lanes$) + threadIdx.x / $lanes$, chunk = threadIdx.x % $lanes$;
  const int batch = item / $padded$ / $heads$, head = item / $padded$ % $heads$, row = item % $padded$;
)";
  text += pointer_text(o, "p0") + pointer_text(g, "p1");
  text += R"(  const bool in = row < $queries$, has_chunk = in && chunk < $size$ / 8u;
  const yk_16_bytes x = yk_load_halves(o + (row * $o_stride$ll + chunk * 8), o_is_aligned, has_chunk);
  const yk_16_bytes y = yk_load_halves(g + (row * $g_stride$ll + chunk * 8), g_is_aligned, has_chunk);
  const unsigned xs[4] = {x.a, x.b, x.c, x.d}, ys[4] = {y.a, y.b, y.c, y.d};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    sum = yk_multiply_add(yk_from_$type$((unsigned short)xs[i]), yk_from_$type$((unsigned short)ys[i]), sum);
    sum = yk_multiply_add(yk_from_$type$((unsigned short)(xs[i] >> 16)), yk_from_$type$((unsigned short)(ys[i] >> 16)), sum);
  }
#pragma unroll
  for (int mask = 1; mask < $lanes$; mask *= 2) sum += YK_SHUFFLE_XOR(sum, mask);
  if (chunk == 0) {
    per_query[item * 2] = in ? p2[(batch * $heads$ + head) * $queries$ll + row] * $log2e$ : 0;
    per_query[item * 2 + 1] = sum;
  }
}
)";
  return fill_in(text, {{"threads", std::to_string(kThreads) + "u"},
                        {"lanes", std::to_string(o.pitch()) + "u"},
                        {"padded", std::to_string(padded_queries(attention)) + "u"},
                        {"heads", std::to_string(attention.volumes[kQ].dims[1]) + "u"},
                        {"queries", std::to_string(o.length())},
                        {"size", std::to_string(o.size())},
                        {"type", type},
                        {"o_stride", std::to_string(o.volume->strides[2])},
                        {"g_stride", std::to_string(g.volume->strides[2])},
                        {"log2e", float_text(std::numbers::log2e)}});
}

// The next tile arrives while this one is used. `scores` become weights, and `slopes` the gradients of scores.
constexpr std::string_view kGradientLoop = R"(
  const int end = $end$;
  int stage = 0;
  if (begin < end) {
$copy_first$  }
  yk_commit_copies();
  for (int at = begin; at < end; at += $columns$) {
    YK_WAIT_FOR_COPIES(0);
    YK_SYNC();
    if (at + $columns$ < end) {
$copy_next$    }
    yk_commit_copies();
$if_seen$    float scores[$parts$][$columns$ / 8][4] = {}, slopes[$parts$][$columns$ / 8][4] = {};
$scores$$slopes$$mask$#pragma unroll
    for (int j = 0; j < $columns$ / 8; ++j) {
$per_column$#pragma unroll
      for (int i = 0; i < $parts$; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          scores[i][j][e] = yk_exp2(yk_multiply_add(scores[i][j][e], $scale$, -$statistic$));
          slopes[i][j][e] = scores[i][j][e] * (slopes[i][j][e] - $sum$);
        }
    }
    unsigned weights[$parts$][$columns$ / 16][4];
$weigh$$end_seen$    stage ^= 1;
  }
  YK_SYNC();
)";

// What a block keeps in registers, and what it goes over: keys and queries, or queries and keys.
struct Pass {
  bool has_keys = false;
  Rows own_first;   // k or q
  Rows own_second;  // v or the gradient of o
  Rows first;       // q or k, of a tile
  Rows second;      // the gradient of o, or v
  std::int64_t columns = 64;
  std::int64_t parts = 1;    // of a warp's rows, 16 each
  bool keeps_second = true;  // in registers; otherwise in shared memory, after the tiles

  std::int64_t row_chunks() const {  // of shared memory
    const std::int64_t tiles = 2 * stage_chunks() + (keeps_second ? 0 : own_second.chunks());
    return std::max(own_first.chunks() + own_second.chunks(), tiles);
  }
  std::int64_t chunks() const {  // with two floats for each query of two tiles
    return row_chunks() + (has_keys ? columns : 0);
  }
  std::int64_t stage_chunks() const { return first.chunks() + second.chunks(); }
  std::pair<Rows, Rows> tile(const std::string& stage) const {
    std::pair<Rows, Rows> made = {first, second.at(first.chunks())};
    for (Rows* rows : {&made.first, &made.second}) {
      rows->place += " + (" + stage + ") * " + std::to_string(stage_chunks() * 16);
    }
    return made;
  }
};

Pass pass_of(const LibraryAttention& attention, bool has_keys) {
  const auto& volumes = attention.volumes;
  // Smaller tiles leave registers for larger heads. More rows for a warp read shared memory less often.
  const auto [least, pitch] = std::minmax({Rows{"q", &volumes[kQ]}.pitch(), Rows{"v", &volumes[kV]}.pitch()});
  const std::size_t own = has_keys ? kK : kQ;
  const std::int64_t parts = pitch <= (has_keys ? 4 : 8) && volumes[own].dims[2] > 64 ? 2 : 1;
  const bool is_wide =
      (pitch <= 8 && parts == 1) || least * 32 < kThreads;  // each thread copies at least a chunk
  const std::int64_t columns = is_wide ? 64 : 32;
  const auto rows = [&](const char* name, std::size_t volume, bool is_own) {
    return Rows{name, &volumes[volume], is_own ? 16 * kWarps * parts : columns};
  };
  const Rows q = rows("q", kQ, !has_keys);
  const Rows k = rows("k", kK, has_keys);
  const Rows v = rows("v", kV, has_keys);
  const Rows g = rows("g", kOGradient, !has_keys);
  Pass pass = has_keys ? Pass{true, k, v, q, g, columns, parts} : Pass{false, q, g, k, v, columns, parts};
  // Two sums, or a sum and two factors, of 128 elements fit in the registers of a thread, but no more.
  pass.keeps_second = !has_keys || q.steps() + v.steps() <= 12;
  pass.own_second = pass.own_second.at(pass.keeps_second ? pass.own_first.chunks() : 2 * pass.stage_chunks());
  return pass;
}

// Copies of a tile to one of two places.
std::string copies_text(const Pass& pass, const std::string& stage, const std::string& from) {
  const auto [first, second] = pass.tile(stage);
  std::string text = copy_text(first, from) + copy_text(second, from);
  if (pass.has_keys) {
    text += fill_in(R"(    if (tid < $columns$ / 2)
      yk_copy_async(queries + (($stage$) * ($columns$ / 2) + tid), per_query + (batch * $heads$ + head) * ($padded$ll * 2) + (($from$) * 2 + tid * 4), true);
)",
                    {{"stage", stage}, {"from", from}});
  }
  return text;
}

std::string end_text(const LibraryAttention& attention, const Pass& pass) {
  const std::string length = std::to_string(pass.first.length());
  return pass.has_keys || !attention.is_causal
             ? length
             : fill_in("first + $rows$ < $length$ ? first + $rows$ : $length$",
                       {{"rows", std::to_string(pass.own_first.count)}, {"length", length}});
}

// dv += weights * gradients of o; dk += slopes * q. Or dq += slopes * k.
std::string weigh_all_text(const Pass& pass, const std::string& type) {
  const auto [first, second] = pass.tile("stage");
  std::string text;
  if (pass.has_keys) {
    text += round_text("weights", "scores", pass.parts, pass.columns, type) +
            weigh_text(second, "second_sums", "weights", pass.parts, type);
  }
  return text + round_text("weights", "slopes", pass.parts, pass.columns, type) +
         weigh_text(first, "first_sums", "weights", pass.parts, type);
}

constexpr std::string_view kPerColumn =
    R"(      const yk_16_bytes query = queries[stage * ($columns$ / 2) + j * 4 + lane % 4];
      const float statistics[2] = {YK_BITS(float, query.a), YK_BITS(float, query.c)};
      const float row_sums[2] = {YK_BITS(float, query.b), YK_BITS(float, query.d)};
)";

constexpr std::string_view kPerRow =
    R"(  const float* of_query = per_query + ((batch * $heads$ + head) * $padded$ll + warp_first + lane / 4) * 2;
  float statistics[$parts$][2], row_sums[$parts$][2];
#pragma unroll
  for (int i = 0; i < $parts$; ++i)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      statistics[i][r] = of_query[i * 32 + r * 16];
      row_sums[i][r] = of_query[i * 32 + r * 16 + 1];
    }
)";

// Whether the kernel needs more shared memory than it may declare.
bool is_dynamic(const Pass& pass) {
  constexpr std::int64_t kDeclared = 49152;
  return pass.chunks() * 16 > kDeclared;
}

// Until the loop: the memory of a block, and its factors in registers.
std::string start_text(const LibraryAttention& attention, const Pass& pass) {
  const bool has_keys = pass.has_keys;
  std::string text =
      place_text(attention, pass.own_first.length(), pass.own_first.count, attention.is_causal && !has_keys);
  text += is_dynamic(pass)
              ? "  extern __shared__ yk_16_bytes rows_shared[];\n  yk_16_bytes* shared = rows_shared;\n"
              : "  YK_SHARED yk_16_bytes shared[" + std::to_string(pass.chunks()) + "];\n";
  text += "  const yk_place place = yk_place_of(shared);\n";
  text += has_keys ? "  yk_16_bytes* queries = shared + " + std::to_string(pass.row_chunks()) + ";\n" : "";
  text += "  const int warp_first = first + (int)warp * (16 * $parts$);\n";
  const char* const parameters[] = {"p0", "p1", "p2", "", "p3"};
  const char* const names[] = {"q", "k", "v", "", "g"};
  for (const Number number : {kQ, kK, kV, kOGradient}) {
    text += pointer_text({names[number], &attention.volumes[number]}, parameters[number]);
  }
  for (const Rows& rows : {pass.own_first, pass.own_second, pass.first, pass.second}) {
    text += from_text(rows);
  }
  text += copy_text(pass.own_first, "first") + copy_text(pass.own_second, "first");
  text += "  yk_commit_copies();\n  YK_WAIT_FOR_COPIES(0);\n  YK_SYNC();\n";
  text += "  unsigned first_x[$parts$][$first_steps$][4];\n";
  text += factor_text(pass.own_first, "first_x", pass.parts);
  if (pass.keeps_second) {
    text += "  unsigned second_x[$parts$][$second_steps$][4];\n" +
            factor_text(pass.own_second, "second_x", pass.parts);
  }
  text += "  YK_SYNC();\n  float first_sums[$parts$][$first_steps$ * 2][4] = {};\n";
  text += has_keys ? "  float second_sums[$parts$][$second_steps$ * 2][4] = {};\n" : std::string(kPerRow);
  return text + "  const int begin = " + (has_keys && attention.is_causal ? "first" : "0") + ";\n";
}

std::string results_text(const LibraryAttention& attention, const Pass& pass, const std::string& type) {
  const Number number = pass.has_keys ? kKGradient : kQGradient;
  const Rows first = {"first_result", &attention.volumes[number], pass.own_first.count};
  std::string text = pointer_text(first, "to_first") +
                     store_text(first, "first_sums", float_text(attention.scale), pass.parts, type);
  if (pass.has_keys) {
    const Rows second =
        Rows{"second_result", &attention.volumes[kVGradient], pass.own_first.count}.at(first.chunks());
    text += pointer_text(second, "to_second") + store_text(second, "second_sums", "1.0f", pass.parts, type);
  }
  return text;
}

std::string pass_kernel(const LibraryAttention& attention, const Pass& pass, const std::string& type) {
  const bool has_keys = pass.has_keys;
  const auto [first, second] = pass.tile("stage");
  std::string text =
      "(const unsigned short* p0, const unsigned short* p1, const unsigned short* p2, "
      "const unsigned short* p3, const float* per_query, unsigned short* to_first";
  text += (has_keys ? ", unsigned short* to_second) {\n" : ") {\n") + start_text(attention, pass);
  text.append(kGradientLoop).append(results_text(attention, pass, type));
  const bool may_skip = attention.is_causal && !has_keys && pass.parts > 1;
  return fill_in(text + "}\n",
                 {{"parts", std::to_string(pass.parts)},
                  {"if_seen", may_skip ? "    if (at < warp_first + 16 * $parts$) {\n" : ""},
                  {"end_seen", may_skip ? "    }\n" : ""},
                  {"columns", std::to_string(pass.columns)},
                  {"heads", std::to_string(attention.volumes[kQ].dims[1])},
                  {"padded", std::to_string(padded_queries(attention))},
                  {"first_steps", std::to_string(first.steps())},
                  {"second_steps", std::to_string(second.steps())},
                  {"scale", float_text(attention.scale * std::numbers::log2e)},
                  {"end", end_text(attention, pass)},
                  {"copy_first", copies_text(pass, "0", "begin")},
                  {"copy_next", copies_text(pass, "stage ^ 1", "at + $columns$")},
                  {"scores", scores_text(first, "scores", "first_x", pass.parts, type)},
                  {"slopes", scores_text(second, "slopes", "second_x", pass.parts, type,
                                         pass.keeps_second ? nullptr : &pass.own_second)},
                  {"mask", mask_text(attention, "scores", pass.parts, pass.columns, "at", !has_keys)},
                  {"per_column", has_keys ? std::string(kPerColumn) : ""},
                  {"statistic", has_keys ? "statistics[e % 2]" : "statistics[i][e / 2]"},
                  {"sum", has_keys ? "row_sums[e % 2]" : "row_sums[i][e / 2]"},
                  {"weigh", weigh_all_text(pass, type)}});
}

}  // namespace

void launch_backward(Builder& builder, const LibraryAttention& attention, const std::vector<Slot>& slots,
                     const std::string& remark) {
  const std::string type = type_text(attention);
  const auto heads = static_cast<std::int64_t>(attention.volumes[kQ].dims[0] * attention.volumes[kQ].dims[1]);
  const std::int64_t queries = heads * padded_queries(attention);
  const Slot per_query = builder.scratch(static_cast<std::uint64_t>(queries) * 2 * sizeof(float));
  declare_functions(builder);
  const auto launch = [&](const std::string& text, std::int64_t blocks, std::vector<Slot> used,
                          std::int64_t dynamic_bytes = 0) {
    Launch made;
    made.kernel =
        builder.kernel(static_cast<std::uint32_t>(kThreads), text, static_cast<std::uint32_t>(dynamic_bytes));
    made.grid[0] = static_cast<std::uint32_t>(blocks);
    made.slots = std::move(used);
    made.remark = remark;
    builder.launch(std::move(made));
  };
  const std::int64_t lanes = Rows{"o", &attention.volumes[kO]}.pitch();
  launch(queries_kernel(attention, type), queries * lanes / kThreads,
         {slots[kO], slots[kOGradient], slots[8], per_query});
  for (const bool has_keys : {true, false}) {
    const Pass pass = pass_of(attention, has_keys);
    std::vector<Slot> used = {slots[kQ],         slots[kK], slots[kV],
                              slots[kOGradient], per_query, slots[has_keys ? kKGradient : kQGradient]};
    if (has_keys) {
      used.push_back(slots[kVGradient]);
    }
    launch(pass_kernel(attention, pass, type),
           heads * ((pass.own_first.length() + pass.own_first.count - 1) / pass.own_first.count),
           std::move(used), is_dynamic(pass) ? pass.chunks() * 16 : 0);
  }
}

}  // namespace yoke::codegen::attention
