// The functions of libtorch that the bindings leave out, for C callers. Each catches all exceptions
// and returns null, or a message that `throstle_free` releases. Only narrow headers: this compiles
// in seconds, and needs no symbol of the CUDA libraries.
#include "caught.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_flash_attention_forward_ops.h>
#include <ATen/ops/_foreach_copy_ops.h>
#include <ATen/ops/_foreach_norm_ops.h>
#include <ATen/ops/_fused_adamw_ops.h>
#include <ATen/ops/stack_ops.h>
#include <ATen/record_function.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

std::vector<at::Tensor> list(at::Tensor *const *tensors, size_t count) {
  std::vector<at::Tensor> result;
  result.reserve(count);
  for (size_t at = 0; at < count; at++) result.push_back(*tensors[at]);
  return result;
}

at::Tensor pinned(const at::Tensor &tensor) {
  return tensor.is_pinned() ? tensor : tensor.pin_memory();
}

// The stream for copies to a GPU: always the same one, since the allocator keeps memory by stream.
c10::Stream copy_stream(const c10::impl::VirtualGuardImpl &gpus, c10::Device gpu) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::Stream> streams;
  std::lock_guard<std::mutex> lock(mutex);
  auto known = streams.find(gpu.index());
  if (known == streams.end()) {
    known = streams.emplace(gpu.index(), gpus.getStreamFromGlobalPool(gpu, false)).first;
  }
  return known->second;
}

// The operations of this thread that are counted, by name, and their number.
thread_local std::unordered_set<std::string> watched;
thread_local unsigned long long seen = 0;

std::unique_ptr<at::ObserverContext> note(const at::RecordFunction &function) {
  if (watched.count(function.name())) seen++;
  return nullptr;
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

// A copy in pinned memory, from which a GPU copies by itself.
char *throstle_pinned(const at::Tensor *from, at::Tensor **to) {
  return caught([&] { *to = new at::Tensor(pinned(*from)); });
}

// A copy on a GPU that takes its turn among the work of the current stream. The host does not wait:
// the allocator of pinned memory keeps the source until the copy is done.
char *throstle_to_gpu(const at::Tensor *from, int device, at::Tensor **to) {
  return caught([&] {
    const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
    *to = new at::Tensor(pinned(*from).to(from->options().device(gpu), true, false));
  });
}

// The same on a stream of its own, while the GPU goes on with its work; later work of the current
// stream waits for the copy. The memory is not given to another copy before the current stream has
// done its work with it.
char *throstle_to_gpu_aside(const at::Tensor *from, int device, at::Tensor **to) {
  return caught([&] {
    const c10::Device gpu(c10::kCUDA, static_cast<c10::DeviceIndex>(device));
    const at::Tensor source = pinned(*from);
    const c10::impl::VirtualGuardImpl gpus(c10::kCUDA);
    const c10::Stream current = gpus.getStream(gpu);
    const c10::Stream aside = copy_stream(gpus, gpu);
    at::Tensor copy;
    {
      c10::StreamGuard guard(aside);
      copy = source.to(source.options().device(gpu), true, false);
    }
    c10::Event done(c10::kCUDA);
    done.record(aside);
    done.block(current);
    copy.record_stream(current);
    *to = new at::Tensor(copy);
  });
}

// Counts operations of this thread by name, until the second function.
char *throstle_watch(const char *const *names, size_t count, unsigned long long *handle) {
  return caught([&] {
    watched = std::unordered_set<std::string>(names, names + count);
    seen = 0;
    *handle = at::addThreadLocalCallback(
        at::RecordFunctionCallback(note).scopes({at::RecordScope::FUNCTION}));
  });
}

unsigned long long throstle_seen(unsigned long long handle) {
  at::removeCallback(handle);
  return seen;
}

// The L2 norm of each of `count` tensors on one device, in f32, as one tensor.
char *throstle_norms(size_t count, at::Tensor *const *tensors, at::Tensor **to) {
  return caught([&] {
    const auto norms = at::_ops::_foreach_norm_Scalar::call(list(tensors, count), 2, at::kFloat);
    *to = new at::Tensor(at::_ops::stack::call(norms, 0));
  });
}

// Copies `count` tensors to others, in one call for those of a device and a type.
char *throstle_copy_all(size_t count, at::Tensor *const *to, at::Tensor *const *from) {
  return caught([&] {
    at::_ops::_foreach_copy_::call(list(to, count), list(from, count), false);
  });
}

// The gradient of this leaf is summed up in f32, whatever type the leaf has.
char *throstle_sum_in_f32(const at::Tensor *parameter) {
  return caught([&] { parameter->set_grad_dtype(at::kFloat); });
}

// Frees the gradient of this leaf: the next one takes its place, and is not added to zeros.
void throstle_drop_gradient(const at::Tensor *parameter) {
  parameter->mutable_grad() = at::Tensor();
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

// One bit for each kernel, in the order of the arguments above.
int throstle_attention() {
  auto &context = at::globalContext();
  return (context.userEnabledFlashSDP() ? 1 : 0) | (context.userEnabledMemEfficientSDP() ? 2 : 0) |
         (context.userEnabledMathSDP() ? 4 : 0) | (context.userEnabledCuDNNSDP() ? 8 : 0);
}

// Causal attention within spans of one long row: [columns, heads, width] each, with the flash
// kernel. `bounds` are the first columns of the spans and the end, in i32; several heads of queries
// may share a head of keys.
char *throstle_attend_spans(const at::Tensor *queries, const at::Tensor *keys,
                            const at::Tensor *values, const at::Tensor *bounds, int64_t longest,
                            at::Tensor **to) {
  return caught([&] {
    const auto outputs = at::_ops::_flash_attention_forward::call(
        *queries, *keys, *values, *bounds, *bounds, longest, longest, 0.0, true, false, std::nullopt,
        std::nullopt, std::nullopt, std::nullopt, std::nullopt);
    *to = new at::Tensor(std::get<0>(outputs));
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
