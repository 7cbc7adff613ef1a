// The term that a mask adds to a score. Boolean masks add nothing where they equal `keep`, and -infinity elsewhere.
#define MASK_BIAS(value, is_bool, keep) ((is_bool) ? (((value) != 0) == (keep) ? (C)0 : -(C)INFINITY) : (value))
