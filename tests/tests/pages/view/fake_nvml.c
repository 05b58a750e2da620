/* The library of the driver for tests: one GPU that works for ever. */
#include <string.h>

int nvmlInit_v2(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned *count) {
  *count = 1;
  return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned number, void **device) {
  static int gpu;
  *device = &gpu;
  return number == 0 ? 0 : 2;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, void **device) { return uuid && device ? 6 : 2; }

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
  strncpy(name, "NVIDIA H100 80GB HBM3", length);
  return device ? 0 : 2;
}

int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]) {
  rates[0] = 97;
  rates[1] = 50;
  return device ? 0 : 2;
}

int nvmlDeviceGetMemoryInfo(void *device, unsigned long long memory[3]) {
  memory[0] = 81559ull << 20;
  memory[2] = 31200ull << 20;
  memory[1] = memory[0] - memory[2];
  return device ? 0 : 2;
}
