/* A CUDA runtime for tests: `-DCOUNT`, `-DFAULT`, `-DDRIVER` and `-DMAJOR` say what it sees. */
#include <stddef.h>
#include <string.h>

#ifndef COUNT
#define COUNT 2
#endif
#ifndef FAULT
#define FAULT 0
#endif
#ifndef DRIVER
#define DRIVER 13000
#endif
#ifndef MAJOR
#define MAJOR 7
#endif

int cudaGetDeviceCount(int *count) {
  *count = COUNT;
  return FAULT;
}

int cudaDeviceGetAttribute(int *value, int attribute, int device) {
  if (device < 0 || device >= COUNT) return 101;
  *value = attribute == 75 ? MAJOR : attribute == 76 ? 5 : 0;
  return FAULT;
}

static int properties(char *to, int device) {
  size_t memory = (size_t)15 << 30;
  if (device < 0 || device >= COUNT) return 101;
  memset(to, 0, 1024);
  strcpy(to, device == 0 ? "Tesla T4" : "Second GPU");
  memset(to + 256, 0xa0 + device, 16);
  memcpy(to + 288, &memory, sizeof memory);
  return FAULT;
}

int cudaGetDeviceProperties(void *to, int device) { return properties(to, device); }
int cudaGetDeviceProperties_v2(void *to, int device) { return properties(to, device); }

int cudaMemGetInfo(size_t *free, size_t *total) {
  *total = (size_t)15 << 30;
  *free = (size_t)14 << 30;
  return FAULT;
}

int cudaGetDevice(int *device) {
  *device = 0;
  return FAULT;
}

int cudaSetDevice(int device) { return device < 0 || device >= COUNT ? 101 : FAULT; }

int cudaDriverGetVersion(int *version) {
  *version = DRIVER;
  return 0;
}

int cudaRuntimeGetVersion(int *version) {
  *version = 13000;
  return 0;
}

const char *cudaGetErrorString(int error) { return error == 802 ? "system not yet initialized" : "error"; }
