// SPDX-License-Identifier: Apache-2.0
// runtime/schedule/signals_blocked.h: starts threads that handle no signals.
#pragma once

#include <pthread.h>
#include <signal.h>

namespace yoke::detail {

// Signals are delivered to the application's threads, because workers block all of them.
// Hidden, because g++ takes sigset_t for a hidden type.
class [[gnu::visibility("hidden")]] SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() {
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace yoke::detail
