#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# tests/fake_gpu/tests/failures.py FAKES YOKE VENDOR: missing and old libraries, hidden devices, unknown architectures, too little memory, kernels
# that do not compile, lost devices, and the plugins' cache of kernels on disk when it is broken, shared or read-only.
import argparse
import os
import shutil
import sys

import fakes

CACHE = ("--option", "cache=on")


class Failures:
    def __init__(self, arguments):
        self.fakes = fakes.Fakes(arguments.fakes, arguments.yoke, arguments.vendor)
        self.is_cuda = arguments.vendor == "cuda"
        self.faults = []

    def expect(self, condition, what, output=""):
        if not condition:
            self.faults.append(what)
            print(f"FAILED: {what}\n{output[-2000:]}", flush=True)

    # The training must fail with a sentence that has all of the words.
    def expect_sentence(self, what, words, arguments=("--option", "cache=off"), complaint="", **variables):
        status, output, complaints = self.fakes.train(*arguments, **variables)
        self.expect(status == 1, f"{what}: the training fails with status 1, not {status}", output)
        for word in words:
            self.expect(word in output, f"{what}: the message contains '{word}'", output)
        self.expect(complaint in complaints if complaint else not complaints, f"{what}: {complaints}", output)

    def libraries(self):
        driver, compiler = ("CUDA", "NVRTC") if self.is_cuda else ("HIP", "HIPRTC")
        hint = "NVIDIA driver" if self.is_cuda else "ROCm"
        self.expect_sentence("missing driver", ["has no devices", "/nonexistent.so", hint],
                             **{f"YOKE_{driver}_LIBRARY": "/nonexistent.so"})
        self.expect_sentence("missing compiler", ["kernel compiler is missing", "/nonexistent.so", f"YOKE_{compiler}_LIBRARY"],
                             **{f"YOKE_{compiler}_LIBRARY": "/nonexistent.so"})
        self.expect_sentence("library without the functions", ["the driver is too old: libm.so.6 has no", "Init"], **{f"YOKE_{driver}_LIBRARY": "libm.so.6"})
        old = "11080" if self.is_cuda else "40300000"
        self.expect_sentence("old driver", ["the driver is too old", "11.8" if self.is_cuda else "4.3"], FAKE_GPU_DRIVER=old)

    def devices(self):
        self.expect_sentence("no device", ["has no devices", "finds no device"], FAKE_GPU_DEVICES="0")
        variables = ["CUDA_VISIBLE_DEVICES"] + ([] if self.is_cuda else ["HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"])
        for variable in variables:
            self.expect_sentence(variable, [f"{variable} hides every device"], **{variable: ""})
        unknown = {"FAKE_GPU_CAPABILITY": "42"} if self.is_cuda else {"FAKE_GPU_ARCHITECTURE": "gfx942"}
        self.expect_sentence("unknown architecture", ["does not support", list(unknown.values())[0]], **unknown)
        self.expect_sentence("too little memory", ["this run needs ", ":0, but 39.1 KiB are available", "--force"],
                             FAKE_GPU_MEMORY="40000")
        self.expect_sentence("memory used by others", ["out of device memory", "bytes requested", "in use", "free"],
                             FAKE_GPU_FAIL="memory_allocate:3:2")
        self.expect_sentence("kernel that does not compile", ["program 'gradient', statement ", self.fakes.names()["compile"],
                                                              "The log: yoke_kernels(", "error: injected"],
                             FAKE_GPU_FAIL="compile:1:6")
        self.expect_sentence("code that the driver refuses", ["refuses the code of compiler", "update the driver"],
                             FAKE_GPU_FAIL="module_load:1+:222")
        self.expect_sentence("queries that fail", ["is lost", self.fakes.names()["event_query"]],
                             FAKE_GPU_FAIL="event_query:1+:999")
        self.expect_sentence("lost device", ["step", "shard", "device", " lost"], FAKE_GPU_FAIL="kernel:700:719")

    def collectives(self):
        library = "YOKE_NCCL_LIBRARY" if self.is_cuda else "YOKE_RCCL_LIBRARY"
        native = ("--merge", "native", "--log-level", "info", "--option", "cache=off")
        for what, arguments, is_used in [("another merge", ("--merge", "tree"), False), ("native merge", ("--merge", "native"), True)]:
            _, counts = self.fakes.count_calls("--option", "cache=off", *arguments)
            self.expect((counts.get("comm_version", 0) > 0) == is_used, f"the library of collectives is opened for {what}: {is_used}")
        for what, words, variables in [
                ("missing", ["NCCL is missing" if self.is_cuda else "RCCL is missing", "/nonexistent.so"], {library: "/nonexistent.so"}),
                ("library without the functions", ["is too old: libm.so.6 has no ncclGetVersion"], {library: "libm.so.6"}),
                ("old", ["is too old: its version number is 2804"], {"FAKE_GPU_COMM": "2804"})]:
            self.expect_sentence(f"collectives, {what}", ["merge strategy native", "does not offer yoke.collectives/1", *words], native, **variables)
        self.expect_sentence("group that is too large", ["member 0 of 2", "communicator_wait", "ncclInternalError"], native, FAKE_GPU_COMM_RANKS="1")
        self.expect_sentence("group that cannot be made", ["group_id_create", "ncclSystemError"], native, FAKE_GPU_FAIL="comm_unique_id:1:2")
        self.expect_sentence("more members than devices", ["merge strategy native", "has at most 1 member, not 2"], native, FAKE_GPU_DEVICES="1")
        self.expect_sentence("collective that fails", ["shard", "member", "ncclSystemError"], native, FAKE_GPU_FAIL="comm_reduce_scatter:20:2")
        self.expect_sentence("member that is lost", ["shard", "step", "lost"], native, FAKE_GPU_FAIL="collective:31:719")

    # The training must go on without the device that fails.
    def redistribution(self):
        for merge, fault in [("auto", "kernel:700:719"), ("native", "collective:31:719"), ("native", "kernel:3:719"), ("tree", "copy:200:719")]:
            what = f"redistribution, {merge}, {fault}"
            status, output, complaints = self.fakes.train("--on-device-lost", "redistribute", "--merge", merge, "--momentum", "0.5",
                                                          "--option", "cache=off", FAKE_GPU_FAIL=fault)
            self.expect(status == 0 and not complaints, f"{what}: the training succeeds {complaints}", output)
            self.expect("shard.lost shard=" in output and " shards_left=1 " in output, f"{what}: the loss is logged", output)
            self.expect("epoch 1/1: loss 0." in output, f"{what}: the epoch is finished", output)

    # The training must succeed, with the words in its log and with the result of `expected`.
    def expect_result(self, what, expected, words, **variables):
        status, output, complaints = self.fakes.train("--option", "cache=off", "--log-level", "info", **variables)
        self.expect(status == 0 and not complaints, f"{what}: the training succeeds {complaints}", output)
        for word in words:
            self.expect(word in output, f"{what}: the log contains '{word}'", output)
        self.expect(fakes.result_of(output) == expected, f"{what}: the result is right", output)

    def architectures(self):
        expected = fakes.result_of(self.fakes.train("--option", "cache=off")[1])
        self.expect_result("device that cannot be described", expected, ["device.skip", "device=0", self.fakes.names()["device_name"]],
                           FAKE_GPU_FAIL="device_name:1:999", FAKE_GPU_DEVICES="3")
        if self.is_cuda:
            self.expect_result("two architectures", expected, ["sm_80", "sm_90"], FAKE_GPU_CAPABILITY="80,90")
            self.expect_result("device that is newer than the compiler", expected,
                               ["code.portable", "device=sm_130", "compute_121"], FAKE_GPU_CAPABILITY="130")
        else:
            self.expect_result("two architectures", expected, ["gfx906", "gfx90a"], FAKE_GPU_ARCHITECTURE="gfx906,gfx90a")

    def files(self):
        return sorted(file for file in self.fakes.folder.glob("yoke/**/*") if file.is_file())

    # Trains with the cache; returns how many programs were compiled.
    def compiled(self, what):
        (status, output, complaints), counts = self.fakes.count_calls(*CACHE)
        self.expect(status == 0 and not complaints, f"{what}: the training succeeds {complaints}", output)
        self.expect(fakes.result_of(output) == self.expected, f"{what}: the result is right", output)
        return counts.get("compile", 0)

    def cache(self):
        status, output, _ = self.fakes.train("--option", "cache=off")
        self.expected = fakes.result_of(output)
        self.expect(status == 0 and self.files() == [], "a training without the cache writes no file", output)
        # Several processes fill an empty cache at once.
        running = [self.fakes.start(["train", "--backend", self.fakes.vendor, "--shards", "2", "--epochs", "1", "--merge", "owner", *CACHE], {})
                   for _ in range(3)]
        for process in running:
            output = process.communicate(timeout=fakes.SECONDS)[0]
            self.expect(process.returncode == 0 and fakes.result_of(output) == self.expected, "a cache can be shared", output)
        files = self.files()
        self.expect(len(files) > 0, "the cache has files")
        self.expect(self.compiled("full cache") == 0, "a full cache saves every compilation")
        self.expect(self.files() == files, "nothing but results is left in the cache")
        for file in files:
            self.expect(file.stat().st_mode & 0o077 == 0, f"{file.name} is private to the user")
        damages = [lambda bytes: b"", lambda bytes: bytes[:len(bytes) // 2], lambda bytes: bytes[:-1] + b"?",
                   lambda bytes: bytes + b"?", lambda bytes: bytes[::-1]]
        for number, file in enumerate(files):
            file.write_bytes(damages[number % len(damages)](file.read_bytes()))
        self.expect(self.compiled("broken cache") == len(files), "each broken file is compiled again")
        self.expect(self.compiled("repaired cache") == 0, "broken files are replaced")

    def unusable_cache(self):
        shutil.rmtree(self.fakes.folder / "yoke", ignore_errors=True)
        (self.fakes.folder / "yoke").write_text("a file where the folder should be")
        self.expect(self.compiled("unusable cache") > 0, "training works without a cache")


def main():
    parser = argparse.ArgumentParser()
    for name in ["fakes", "yoke"]:
        parser.add_argument(name)
    parser.add_argument("vendor", choices=["cuda", "hip"])
    failures = Failures(parser.parse_args())
    os.umask(0o022)
    failures.libraries()
    failures.devices()
    failures.collectives()
    failures.redistribution()
    failures.architectures()
    failures.cache()
    failures.unusable_cache()
    shutil.rmtree(failures.fakes.folder)
    sys.exit(1 if failures.faults else 0)


main()
