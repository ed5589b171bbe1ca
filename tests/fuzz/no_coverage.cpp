// What instrumented code calls, for programs that are not the fuzzer.
extern "C" void __sanitizer_cov_trace_pc() {}
