/* SPDX-License-Identifier: Apache-2.0 */
/* tests/unit/abi/drive_plugin.c: PLUGIN.so [computes]: buffers, copies, a program, a launch, by tables. */
/* clang-format off */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <yoke/backend.h>
#define CHECK(call) do { int32_t got = (call); if (got) { printf("%s: code %d\n", #call, (int)got); return 1; } } while (0)
static const char kProgram[] = "yoke.program 1\nprogram scale(symbol k in 0..8) {\n  arg x : f32[4] in\n"
                               "  arg y : f32[4] out\n  y[i] = x[i] * 2 + f32(k)\n}\n";
int main(int argc, char** argv) {
  void* file = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
  yoke_plugin_entry_fn entry = NULL;
  if (file) *(void**)&entry = dlsym(file, YOKE_PLUGIN_ENTRY_SYMBOL);
  if (!entry) return printf("usage: drive_plugin PLUGIN.so [computes]; %s\n", file ? "no entry" : argc > 1 ? dlerror() : "no file"), 2;
  yoke_host_api host = YOKE_HOST_API_INIT;
  yoke_entry_args args = YOKE_ENTRY_ARGS_INIT;
  args.host = &host;
  yoke_plugin* plugin; yoke_device* device; yoke_buffer *x, *y, *work; yoke_code* code; yoke_routine* routine;
  yoke_entry_info info = {.struct_size = sizeof info};
  CHECK(entry(&args, &plugin, NULL));
  const yoke_backend_api* api = plugin->get_table(plugin, YOKE_BACKEND_TABLE);
  const yoke_program_api* programs = plugin->get_table(plugin, YOKE_PROGRAM_TABLE);
  CHECK(api->device_open(plugin, 0, NULL, 0, &device, NULL));
  CHECK(api->buffer_create(device, 16, YOKE_MEMORY_DEVICE, &x, NULL)); CHECK(api->buffer_create(device, 16, YOKE_MEMORY_DEVICE, &y, NULL));
  float in[4] = {1, 2, 3, 4}, out[4] = {0, 0, 0, 0}, want[4] = {7, 9, 11, 13};
  CHECK(api->from_host(NULL, x, 0, in, 16, NULL, NULL));
  yoke_program_text text = {sizeof text, YOKE_PROGRAM_FORMAT, YOKE_PROGRAM_VERSION, 0, kProgram, sizeof kProgram - 1};
  CHECK(programs->code_compile(device, &text, &code, NULL));
  CHECK(programs->code_describe(code, 0, &info, NULL));
  CHECK(api->buffer_create(device, info.workspace_byte_count, YOKE_MEMORY_DEVICE, &work, NULL));
  yoke_binding bindings[2] = {{x, 0}, {y, 0}};
  CHECK(programs->routine_link(code, 0, bindings, 2, work, 0, &routine, NULL));
  CHECK(programs->routine_launch(NULL, routine, (int64_t[]){5}, 1, NULL));
  CHECK(api->to_host(NULL, y, 0, out, 16, NULL));
  programs->routine_destroy(routine), programs->code_destroy(code), api->buffer_destroy(work), api->buffer_destroy(x), api->buffer_destroy(y);
  CHECK(api->device_close(device, NULL)); plugin->destroy(plugin);
  printf("%s: y = %g %g %g %g\n", argv[1], (double)out[0], (double)out[1], (double)out[2], (double)out[3]);
  return argc > 2 && memcmp(out, want, sizeof want) ? puts("wrong: y must be 7 9 11 13"), 1 : 0;
}
