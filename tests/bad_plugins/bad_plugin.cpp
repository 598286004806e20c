// SPDX-License-Identifier: Apache-2.0
// tests/bad_plugins/bad_plugin.cpp: a small backend that is bad in the way that its own file's name says:
// libyoke_backend_<case>.so. Compiled once and copied; any other name makes a good one.
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/types.h>
#include <unistd.h>
#include <yoke/backend.h>

#include <cfenv>
#include <clocale>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

struct yoke_device {
  const yoke_host_api* host;
  uint64_t live_buffer_count;
};

struct yoke_buffer {
  yoke_device* device;
  uint64_t byte_count;
  unsigned char* bytes;
};

namespace {

char own_case[128];
// One per entry: several runtimes may enter at once.
struct Plugin {
  yoke_plugin prefix;
  const yoke_host_api* host;
};

const yoke_host_api* host_of(yoke_plugin* plugin) {
  return reinterpret_cast<Plugin*>(plugin)->host;
}

bool is(const char* name) {
  return std::strcmp(own_case, name) == 0;
}

void find_own_case() {
  constexpr char kPrefix[] = "libyoke_backend_";
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&find_own_case), &info) == 0) {
    return;
  }
  const char* name = std::strstr(info.dli_fname, kPrefix);
  std::strncpy(own_case, name == nullptr ? "good" : name + sizeof(kPrefix) - 1, sizeof(own_case) - 1);
  if (char* const dot = std::strchr(own_case, '.')) {
    *dot = '\0';
  }
}

void append(const char* variable, const char* text) {
  if (const char* path = std::getenv(variable)) {
    const int file = ::open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    const std::size_t length = std::strlen(text);
    if (file < 0 || ::write(file, text, length) != static_cast<ssize_t>(length) || ::close(file) != 0) {
      std::abort();
    }
  }
}

[[noreturn]] void hang() {
  while (true) {
    ::pause();
  }
}

void* hang_in_thread(void*) {
  hang();
}

void handler(int) {}

void fork_and_stay() {
  int said[2] = {-1, -1};
  if (::pipe(said) != 0) {
    std::abort();
  }
  if (::fork() == 0) {
    char text[32] = {};
    int at = sizeof(text) - 2;
    for (pid_t rest = ::getpid(); rest > 0; rest /= 10) {
      text[at--] = static_cast<char>('0' + rest % 10);
    }
    append("YOKE_TEST_FORKED", text + at + 1);
    ::close(said[0]);
    ::close(said[1]);
    hang();
  }
  char none = 0;
  ::close(said[1]);
  if (::read(said[0], &none, 1) != 0) {
    std::abort();
  }
  ::close(said[0]);
}

void print() {
  constexpr char kText[] = "hello from a plugin\x1b[31m\n";
  if (::write(1, kText, sizeof(kText) - 1) < 0) {
    std::abort();
  }
}

// What a plugin must leave alone, and what kills a process.
void misbehave_in_constructor() {
  if (is("throw_in_constructor")) {
    throw std::runtime_error("no license\n");
  }
  if (is("crash_in_constructor")) {
    ::raise(SIGSEGV);
  } else if (is("hang_in_constructor")) {
    hang();
  } else if (is("exit_in_constructor")) {
    std::exit(3);
  } else if (is("fork_in_constructor")) {
    fork_and_stay();
  } else if (is("prints")) {
    print();
  } else if (is("prints_into_a_buffer")) {
    std::printf("hello");  // to a file this stays in the buffer until somebody flushes it
  } else if (is("float_mode")) {
    std::fesetround(FE_UPWARD);
  } else if (is("locale")) {
    std::setlocale(LC_ALL, "C.UTF-8");
  } else if (is("working_directory")) {
    if (::chdir("/") != 0) {
      std::abort();
    }
  } else if (is("environment")) {
    ::setenv("YOKE_BAD_PLUGIN", "was here", 1);
  } else if (is("signal_handler")) {
    std::signal(SIGUSR1, handler);
  } else if (is("thread")) {
    pthread_t thread{};
    ::pthread_create(&thread, nullptr, hang_in_thread, nullptr);
  }
}

int32_t fail(const yoke_host_api* host, yoke_error* error, int32_t code, const char* text) {
  host->error_set(error, code, 0, text, std::strlen(text));
  return code;
}

int32_t device_count(yoke_plugin*, uint32_t* out_count, yoke_error*) {
  *out_count = 1;
  return YOKE_OK;
}

int32_t device_describe(yoke_plugin*, uint32_t, yoke_device_info* info, yoke_error*) {
  std::strcpy(info->name, "bad");
  std::strcpy(info->unique_id, "bad:0");
  info->kind = YOKE_DEVICE_CPU;
  return YOKE_OK;
}

