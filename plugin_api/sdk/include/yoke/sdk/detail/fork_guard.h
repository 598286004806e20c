// SPDX-License-Identifier: Apache-2.0
// plugin_api/sdk/include/yoke/sdk/detail/fork_guard.h: distinguishes a forked
// child from the process that counted the devices.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <new>

namespace yoke::sdk::detail {

// Every call checks this, so it must be cheap: the kernel zeroes one page in a forked child. If the kernel
// does not support that, the process ids are compared, which costs a system call.
class ForkGuard {
 public:
  ForkGuard() noexcept {
    const long size = ::sysconf(_SC_PAGESIZE);
    page_size_ = size > 0 ? static_cast<std::size_t>(size) : 4096;
    void* page = ::mmap(nullptr, page_size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) {
      return;
    }
    if (::madvise(page, page_size_, MADV_WIPEONFORK) != 0) {
      ::munmap(page, page_size_);
      return;
    }
    page_ = new (page) std::atomic<int>(0);
  }
  ~ForkGuard() {
    if (page_ != nullptr) {
      ::munmap(page_, page_size_);
    }
  }
  ForkGuard(const ForkGuard&) = delete;
  ForkGuard& operator=(const ForkGuard&) = delete;

  // From now on, only this process may call.
  void arm() noexcept {
    if (armed_.load(std::memory_order_acquire)) {
      return;
    }
    if (page_ != nullptr) {
      page_->store(1, std::memory_order_relaxed);
    } else {
      owner_.store(::getpid(), std::memory_order_relaxed);
    }
    armed_.store(true, std::memory_order_release);
  }

  bool forked() const noexcept {
    if (!armed_.load(std::memory_order_acquire)) {
      return false;
    }
    return page_ != nullptr ? page_->load(std::memory_order_relaxed) == 0
                            : owner_.load(std::memory_order_relaxed) != ::getpid();
  }

 private:
  std::size_t page_size_ = 0;
  std::atomic<int>* page_ = nullptr;
  std::atomic<bool> armed_{false};
  std::atomic<pid_t> owner_{0};
};

}  // namespace yoke::sdk::detail
