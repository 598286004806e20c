# SPDX-License-Identifier: Apache-2.0
"""tests/mutation/rooms.py: the rooms: areas of sources with the tests that must find mistakes in them."""

# sources: globs. targets: what ninja builds. tests: an expression for names of ctest, which excludes tests of speed.
# without: an expression for names of ctest of tests that are too slow.
SLOW = (r"^data_parallel_tests\.(Models\.|Shards/PrecisionOnShards\.LossesFollow|SynchronizedNorm\.WorksWithEvery|"
        r"Accumulate\.GivesTheSameBitsWithOverlap|Streams/FailingDevice)")

ROOMS = {
    "passes": {
        "sources": ["runtime/passes/*.cpp"],
        "targets": ["passes_tests", "device_test", "schedule_tests", "yoke_backend_cc"],
        "tests": r"^(passes_tests\.|device_test\.|schedule_tests\..*Fallback)",
    },
    "schedule": {
        "sources": ["runtime/schedule/*.cpp"],
        "targets": ["schedule_tests", "schedule_allocation_tests", "device_test", "data_parallel_tests",
                    "parallel_tests", "parallel_native_test"],
        "tests": r"^(schedule_tests|schedule_allocation_tests|device_test|data_parallel_tests|parallel_tests|parallel_native_test)\.",
    },
    "parallel": {
        "sources": ["runtime/parallel/*.cpp"],
        "targets": ["parallel_tests", "parallel_native_test", "data_parallel_tests", "simulate"],
        "tests": r"^(parallel_tests|parallel_native_test|data_parallel_tests|simulate)\.",
        "without": SLOW,
    },
    "loader": {
        "sources": ["runtime/loader/*.cpp"],
        "targets": ["loader_test", "device_test"],
        "tests": r"^(loader_test|device_test)\.",
    },
    "layers": {
        "sources": ["runtime/layers/*.cpp"],
        "targets": ["layers_validate_test", "layers_trace_test", "layers_replay_test"],
        "tests": r"^layers_(validate|trace|replay)_test\.",
    },
    "device": {
        "sources": ["runtime/device/*.cpp"],
        "targets": ["device_test", "device_call_test", "schedule_tests", "loader_test"],
        "tests": r"^(device_test|device_call_test|schedule_tests|loader_test)\.",
    },
    "cc": {
        "sources": ["plugins/cc/*.cpp", "plugins/cc/tile/builder*.cpp", "plugins/cc/tile/run*.cpp",
                    "plugins/cc/tile/schedule.cpp", "plugins/cc/tile/bounded.cpp"],
        "targets": ["cc_test", "cc_plugin_test"],
        "tests": r"^(cc_test|cc_plugin_test)\.",
    },
    "tensor": {
        "sources": ["frontends/tensor/src/*.cpp", "frontends/tensor/src/lower/*.cpp"],
        "targets": ["tensor_tests", "data_parallel_tests", "embedding_tests"],
        "tests": r"^(tensor_tests|embedding_tests|data_parallel_tests)\.",
        "without": SLOW,
    },
    "trainer": {
        "sources": ["frontends/tensor/src/train*.cpp", "frontends/tensor/src/parallel_update.cpp",
                    "frontends/tensor/src/loss_scale.cpp", "frontends/tensor/src/checkpoint*.cpp"],
        "targets": ["data_parallel_tests", "embedding_tests", "tensor_tests", "data_test"],
        "tests": r"^(data_parallel_tests|embedding_tests|tensor_tests|data_test)\.",
        "without": SLOW,
    },
    "program": {
        "sources": ["plugin_api/program/src/*.cpp"],
        "targets": ["program_tests", "passes_tests"],
        "tests": r"^(program_tests\.|passes_tests\.(MemoryPlan|Lifetimes)\.)",
    },
    "sdk": {
        "sources": ["plugin_api/sdk/include/yoke/sdk/*.h", "plugin_api/sdk/include/yoke/sdk/detail/*.h"],
        "targets": ["sdk_test", "sdk_worker_stream_test", "null_test"],
        "tests": r"^(sdk_test|sdk_worker_stream_test|null_test)\.",
    },
    "codegen": {
        "sources": ["plugins/codegen/*.cpp"],
        "targets": ["codegen_test", "contraction_test", "attention_kernel_test", "gpu_product_test"],
        "tests": r"^(codegen_test|contraction_test|attention_kernel_test|gpu_product_test)\.",
    },
}