int32_t device_open(yoke_plugin* plugin, uint32_t, const yoke_option*, uint32_t, yoke_device** out_device,
                    yoke_error*) {
  *out_device = is("no_result") ? nullptr : new yoke_device{host_of(plugin), 0};
  return YOKE_OK;
}

int32_t device_close(yoke_device* device, yoke_error* error) {
  if (device != nullptr && device->live_buffer_count != 0) {
    return fail(device->host, error, YOKE_FAILED_PRECONDITION,
                "device 0 stays open: 1 buffer alive; destroy it first");
  }
  delete device;
  return YOKE_OK;
}

int32_t device_memory(yoke_device*, yoke_memory_info*, yoke_error*) {
  return YOKE_OK;
}

int32_t buffer_create(yoke_device* device, uint64_t byte_count, int32_t, yoke_buffer** out_buffer,
                      yoke_error*) {
  *out_buffer = new yoke_buffer{device, byte_count, new unsigned char[byte_count + 1]};
  ++device->live_buffer_count;
  return YOKE_OK;
}

void buffer_destroy(yoke_buffer* buffer) {
  if (buffer != nullptr) {
    --buffer->device->live_buffer_count;
    delete[] buffer->bytes;
    delete buffer;
  }
}

int32_t buffer_describe(yoke_buffer* buffer, yoke_buffer_info* info, yoke_error*) {
  info->byte_count = buffer->byte_count;
  info->kind = YOKE_MEMORY_DEVICE;
  return YOKE_OK;
}

int32_t from_host(yoke_stream*, yoke_buffer* dst, uint64_t dst_offset, const void* src, uint64_t byte_count,
                  int32_t* out_source, yoke_error*) {
  std::memcpy(dst->bytes + (is("from_host_forgets_offset") || is("forgets_offsets") ? 0 : dst_offset), src,
              byte_count);
  if (out_source != nullptr) {
    *out_source = YOKE_SOURCE_COPIED;
  }
  return YOKE_OK;
}

int32_t to_host(yoke_stream*, yoke_buffer* src, uint64_t src_offset, void* dst, uint64_t byte_count,
                yoke_error*) {
  std::memcpy(dst, src->bytes + (is("to_host_forgets_offset") || is("forgets_offsets") ? 0 : src_offset),
              byte_count);
  return YOKE_OK;
}

int32_t device_to_device(yoke_stream*, yoke_buffer* dst, uint64_t dst_offset, yoke_buffer* src,
                         uint64_t src_offset, uint64_t byte_count, yoke_error*) {
  std::memmove(dst->bytes + (is("copy_forgets_offset") ? 0 : dst_offset), src->bytes + src_offset,
               byte_count);
  return YOKE_OK;
}

int32_t live_counts(yoke_plugin*, yoke_live_counts*, yoke_error*) {
  return YOKE_OK;
}

int32_t option_specs(yoke_plugin*, uint32_t capacity, yoke_option_spec* specs, uint32_t* out_count,
                     yoke_error*) {
  yoke_option_spec one{};
  one.struct_size = sizeof(one);
  one.name = "speed";
  one.type = is("text_option") ? YOKE_OPTION_TEXT : YOKE_OPTION_FLAG;
  if (is("wild_option")) {
    one.help = reinterpret_cast<const char*>(16);
  }
  for (uint32_t i = 0; i < capacity && i < 2; ++i) {
    specs[i] = one;
  }
  *out_count = is("count_above_capacity") ? capacity + 1 : is("duplicate_option") ? 2 : 1;
  return YOKE_OK;
}

// Room behind the table for reading it at odd places.
struct alignas(16) Tables {
  yoke_backend_api backend;
  yoke_stream_api stream;
} tables;

const void* get_table(yoke_plugin*, const char* id) {
  if (is("throw_in_get_table")) {
    throw 42;
  }
  if (is("crash_in_get_table")) {
    ::raise(SIGSEGV);
  }
  if (std::strcmp(id, YOKE_STREAM_TABLE) == 0 && is("null_required_stream")) {
    tables.stream.struct_size = sizeof(tables.stream);
    return &tables.stream;
  }
  if (std::strcmp(id, YOKE_BACKEND_TABLE) != 0 || is("no_table")) {
    return nullptr;
  }
  if (is("wild_table")) {
    return reinterpret_cast<const void*>(16);
  }
  return is("misaligned_table") ? reinterpret_cast<const char*>(&tables.backend) + 4
                                : static_cast<const void*>(&tables.backend);
}

