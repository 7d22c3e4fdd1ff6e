// A libcuda.so.1 that cuDNN's libraries are content with when they are loaded, and that has nothing: engines are named, none is run.
extern "C" {

constexpr int SUCCESS = 0, NOT_SUPPORTED = 801;

int cuInit(unsigned) { return SUCCESS; }
int cuGetErrorString(int, const char** words) {
  *words = "there is no driver";
  return SUCCESS;
}
int cuModuleLoadData(void**, const void*) { return NOT_SUPPORTED; }
int cuModuleUnload(void*) { return NOT_SUPPORTED; }
int cuModuleGetFunction(void**, void*, const char*) { return NOT_SUPPORTED; }
int cuTensorMapEncodeTiled() { return NOT_SUPPORTED; }
int cuTensorMapEncodeIm2col() { return NOT_SUPPORTED; }

}  // extern "C"
