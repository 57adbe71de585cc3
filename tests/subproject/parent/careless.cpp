#if __cplusplus != 201703L
#error "not the parent's C++ standard"
#endif
#ifdef NDEBUG
#error "not the parent's build type"
#endif

int main() {
  int unused;
}
