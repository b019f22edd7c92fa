// A kernel from a fatbin, launched through the CUDA driver, with no hybridcc and no toolkit at run time.
//
//     hybridcc build examples/conv1d.py -o out --format fatbin --header
//     cuda=$(python -c 'import nvidia.cu13; print(nvidia.cu13.__path__[0])')
//     g++ -I out/conv1d -I "$cuda/include" examples/loading/driver.cpp -ldl -o conv1d
//     ./conv1d out/conv1d/conv1d.fatbin
//
// The driver picks the machine code for the device, or compiles the PTX that lies beside it.

#include <cuda.h>
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "conv1d.h"

// From the driver itself, so that the program starts where there is none.
template <typename Function>
static Function *driver(const char *name) {
  static void *library = dlopen("libcuda.so.1", RTLD_NOW);
  void *found = library ? dlsym(library, name) : nullptr;
  if (!found) {
    std::fprintf(stderr, "no CUDA driver: %s is not there\n", name);
    std::exit(3);
  }
  return reinterpret_cast<Function *>(found);
}

#define DRIVER(name) driver<decltype(name)>(#name)
#define VERSIONED(name, symbol) driver<decltype(name)>(symbol)

static void check(CUresult status, const char *what) {
  if (status != CUDA_SUCCESS) {
    std::fprintf(stderr, "%s: CUDA error %d\n", what, static_cast<int>(status));
    std::exit(3);
  }
}

int main(int count, char **arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s conv1d.fatbin\n", arguments[0]);
    return 2;
  }
  std::ifstream file(arguments[1], std::ios::binary);
  std::vector<char> fatbin((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (fatbin.empty()) {
    std::fprintf(stderr, "%s cannot be read\n", arguments[1]);
    return 2;
  }

  CUdevice device;
  CUcontext context;
  CUmodule module;
  CUfunction kernel;
  check(DRIVER(cuInit)(0), "cuInit");
  check(DRIVER(cuDeviceGet)(&device, 0), "cuDeviceGet");
  check(DRIVER(cuDevicePrimaryCtxRetain)(&context, device), "cuDevicePrimaryCtxRetain");
  check(DRIVER(cuCtxSetCurrent)(context), "cuCtxSetCurrent");
  check(DRIVER(cuModuleLoadFatBinary)(&module, fatbin.data()), "cuModuleLoadFatBinary");
  check(DRIVER(cuModuleGetFunction)(&kernel, module, CONV1D_ENTRY), "cuModuleGetFunction");

  const size_t outputs = 4096, taps = 31, inputs = outputs + taps - 1;
  std::vector<float> x(inputs), w(taps), y(outputs);
  for (size_t i = 0; i < inputs; ++i) x[i] = static_cast<float>(i % 7);
  for (size_t k = 0; k < taps; ++k) w[k] = static_cast<float>(k % 3);

  CUdeviceptr at[3];
  const size_t bytes[] = {4 * inputs, 4 * taps, 4 * outputs};
  for (int n = 0; n < 3; ++n) check(VERSIONED(cuMemAlloc, "cuMemAlloc_v2")(&at[n], bytes[n]), "cuMemAlloc");
  check(VERSIONED(cuMemcpyHtoD, "cuMemcpyHtoD_v2")(at[0], x.data(), bytes[0]), "cuMemcpyHtoD");
  check(VERSIONED(cuMemcpyHtoD, "cuMemcpyHtoD_v2")(at[1], w.data(), bytes[1]), "cuMemcpyHtoD");

  conv1d_parameters parameters = {};
  parameters.x_data = at[0], parameters.x_nitems = parameters.x_shape0 = inputs;
  parameters.w_data = at[1], parameters.w_nitems = parameters.w_shape0 = taps;
  parameters.y_data = at[2], parameters.y_nitems = parameters.y_shape0 = outputs;
  parameters.x_itemsize = parameters.w_itemsize = parameters.y_itemsize = 4;
  parameters.x_stride0 = parameters.w_stride0 = parameters.y_stride0 = 4;

  size_t size = CONV1D_PARAMETER_BYTES;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &parameters, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  check(DRIVER(cuLaunchKernel)(kernel, outputs / 256, 1, 1, 256, 1, 1, 0, nullptr, nullptr, extra), "cuLaunchKernel");
  check(VERSIONED(cuMemcpyDtoH, "cuMemcpyDtoH_v2")(y.data(), at[2], bytes[2]), "cuMemcpyDtoH");

  for (size_t i = 0; i < outputs; ++i) {
    float sum = 0;  // small whole numbers: exact in any order
    for (size_t k = 0; k < taps; ++k) sum += x[i + k] * w[k];
    if (sum != y[i]) {
      std::printf("y[%zu] is %g, not %g\n", i, y[i], sum);
      return 1;
    }
  }
  std::printf("%zu sums are right\n", outputs);
  return 0;
}
