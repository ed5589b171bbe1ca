// The last line of every file that switched an instruction set on.
#if defined(__clang__) && defined(__x86_64__) && defined(MYOPS_ISA) && MYOPS_VECTOR_BYTES > 16
#pragma clang attribute pop
#endif
