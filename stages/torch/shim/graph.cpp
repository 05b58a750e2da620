// Operations with a backward pass of their own, and backward passes from a given gradient, for C
// callers: errors are those of `shim.cpp`. The headers of libtorch's autograd take a quarter of a
// minute to compile.
#include "caught.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <dlfcn.h>

#include <array>
#include <cstdint>
#include <map>
#include <mutex>

// Source that this file compiles, and that GPUs get as text.
#define BOTH(name, ...) \
  __VA_ARGS__           \
  const char *const name = #__VA_ARGS__;

namespace {

// The low half of 64 scrambled bits: the output function of SplitMix64.
BOTH(NUMBER, inline unsigned int number(unsigned long long value) {
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ull;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBull;
  return (unsigned int)(value ^ (value >> 31));
})

// Mixes the numbers of a row and of a column: the finalizer of MurmurHash3 without its last step,
// and with shifts that keep the sign.
BOTH(MIXED, inline int mixed(unsigned int row, unsigned int column) {
  int bits = (int)(row + column);
  bits = (int)((unsigned int)(bits ^ (bits >> 16)) * 0x85EBCA6Bu);
  return (int)((unsigned int)(bits ^ (bits >> 13)) * 0xC2B2AE35u);
})

// Keeps or drops one entry. All arguments have one floating-point type, so numbers come in pieces
// of 16 bits. For half precision that type is f32.
BOTH(DROPPED, template <typename T> T dropped(
    T x, T row, T column, T row_3, T row_2, T row_1, T row_0, T column_3, T column_2, T column_1,
    T column_0, T threshold_1, T threshold_0, T rest) {
  typedef unsigned long long Long;
  Long rows = (Long)row_3 << 48 | (Long)row_2 << 32 | (Long)row_1 << 16 | (Long)row_0;
  Long columns = (Long)column_3 << 48 | (Long)column_2 << 32 | (Long)column_1 << 16 | (Long)column_0;
  int threshold = (int)((unsigned int)threshold_1 << 16 | (unsigned int)threshold_0);
  int bits = mixed(number(rows + (Long)row), number(columns + (Long)column));
  return x * (T)(bits >= threshold) / rest;
})

struct Dropout {
  uint64_t rows, columns;
  int32_t threshold;
  double rest;
};

// The numbers of the first `count` columns.
std::vector<uint32_t> numbers(uint64_t seed, int64_t count) {
  std::vector<uint32_t> all(count);
  for (int64_t at = 0; at < count; at++) all[at] = number(seed + at);
  return all;
}

#if defined(__x86_64__)
__attribute__((target_clones("avx2", "default")))
#endif
void drop_row(const float *x, float *y, const uint32_t *columns, int64_t width, uint32_t row,
              int32_t threshold, float rest) {
  for (int64_t at = 0; at < width; at++)
    y[at] = x[at] * (float)(mixed(row, columns[at]) >= threshold) / rest;
}

// The rows and columns of a tensor: its last axis has the columns.
struct Shape {
  explicit Shape(const at::Tensor &x)
      : columns(std::max<int64_t>(1, x.dim() ? x.size(-1) : 1)), rows(x.numel() / columns) {}
  int64_t columns, rows;
};

at::Tensor drop_on_cpu(const at::Tensor &x, const Dropout &dropout) {
  const at::Tensor from = x.to(at::kFloat).contiguous();
  at::Tensor to = at::empty_like(from);
  const Shape shape(x);
  const auto columns = numbers(dropout.columns, shape.columns);
  const float *source = from.const_data_ptr<float>();
  float *target = to.mutable_data_ptr<float>();
  at::parallel_for(0, shape.rows, at::divup(1 << 15, shape.columns), [&](int64_t start, int64_t end) {
    for (int64_t row = start; row < end; row++)
      drop_row(source + row * shape.columns, target + row * shape.columns, columns.data(),
               shape.columns, number(dropout.rows + row), dropout.threshold, (float)dropout.rest);
  });
  return to.to(x.scalar_type());
}

// The arguments of `dropped` after the entry and its place.
std::array<double, 11> arguments(const Dropout &dropout) {
  std::array<double, 11> all;
  size_t count = 0;
  const auto add = [&](uint64_t bits, int pieces) {
    while (pieces--) all[count++] = (double)(bits >> 16 * pieces & 0xFFFF);
  };
  add(dropout.rows, 4);
  add(dropout.columns, 4);
  add((uint32_t)dropout.threshold, 2);
  all[count] = dropout.rest;
  return all;
}

// f64, with the source that a GPU compiles.
at::Tensor drop_doubles(const at::Tensor &x, const Dropout &dropout) {
  at::Tensor to = x.contiguous().clone();
  const Shape shape(x);
  const auto a = arguments(dropout);
  double *entry = to.mutable_data_ptr<double>();
  for (int64_t row = 0; row < shape.rows; row++)
    for (int64_t column = 0; column < shape.columns; column++, entry++)
      *entry = dropped<double>(*entry, (double)row, (double)column, a[0], a[1], a[2], a[3], a[4],
                               a[5], a[6], a[7], a[8], a[9], a[10]);
  return to;
}

// The integers from 0 on, in f32, which is exact up to 2^24. They stay on the device.
at::Tensor places(int64_t count, const at::Tensor &like) {
  static std::mutex mutex;
  // Never destroyed: at the end of the process the device may be gone.
  static auto &known = *new std::map<c10::DeviceIndex, at::Tensor>();
  TORCH_CHECK(count <= 1 << 24, "dropout of ", count,
              " rows or columns on a GPU, which has numbers for at most 16777216");
  std::lock_guard<std::mutex> lock(mutex);
  at::Tensor &all = known[like.device().index()];
  if (!all.defined() || all.size(0) < count) {
    int64_t size = 1 << 12;
    while (size < count) size *= 2;
    all = at::arange(size, like.options().dtype(at::kFloat));
  }
  return all.narrow(0, 0, count);
}

using Launch = c10::SmallVector<at::Tensor> (*)(const std::string &, const std::string &, const int,
                                                const c10::SmallVector<at::Tensor> &,
                                                const c10::SmallVector<at::Scalar> &, bool);

// `at::cuda::CompileAndLaunchKernel` of the CUDA part of libtorch, which is loaded later.
Launch launch() {
  static const auto found = reinterpret_cast<Launch>(dlsym(
      RTLD_DEFAULT,
      "_ZN2at4cuda22CompileAndLaunchKernelERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES8_"
      "iRKN3c1011SmallVectorINS_6TensorELj6EEERKNSA_INS9_6ScalarELj1EEEb"));
  TORCH_CHECK(found, "libtorch has no `at::cuda::CompileAndLaunchKernel`");
  return found;
}

at::Tensor drop_on_gpu(const at::Tensor &x, const Dropout &dropout) {
  static const auto &source = *new std::string(std::string(NUMBER) + MIXED + DROPPED);
  const Shape shape(x);
  const auto flat = x.reshape({shape.rows, shape.columns});
  const c10::SmallVector<at::Tensor> tensors{flat, places(shape.rows, x).unsqueeze(1),
                                             places(shape.columns, x)};
  c10::SmallVector<at::Scalar> scalars;
  for (const double argument : arguments(dropout)) scalars.emplace_back(argument);
  const auto to = launch()(source, "dropped", 1, tensors, scalars, false);
  return to[0].reshape(x.sizes()).to(x.scalar_type());
}

at::Tensor drop(const at::Tensor &x, const Dropout &dropout) {
  if (x.is_cuda()) return drop_on_gpu(x, dropout);
  return x.scalar_type() == at::kDouble ? drop_doubles(x, dropout) : drop_on_cpu(x, dropout);
}

// The mask is computed again for the gradient, and takes no memory meanwhile.
struct Dropped : torch::autograd::Function<Dropped> {
  static at::Tensor forward(torch::autograd::AutogradContext *context, const at::Tensor &x,
                            int64_t rows, int64_t columns, int64_t threshold, double rest) {
    context->saved_data["numbers"] = std::vector<int64_t>{rows, columns, threshold};
    context->saved_data["rest"] = rest;
    return drop(x, dropout(rows, columns, threshold, rest));
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 torch::autograd::variable_list gradients) {
    const auto numbers = context->saved_data["numbers"].toIntVector();
    const double rest = context->saved_data["rest"].toDouble();
    const auto mask = dropout(numbers[0], numbers[1], numbers[2], rest);
    at::Tensor none;
    return {drop(gradients[0], mask), none, none, none, none};
  }

