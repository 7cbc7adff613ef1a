// What a mask adds to a score. Of truth values, those that are `shows` add nothing.
#define MASKED(number, is_bool, shows) ((is_bool) ? (((number) != 0) == (shows) ? (C)0 : -(C)INFINITY) : (number))