void destroy(yoke_plugin* plugin) {
  const yoke_host_api* const kept = host_of(plugin);
  if (is("crash_in_destroy")) {
    ::raise(SIGSEGV);
  }
  delete reinterpret_cast<Plugin*>(plugin);
  kept->log(kept->host, YOKE_LOG_INFO, "bad.destroy", 11);
  if (is("throw_in_destroy")) {
    throw std::runtime_error("still busy");
  }
}

void fill_tables() {
  yoke_backend_api& table = tables.backend;
  table = {};
  table.struct_size = is("table_size_zero")     ? 0
                      : is("table_size_small")  ? offsetof(yoke_backend_api, to_host)
                      : is("table_size_absurd") ? ~uint64_t{0}
                                                : sizeof(table);
  table.device_count = device_count;
  table.device_describe = device_describe;
  table.device_open = is("null_required")   ? nullptr
                      : is("wild_required") ? reinterpret_cast<decltype(table.device_open)>(16)
                                            : device_open;
  table.device_close = device_close;
  table.device_memory = device_memory;
  table.buffer_create = buffer_create;
  table.buffer_destroy = buffer_destroy;
  table.buffer_describe = buffer_describe;
  table.from_host = from_host;
  table.to_host = to_host;
  table.device_to_device = device_to_device;
  table.live_counts = live_counts;
  table.option_specs = is("null_optional") ? nullptr : option_specs;
}

const char* own_name() {
  static char long_name[10241];
  if (is("long_name")) {
    std::memset(long_name, 'x', sizeof(long_name) - 1);
    return long_name;
  }
  return is("wrong_name")      ? "other"
         : is("path_name")     ? "../../etc/passwd"
         : is("empty_name")    ? ""
         : is("not_utf8_name") ? "caf\xe9\x1b[2J"
         : is("null_name")     ? nullptr
         : is("wild_name")     ? reinterpret_cast<const char*>(16)
                               : own_case;
}

void fill_prefix(yoke_plugin& prefix, const yoke_entry_args& args) {
  prefix.magic = is("wrong_magic") ? 42 : YOKE_PLUGIN_MAGIC;
  prefix.prefix_size = is("prefix_size_zero")     ? 0
                       : is("prefix_size_small")  ? 16
                       : is("prefix_size_absurd") ? ~0U
                                                  : static_cast<uint32_t>(sizeof(yoke_plugin));
  prefix.abi_major = is("newer_major") ? args.max_major + 1 : args.max_major;
  prefix.abi_minor = is("newer_minor")   ? args.max_minor + 1
                     : is("older_minor") ? args.min_minor
                                         : args.max_minor;
  prefix.backend_name = own_name();
  prefix.plugin_version = is("wild_version") ? reinterpret_cast<const char*>(16) : "0.0\x07";
  prefix.vendor = nullptr;
  prefix.destroy = is("null_destroy") ? nullptr : destroy;
  prefix.get_table = is("wild_get_table") ? reinterpret_cast<decltype(prefix.get_table)>(16) : get_table;
}

__attribute__((constructor)) void construct() {
  find_own_case();
  fill_tables();
  append("YOKE_TEST_LOADED", own_case);
  misbehave_in_constructor();
}

}  // namespace

extern "C" YOKE_EXPORT int32_t yoke_plugin_entry(const yoke_entry_args* args, yoke_plugin** out_plugin,
                                                 yoke_error* error) {
  if (is("throw_in_entry")) {
    throw std::runtime_error("no device\x1b[2J");
  }
  if (is("crash_in_entry")) {
    ::raise(SIGSEGV);
  }
  if (is("hang_in_entry")) {
    hang();
  }
  if (is("refuses")) {
    return fail(args->host, error, YOKE_UNAVAILABLE, "the driver is too old\x07");
  }
  if (is("null_plugin")) {
    return YOKE_OK;
  }
  static uint64_t garbage[64];
  std::memset(garbage, 0xab, sizeof(garbage));
  if (is("garbage_plugin") || is("wild_plugin")) {
    *out_plugin =
        reinterpret_cast<yoke_plugin*>(is("wild_plugin") ? 16 : reinterpret_cast<uintptr_t>(garbage));
    return YOKE_OK;
  }
  auto* const plugin = new Plugin{{}, args->host};
  // One that cannot be trusted is never destroyed; from here the leak checker still sees it.
  static Plugin* last;
  last = plugin;
  fill_prefix(last->prefix, *args);
  *out_plugin = is("misaligned_plugin") ? reinterpret_cast<yoke_plugin*>(reinterpret_cast<char*>(plugin) + 1)
                                        : &plugin->prefix;
  return YOKE_OK;
}
