// SPDX-License-Identifier: Apache-2.0
// frontends/tensor/src/einsum.cpp: assigns labels to the axes of "bi,oi->bo" or "b i; o i => b o". Axes such as 2*o+k
// become windows.
#include <yoke/ops.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "einsum_spec.h"
#include "node.h"

namespace yoke {
namespace {

using detail::einsum_spec::axis_of;
using detail::einsum_spec::has_rest;
using detail::einsum_spec::plain;
using detail::einsum_spec::Spec;
using detail::einsum_spec::Term;
using detail::einsum_spec::Terms;

// Numbers the index names and the axes of `...`. Keeps the size of each, and what determined it.
class Labels {
 public:
  Labels(const Spec& spec, const std::vector<Tensor>& args) : spec_(spec) {
    for (std::size_t i = 0; i < args.size(); ++i) {
      const Terms& terms = spec.operands[i];
      const bool rest = has_rest(terms);
      const std::size_t named = terms.size() - (rest ? 1 : 0);
      if (args[i].rank() < named || (!rest && args[i].rank() != named)) {
        detail::fail(spec.text + ": operand " + std::to_string(i + 1) + " has " +
                     detail::counted(named, "index", "indices") + (rest ? " besides `...`" : "") + ", but " +
                     detail::describe(args[i]) + " has rank " + std::to_string(args[i].rank()));
      }
      rest_rank_ = std::max(rest_rank_, rest ? args[i].rank() - named : 0);
    }
    for (std::size_t k = 0; k < rest_rank_; ++k) {
      extents.push_back(1);  // the axes of `...` have the labels 0, 1, ...
      origins_.emplace_back();
    }
  }

  // One label per axis of the operand. All terms are plain.
  std::vector<int> of_operand(const Terms& terms, const Tensor& arg) {
    std::vector<int> labels;
    std::size_t axis = 0;
    for (const Term& term : terms) {
      if (!term.is_rest()) {
        labels.push_back(named(term.name, arg.dims()[axis++], detail::describe(arg)));
        continue;
      }
      const std::size_t own = arg.rank() - (terms.size() - 1);
      for (std::size_t k = 0; k < own; ++k) {
        labels.push_back(rest(rest_rank_ - own + k, arg.dims()[axis++], detail::describe(arg)));
      }
    }
    return labels;
  }

  std::vector<int> of_result(const Terms& terms) {
    std::vector<int> labels;
    for (const Term& term : terms) {
      if (term.is_rest()) {
        for (std::size_t k = 0; k < rest_rank_; ++k) {
          labels.push_back(static_cast<int>(k));
        }
        continue;
      }
      const auto found = numbers_.find(term.name);
      if (!term.is_plain() || found == numbers_.end()) {
        detail::fail(spec_.text + ": index " + term.text + " of the result " +
                     (term.is_plain() ? "does not appear in any operand" : "must be a letter or a word"));
      }
      if (std::find(labels.begin(), labels.end(), found->second) != labels.end()) {
        detail::fail(spec_.text + ": index " + term.text + " appears twice in the result");
      }
      labels.push_back(found->second);
    }
    return labels;
  }

  bool has(const std::string& name) const { return numbers_.contains(name); }
  std::uint64_t extent(const std::string& name) const { return extents[label_of(name)]; }
  // "o is 3 in 'y' [3]".
  std::string text(const std::string& name) const {
    return name + " is " + std::to_string(extent(name)) + " in " + origins_[label_of(name)];
  }

  // The label of an index, whose size is `extent` in `origin`.
  int named(const std::string& name, std::uint64_t extent, const std::string& origin) {
    const auto [found, is_new] = numbers_.try_emplace(name, static_cast<int>(extents.size()));
    if (is_new) {
      extents.push_back(extent);
      origins_.push_back(origin);
    } else if (const auto label = static_cast<std::size_t>(found->second); extents[label] != extent) {
      mismatch("index " + name, label, extent, origin);
    }
    return found->second;
  }

  Dims extents;

 private:
  std::size_t label_of(const std::string& name) const { return static_cast<std::size_t>(numbers_.at(name)); }

  int rest(std::size_t label, std::uint64_t extent, const std::string& origin) {
    if (extents[label] == 1) {
      extents[label] = extent;
      origins_[label] = origin;
    } else if (extent != 1 && extents[label] != extent) {
      mismatch("axis " + std::to_string(label) + " of `...`", label, extent, origin);
    }
    return static_cast<int>(label);
  }

