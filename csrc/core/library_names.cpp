#include "library_names.h"

// The names of this project's own library, unless the build defines others.
#ifndef MYOPS_DOMAIN
#define MYOPS_DOMAIN "myops"
#endif
#ifndef MYOPS_NAMESPACE
#define MYOPS_NAMESPACE "myops"
#endif

namespace myops {

const char* library_domain() { return MYOPS_DOMAIN; }
const char* library_namespace() { return MYOPS_NAMESPACE; }

}  // namespace myops
