#include "numbered.h"

NUMBERED(7)
