/* What crtbeginS.o does, which zig does not link: when a library is unloaded, the destructors of its
 * static objects run then, not when the program ends, by which time their code has gone. */
extern void __cxa_finalize(void*);
__attribute__((visibility("hidden"))) void* __dso_handle = &__dso_handle;
__attribute__((destructor)) static void finalize(void) { __cxa_finalize(&__dso_handle); }