  [[noreturn]] void mismatch(const std::string& what, std::size_t label, std::uint64_t other_extent,
                             const std::string& other) const {
    detail::fail(spec_.text + ": " + what + " is " + std::to_string(extents[label]) + " in " +
                 origins_[label] + " but " + std::to_string(other_extent) + " in " + other);
  }

  const Spec& spec_;
  std::size_t rest_rank_ = 0;
  std::map<std::string, int> numbers_;
  std::vector<std::string> origins_;
};

// Replaces the axes of terms such as 3, 2*o and 2*o+k by views whose axes have plain indices.
class TermViews {
 public:
  TermViews(Spec* spec, std::vector<Tensor>* args, Labels* labels)
      : spec_(*spec), args_(*args), labels_(*labels) {}

  void expand() {
    for (std::size_t i = 0; i < args_.size(); ++i) {
      select(i);
      for (std::size_t t = 0; t < spec_.operands[i].size(); ++t) {
        const Term& term = spec_.operands[i][t];
        if (term.is_plain() && !term.is_rest()) {
          labels_.named(term.name, args_[i].dims()[axis_of(spec_.operands[i], t, args_[i])],
                        detail::describe(args_[i]));
        }
      }
    }
    while (expand_one()) {
    }
  }

 private:
  // Elements and strides: 3 and 2*o.
  void select(std::size_t i) {
    Terms& terms = spec_.operands[i];
    Tensor& arg = args_[i];
    for (std::size_t t = 0; t < terms.size();) {
      Term& term = terms[t];
      if (term.is_plain() || !term.other.empty()) {
        ++t;
        continue;
      }
      const std::size_t axis = axis_of(terms, t, arg);
      const std::uint64_t extent = arg.dims()[axis];
      if (!term.name.empty()) {
        const std::string origin = term.text + " of " + detail::describe(arg);
        arg = slice(arg, static_cast<int>(axis), 0, extent, term.factor);
        labels_.named(term.name, arg.dims()[axis], origin);
        term = plain(term.name);
        continue;
      }
      if (term.factor >= extent) {
        detail::fail(spec_.text + ": element " + term.text + " is out of range for axis " +
                     std::to_string(axis) + " of " + detail::describe(arg));
      }
      arg = squeeze(slice(arg, static_cast<int>(axis), term.factor, term.factor + 1), static_cast<int>(axis));
      terms.erase(terms.begin() + static_cast<std::ptrdiff_t>(t));
    }
  }

  // A sum with an index whose size is known. Returns false without sums.
  bool expand_one() {
    const Term* unknown = nullptr;
    std::string origin;
    for (std::size_t i = 0; i < args_.size(); ++i) {
      for (std::size_t t = 0; t < spec_.operands[i].size(); ++t) {
        const Term& term = spec_.operands[i][t];
        if (term.other.empty()) {
          continue;
        }
        if (labels_.has(term.other) || (labels_.has(term.name) && !term.is_padded)) {
          expand(i, t);
          return true;
        }
        unknown = &term;
        origin = detail::describe(args_[i]);
      }
    }
    if (unknown != nullptr) {
      detail::fail(spec_.text + ": the sizes of " + unknown->name + " and " + unknown->other + " in " +
                   unknown->text + " of " + origin + " are not known; an operand needs the index " +
                   unknown->other + (unknown->is_padded ? "" : " or " + unknown->name));
    }
    return false;
  }

