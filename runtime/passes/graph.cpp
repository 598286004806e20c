// SPDX-License-Identifier: Apache-2.0
// runtime/passes/graph.cpp: the definitions and uses of a program's tensors.
#include "graph.h"

#include <cassert>

namespace yoke::passes {
namespace {

bool has_place(const Places& places, Place first, Place last) {
  const auto found = std::lower_bound(places.begin(), places.end(), first);
  return found != places.end() && *found < last;
}

// Precondition: the places do not contain i.
void insert(Places& places, Place i) {
  places.insert(std::lower_bound(places.begin(), places.end(), i), i);
}

// Precondition: the places contain i.
void erase(Places& places, Place i) {
  const auto at = std::lower_bound(places.begin(), places.end(), i);
  assert(at != places.end() && *at == i &&
         "update() and remove() keep the lists in step with the statements");
  places.erase(at);
}

// Whether the value reads none of the elements of this access in the same round.
bool never_reads(const Expr& value, const Access& access) {
  bool never = true;
  program::visit_target_and_reads(value, [&](const Access& own) {
    never = never && (own.tensor != access.tensor || are_apart(own, access));
    program::visit_index_tensors(own, [&](std::uint32_t index) { never = never && index != access.tensor; });
  });
  return never;
}

}  // namespace

Graph::Graph(Program& program, Report& report, Explain explain)
    : program_(program),
      report_(report),
      explain_(explain),
      removed_(program.statements.size(), false),
      ends_(program.statements.size()),
      reads_(program.statements.size()),
      writers_(program.tensors.size()),
      readers_(program.tensors.size()) {
  for (Place i = 0; i < size(); ++i) {
    enter(i);
  }
  for (Place i = size(); i-- > 0;) {
    ends_[i] = i + 1 < size() && continues_group(i + 1) ? ends_[i + 1] : i + 1;
  }
}

void Graph::enter(Place i) {
  const Statement& statement = at(i);
  reads_[i] = tensors_read(statement);
  insert(writers_[statement.target.tensor], i);
  for (const std::uint32_t tensor : reads_[i]) {
    insert(readers_[tensor], i);
  }
}

void Graph::update(Place i, std::uint32_t old_target) {
  const std::uint32_t target = at(i).target.tensor;
  if (target != old_target) {
    erase(writers_[old_target], i);
    insert(writers_[target], i);
  }
  std::vector<std::uint32_t> now = tensors_read(at(i));
  for (const std::uint32_t tensor : reads_[i]) {
    if (!contains(now, tensor)) {
      erase(readers_[tensor], i);
    }
  }
  for (const std::uint32_t tensor : now) {
    if (!contains(reads_[i], tensor)) {
      insert(readers_[tensor], i);
    }
  }
  reads_[i] = std::move(now);
}

bool Graph::is_written(std::uint32_t tensor, Place first, Place last) const {
  return has_place(writers_[tensor], first, last);
}

bool Graph::is_touched(std::uint32_t tensor, Place first, Place last) const {
  return is_written(tensor, first, last) || has_place(readers_[tensor], first, last);
}

bool Graph::is_disturbed(Place i, Place first, Place last) const {
  return std::any_of(reads_[i].begin(), reads_[i].end(), [&](std::uint32_t tensor) {
    const Places& places = writers_[tensor];
    const auto begin = std::lower_bound(places.begin(), places.end(), first);
    const auto end = std::lower_bound(begin, places.end(), last);
    return std::any_of(begin, end,
                       [&](Place writer) { return !never_reads(at(i).value, at(writer).target); });
  });
}

Place Graph::end_of(std::uint32_t tensor) const {
  const auto end = [](const Places& places) { return places.empty() ? 0 : places.back() + 1; };
  return std::max(end(writers_[tensor]), end(readers_[tensor]));
}

void Graph::remove(Place i) {
  erase(writers_[at(i).target.tensor], i);
  for (const std::uint32_t tensor : reads_[i]) {
    erase(readers_[tensor], i);
  }
  removed_[i] = true;
  ++report_.removed;
}

void Graph::rename(std::uint32_t from, std::uint32_t to) {
  Places users = writers_[from];
  users.insert(users.end(), readers_[from].begin(), readers_[from].end());
  for (const Place i : users) {
    edit(i, [&](Statement& statement) { rename_tensor(statement, from, to); });
  }
}

std::int32_t Graph::add_hint(program::Hint hint) {
  program_.hints.push_back(std::move(hint));
  return static_cast<std::int32_t>(program_.hints.size()) - 1;
}

void Graph::reorder(const Places& order) {
  std::vector<Statement> ordered;
  ordered.reserve(order.size());
  for (const Place i : order) {
    ordered.push_back(std::move(program_.statements[i]));
  }
  program_.statements = std::move(ordered);
  removed_.assign(size(), false);
}

void Graph::finish() {
  remove_statements(program_, removed_);
}

}  // namespace yoke::passes
