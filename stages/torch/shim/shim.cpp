// The functions of libtorch that the bindings leave out, for C callers. Each catches all exceptions
// and returns null, or a message that `throstle_free` releases. Only narrow headers: this compiles
// in seconds, and needs no symbol of the CUDA libraries.
#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_adamw_ops.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <exception>
#include <optional>
#include <vector>

namespace {

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

std::vector<at::Tensor> list(at::Tensor *const *tensors, size_t count) {
  std::vector<at::Tensor> result;
  result.reserve(count);
  for (size_t at = 0; at < count; at++) result.push_back(*tensors[at]);
  return result;
}

}  // namespace

extern "C" {

void throstle_free(char *message) { free(message); }

// Matrix products and convolutions of f32 on GPUs, backward passes included.
char *throstle_set_tf32(bool allowed) {
  return caught([&] {
    at::globalContext().setAllowTF32CuBLAS(allowed);
    at::globalContext().setAllowTF32CuDNN(allowed);
  });
}

// One bit for each of the two.
int throstle_tf32() {
  auto &context = at::globalContext();
  return (context.allowTF32CuBLAS() ? 1 : 0) | (context.allowTF32CuDNN() ? 2 : 0);
}

// Kernels that give the same bits each time, in backward passes too.
char *throstle_set_deterministic() {
  return caught([&] {
    auto &context = at::globalContext();
    context.setDeterministicCuDNN(true);
    context.setBenchmarkCuDNN(false);
  });
}

bool throstle_deterministic() {
  auto &context = at::globalContext();
  return context.deterministicCuDNN() && !context.benchmarkCuDNN();
}

// The peak of the memory that the allocator has reserved on a GPU since the last reset. Fails on a
// machine without one.
char *throstle_peak(int device, unsigned long long *bytes) {
  return caught([&] {
    auto stats = at::accelerator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
    *bytes = stats.reserved_bytes[0].peak;
  });
}

char *throstle_reset_peak(int device) {
  return caught([&] { at::accelerator::resetPeakStats(static_cast<c10::DeviceIndex>(device)); });
}

// Returns the memory that the allocator keeps for later.
char *throstle_empty_cache() {
  return caught([&] { at::accelerator::emptyCache(); });
}

// The gradient of this leaf is summed up in f32, whatever type the leaf has.
char *throstle_sum_in_f32(const at::Tensor *parameter) {
  return caught([&] { parameter->set_grad_dtype(at::kFloat); });
}

// The kernels that scaled dot product attention may choose from.
char *throstle_set_attention(bool flash, bool efficient, bool math, bool cudnn) {
  return caught([&] {
    auto &context = at::globalContext();
    context.setSDPUseFlash(flash);
    context.setSDPUseMemEfficient(efficient);
    context.setSDPUseMath(math);
    context.setSDPUseCuDNN(cudnn);
  });
}

// One AdamW update of `count` parameters in one pass over their memory. Gradients are divided by
// `scale` where there is one, in place.
char *throstle_fused_adamw(size_t count, at::Tensor *const *parameters, at::Tensor *const *gradients,
                           at::Tensor *const *first, at::Tensor *const *second,
                           at::Tensor *const *steps, double rate, double beta1, double beta2,
                           double decay, double epsilon, const at::Tensor *scale) {
  return caught([&] {
    std::optional<at::Tensor> divisor;
    if (scale) divisor = *scale;
    at::_ops::_fused_adamw_::call(list(parameters, count), list(gradients, count),
                                  list(first, count), list(second, count), {}, list(steps, count),
                                  rate, beta1, beta2, decay, epsilon, false, false, divisor,
                                  std::nullopt);
  });
}

// Runs a function on `count` threads of libtorch's pool and waits. A second pool would compete with
// it for the cores: its threads spin for a while after each job.
void throstle_on_threads(unsigned count, void (*work)(const void *), const void *data) {
  using Parallel = void (*)(void (*)(const void *), const void *, unsigned, unsigned);
  static const auto parallel = reinterpret_cast<Parallel>(dlsym(RTLD_DEFAULT, "GOMP_parallel"));
  if (parallel) {
    parallel(work, data, count, 0);
  } else {
    work(data);
  }
}

}
