#pragma once

#include <cstring>
#include <exception>

// Runs work and catches all exceptions. Returns null, or a message that `throstle_free` releases.
template <typename Work> char *caught(Work work) {
  try {
    work();
    return nullptr;
  } catch (const std::exception &error) {
    return strdup(error.what());
  } catch (...) {
    return strdup("an exception without a message");
  }
}
