// SPDX-License-Identifier: Apache-2.0
// plugin_api/conformance/groups/args.cpp: argument structs of newer hosts, unknown flags, strides of arrays.
#include <algorithm>
#include <cstring>

#include "groups.h"
#include "small_program.h"

namespace yoke::conformance {
namespace {

constexpr std::uint64_t kUnknownFlag = std::uint64_t{1} << 40U;

// A creating function with the type and the destroying function of its object.
template <class T, auto kCreate, auto kDestroy>
struct Creator {
  static constexpr const char* kName = Function<kCreate>::kName;
  using Object = T;
  using Owner = Handle<T, kDestroy>;
  template <class Parent, class Args>
  static Answer create(const Plugin& plugin, Parent* parent, const Args* args, T** out) {
    return plugin.call<kCreate>(parent, args, out);
  }
};

// Calls visit(creator, parent, args) with valid arguments for each creating function that the plugin has.
template <class Visit>
void each_creating_call(Kit& kit, const Visit& visit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const std::vector<yoke_option> options = kit.device_options();
  visit(Creator<yoke_device, &yoke_backend_api::device_open, &yoke_backend_api::device_close>(), plugin.get(),
        device_args(kit.settings().device, options));
  visit(Creator<yoke_buffer, &yoke_backend_api::buffer_create, &yoke_backend_api::buffer_destroy>(),
        device.get(), buffer_args(64, YOKE_MEMORY_DEVICE));
  if (plugin.has_table<yoke_stream_api>()) {
    const Stream stream(device);
    visit(Creator<yoke_stream, &yoke_stream_api::stream_create, &yoke_stream_api::stream_destroy>(),
          device.get(), sized<yoke_stream_args>());
    visit(Creator<yoke_event, &yoke_stream_api::event_record, &yoke_stream_api::event_destroy>(),
          stream.get(), sized<yoke_event_args>());
  }
  if (const auto program = SmallProgram::if_any(device)) {
    const Code code = compile(device, program->text());
    const SmallRun add(device, code);
    const yoke_binding bindings[] = {binding(add.x), binding(add.y)};
    visit(Creator<yoke_code, &yoke_program_api::code_compile, &yoke_program_api::code_destroy>(),
          device.get(), program_text(program->text()));
    visit(Creator<yoke_routine, &yoke_program_api::routine_link, &yoke_program_api::routine_destroy>(),
          code.get(), link_args(0, bindings, binding(add.workspace)));
  }
}

void unknown_flags(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  each_creating_call(kit, [&](auto creator, auto* parent, auto args) {
    using Object = typename decltype(creator)::Object;
    args.flags |= kUnknownFlag;
    expect_no_object<Object>(YOKE_STATUS_UNIMPLEMENTED, text(creator.kName, " with the unknown flag 1 << 40"),
                             [&](Object** out) { return creator.create(plugin, parent, &args, out); });
  });
  Device& device = kit.device();
  const auto program = SmallProgram::if_any(device);
  if (!program) {
    return;
  }
  yoke_compile_args source = program_text(program->text());
  source.flags = kUnknownFlag;
  std::uint32_t count = 0;
  expect_code(plugin.can_compile(device.get(), source, {}, &count), YOKE_STATUS_UNIMPLEMENTED,
              "can_compile with the unknown flag 1 << 40");
  const Code code = compile(device, program->text());
  const SmallRun add(device, code);
  yoke_binding bindings[] = {binding(add.x), binding(add.y)};
  bindings[1].flags = kUnknownFlag;
  expect_no_object<yoke_routine>(
      YOKE_STATUS_UNIMPLEMENTED, "linking a binding with the unknown flag 1 << 40", [&](yoke_routine** out) {
        return plugin.routine_link(code.get(), 0, bindings, binding(add.workspace), out);
      });
}

// A newer host appends members that the plugin does not know; here, their values would be invalid.
void longer_structs(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  each_creating_call(kit, [&](auto creator, auto* parent, auto args) {
    struct {
      decltype(args) known;
      unsigned char more[128];
    } longer;
    std::memset(&longer, 0xff, sizeof longer);
    longer.known = args;
    longer.known.struct_size = sizeof longer;
    typename decltype(creator)::Object* raw = nullptr;
    const Answer answer = creator.create(plugin, parent, &longer.known, &raw);
    const typename decltype(creator)::Owner owner(plugin, answer, raw,
                                                  text(creator.kName, " with a longer argument struct"));
  });
}

// The rows, `stride` bytes apart. The bytes after the known members of a row are 0xff.
template <class Row>
std::vector<unsigned char> spread(const std::vector<Row>& rows, std::uint64_t stride) {
  std::vector<unsigned char> bytes(rows.size() * stride, 0xff);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::memcpy(bytes.data() + i * stride, &rows[i], sizeof(Row));
  }
  return bytes;
}

void longer_options(Kit& kit) {
  Plugin& plugin = kit.plugin();
  kit.device();
  std::vector<yoke_option> options;
  for (const yoke_option_spec& spec : plugin.option_specs(YOKE_OPTION_SCOPE_DEVICE)) {
    options.push_back(default_option(spec));
  }
  if (options.size() < 2) {
    unsupported("devices have fewer than two options");
  }
  constexpr std::uint32_t kStride = sizeof(yoke_option) + 40;
  const std::vector<unsigned char> rows = spread(options, kStride);
  yoke_device_args args = device_args(kit.settings().device, options);
  args.options = reinterpret_cast<const yoke_option*>(rows.data());
  args.option_stride = kStride;
  yoke_device* device = nullptr;
  expect_ok(plugin.call<&yoke_backend_api::device_open>(plugin.get(), &args, &device),
            text("opening a device with all options at their defaults, in rows of ", kStride, " bytes"));
  expect_ok(plugin.device_close(device), "closing a device");
}

void longer_bindings(Kit& kit) {
  Device& device = kit.device();
  const Plugin& plugin = kit.plugin();
  const SmallProgram program(device);
  const Code code = compile(device, program.text());
  const SmallRun add(device, code);
  constexpr std::uint32_t kStride = sizeof(yoke_binding) + 24;
  const auto rows = spread<yoke_binding>({binding(add.x), binding(add.y)}, kStride);
  const auto workspace = spread<yoke_binding>({binding(add.workspace)}, kStride);
  yoke_link_args args = sized<yoke_link_args>();
  args.bindings = reinterpret_cast<const yoke_binding*>(rows.data());
  args.binding_count = 2;
  args.binding_stride = kStride;
  args.workspace = reinterpret_cast<const yoke_binding*>(workspace.data());
  yoke_routine* raw = nullptr;
  const Answer answer = plugin.call<&yoke_program_api::routine_link>(code.get(), &args, &raw);
  const Routine routine(plugin, answer, raw, text("linking with bindings in rows of ", kStride, " bytes"));
  const auto result_of = [&](const Routine& launched) {
    add.y.write(0, Bytes(add.y.byte_count(), std::byte{1}));
    launch(plugin, launched);
    return add.y.contents();
  };
  check(result_of(routine) == result_of(add.routine), "a routine linked with bindings in rows of ", kStride,
        " bytes has another result than one linked with rows of ", sizeof(yoke_binding), " bytes");
}

// Calls `list` with every capacity, with rows that are longer and shorter than the kit's.
template <class Row, class List>
void check_rows(const char* what, const List& list) {
  constexpr unsigned char kUntouched = 0xa5;
  const auto is_untouched = [](unsigned char byte) { return byte == kUntouched; };
  std::uint32_t count = 0;
  expect_ok(list(0U, sizeof(Row), static_cast<Row*>(nullptr), &count), text(what, " without rows"));
  // Bytes, because the rows of an older plugin are shorter.
  std::vector<unsigned char> known(count * sizeof(Row), kUntouched);
  expect_ok(list(count, sizeof(Row), reinterpret_cast<Row*>(known.data()), &count),
            text(what, " with all rows"));
  for (const std::uint64_t stride :
       {std::size_t{8}, sizeof(Row) / 2 / 8 * 8, sizeof(Row), sizeof(Row) + 48}) {
    for (std::uint32_t capacity = 0; capacity <= count + 2; ++capacity) {
      const std::string how = text(what, " with rows of ", stride, " bytes and capacity ", capacity);
      // Room for all rows and more, so that a plugin that ignores the capacity is found without an overrun.
      std::vector<unsigned char> rows((count + 3) * std::max<std::uint64_t>(stride, sizeof(Row)), kUntouched);
      std::uint32_t again = UINT32_MAX;
      expect_ok(list(capacity, stride, reinterpret_cast<Row*>(rows.data()), &again), how);
      check_equal(again, count, "the count of ", how);
      const auto common = static_cast<std::ptrdiff_t>(std::min<std::size_t>(stride, sizeof(Row)));
      auto row = rows.begin();
      for (std::uint32_t i = 0; i < std::min(capacity, count); ++i) {
        const auto next = row + static_cast<std::ptrdiff_t>(stride);
        check(std::equal(row, row + common, known.begin() + static_cast<std::ptrdiff_t>(i * sizeof(Row))),
              how, " wrote row ", i, " at another place, or with other contents");
        check(std::all_of(row + common, next, is_untouched), how, " wrote past byte ", common, " of row ", i);
        row = next;
      }
      check(std::all_of(row, rows.end(), is_untouched), how, " wrote past the last row");
    }
  }
}

void lists(Kit& kit) {
  const Plugin& plugin = kit.plugin();
  if (plugin.has<&yoke_backend_api::option_specs>()) {
    check_rows<yoke_option_spec>(
        "option_specs", [&](std::uint32_t capacity, std::uint64_t stride, auto... rest) {
          return plugin.call<&yoke_backend_api::option_specs>(plugin.get(), capacity, stride, rest...);
        });
  }
  if (plugin.has_table<yoke_program_api>()) {
    check_rows<yoke_format>("formats", [&](std::uint32_t capacity, std::uint64_t stride, auto... rest) {
      return plugin.call<&yoke_program_api::formats>(plugin.get(), capacity, stride, rest...);
    });
    const auto program = SmallProgram::if_any(kit.device());
    if (!program) {
      return;
    }
    const yoke_compile_args args = program_text(program->text());
    check_rows<yoke_verdict>("can_compile", [&](std::uint32_t capacity, std::uint64_t stride, auto... rest) {
      return plugin.call<&yoke_program_api::can_compile>(kit.device().get(), &args, capacity, stride,
                                                         rest...);
    });
  }
}

}  // namespace

std::vector<Test> args_tests() {
  return {
      {"unknown-flags", "a creating call with an unknown flag fails with UNIMPLEMENTED", {40}, unknown_flags},
      {"longer-structs",
       "members that newer hosts append to argument structs are ignored",
       {5, 40},
       longer_structs},
      {"longer-options", "device_open reads options at the caller's stride", {41}, longer_options},
      {"longer-bindings", "routine_link reads bindings at the caller's stride", {41}, longer_bindings},
      {"lists",
       "lists are written up to the capacity, at the caller's stride, in longer and in shorter rows",
       {5, 12, 28, 41},
       lists},
  };
}

}  // namespace yoke::conformance