  static Dropout dropout(int64_t rows, int64_t columns, int64_t threshold, double rest) {
    return {(uint64_t)rows, (uint64_t)columns, (int32_t)threshold, rest};
  }
};

// The identity. Its gradient gets the layout that the gradient of a leaf has.
struct Border : torch::autograd::Function<Border> {
  static at::Tensor forward(torch::autograd::AutogradContext *context, const at::Tensor &x) {
    context->saved_data["strides"] = x.is_non_overlapping_and_dense() ? x.strides().vec()
                                                                     : std::vector<int64_t>();
    return x.view_as(x);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 torch::autograd::variable_list gradients) {
    const auto strides = context->saved_data["strides"].toIntVector();
    const at::Tensor &gradient = gradients[0];
    if (strides.empty()) return {gradient.contiguous()};
    if (gradient.strides() == at::IntArrayRef(strides)) return {gradient};
    return {gradient.new_empty_strided(gradient.sizes(), strides).copy_(gradient)};
  }
};

}  // namespace

extern "C" {

// Keeps entries with a mixed number of at least `threshold`, divided by `rest`, and zeroes the
// others.
char *throstle_dropped(const at::Tensor *x, uint64_t rows, uint64_t columns, int32_t threshold,
                       double rest, at::Tensor **to) {
  return caught([&] {
    *to = new at::Tensor(
        Dropped::apply(*x, (int64_t)rows, (int64_t)columns, (int64_t)threshold, rest));
  });
}

char *throstle_border(const at::Tensor *x, at::Tensor **to) {
  return caught([&] { *to = new at::Tensor(Border::apply(*x)); });
}

// The backward pass from an output with its gradient.
char *throstle_backward(const at::Tensor *output, const at::Tensor *gradient) {
  return caught([&] { torch::autograd::backward({*output}, {*gradient}); });
}
}