  void expand(std::size_t i, std::size_t t) {
    const Term term = spec_.operands[i][t];
    const std::size_t axis = axis_of(spec_.operands[i], t, args_[i]);
    const std::string origin = term.text + " of " + detail::describe(args_[i]);
    if (term.is_padded) {
      labels_.named(term.name, (args_[i].dims()[axis] - 1) / term.factor + 1, origin);
      pad_axis(term, i, axis);
    }
    const std::uint64_t last = args_[i].dims()[axis] - 1;
    const auto room = [&](const std::string& known, std::uint64_t known_factor, std::uint64_t factor) {
      const std::uint64_t start = labels_.extent(known) - 1;
      if (start > last / known_factor) {
        refuse(term, origin, last + 1);
      }
      return (last - start * known_factor) / factor + 1;
    };
    const auto part = [&](const std::string& known) { return origin + ", where " + labels_.text(known); };
    if (!labels_.has(term.name)) {
      labels_.named(term.name, room(term.other, term.other_factor, term.factor), part(term.other));
    } else if (!labels_.has(term.other)) {
      labels_.named(term.other, room(term.name, term.factor, term.other_factor), part(term.name));
    } else if (room(term.other, term.other_factor, term.factor) < labels_.extent(term.name)) {
      refuse(term, origin, last + 1);
    }
    const int at = static_cast<int>(axis);
    const Tensor all = windows(args_[i], at, labels_.extent(term.other), term.factor, term.other_factor);
    args_[i] = slice(all, at, 0, labels_.extent(term.name));
    spec_.operands[i][t] = plain(term.name);
    spec_.operands[i].push_back(plain(term.other));
  }

  // Zeros on both sides, so that there are as many windows as strides in the axis, the last one maybe cut off.
  void pad_axis(const Term& term, std::size_t i, std::size_t axis) {
    const std::uint64_t extent = args_[i].dims()[axis];
    const std::uint64_t last_start = (extent - 1) / term.factor * term.factor;
    const std::uint64_t span = last_start + (labels_.extent(term.other) - 1) * term.other_factor + 1;
    std::vector<Padding> widths(args_[i].rank());
    if (span > extent) {
      widths[axis] = {(span - extent) / 2, span - extent - (span - extent) / 2};
    }
    args_[i] = pad(args_[i], widths);
  }

  [[noreturn]] void refuse(const Term& term, const std::string& origin, std::uint64_t extent) const {
    std::string known;
    for (const std::string& name : {term.name, term.other}) {
      known += labels_.has(name) ? (known.empty() ? "" : " and ") + labels_.text(name) : "";
    }
    detail::fail(spec_.text + ": " + origin + " has " + detail::counted(extent, "element") +
                 ", too few where " + known);
  }

  Spec& spec_;
  std::vector<Tensor>& args_;
  Labels& labels_;
};

// The search for the best order of the products visits all subsets of the operands.
constexpr std::size_t kMaxOperands = 12;

Tensor einsum_of(std::string_view spec, std::vector<Tensor> args) {
  Spec parsed = detail::einsum_spec::parse(spec);
  if (parsed.operands.size() != args.size()) {
    detail::fail(parsed.text + ": expected " + detail::counted(parsed.operands.size(), "operand") + ", got " +
                 std::to_string(args.size()));
  }
  for (const Tensor& arg : args) {
    detail::require(arg, parsed.text.c_str());
    if (arg.type() != args[0].type() || arg.type() == Type::kBool) {
      detail::fail(parsed.text + ": " + detail::describe(args[0]) + " is " +
                   std::string(program::type_name(args[0].type())) + " and " + detail::describe(arg) +
                   " is " + std::string(program::type_name(arg.type())) +
                   "; all operands must have the same numeric type");
    }
  }
  if (args.size() > kMaxOperands) {
    detail::fail(parsed.text + ": " + std::to_string(args.size()) + " operands exceed the limit of " +
                 std::to_string(kMaxOperands) + "; multiply some of them first");
  }
  Labels labels(parsed, args);
  TermViews(&parsed, &args, &labels).expand();
  std::vector<std::vector<int>> of_args;
  for (std::size_t i = 0; i < args.size(); ++i) {
    of_args.push_back(labels.of_operand(parsed.operands[i], args[i]));
  }
  for (std::size_t i = 0; i < args.size(); ++i) {
    // Broadcasts axes of size 1 that stand for a longer axis of `...`: they need no index.
    detail::drop_axes(args[i], of_args[i], [&](std::size_t k) {
      return args[i].dims()[k] != labels.extents[static_cast<std::size_t>(of_args[i][k])];
    });
  }
  return detail::contract(std::move(args), std::move(of_args), labels.of_result(parsed.result),
                          labels.extents);
}

}  // namespace

Tensor einsum(std::string_view spec, const std::vector<Tensor>& operands) {
  return einsum_of(spec, operands);
}
Tensor matmul(const Tensor& a, const Tensor& b) {
  return einsum_of("... i k; ... k j => ... i j", {a, b});
}

}  // namespace yoke
