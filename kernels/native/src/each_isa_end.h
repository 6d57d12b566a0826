/* Undefines the macros of one instruction set. */

#undef F
#undef NARROWER
#undef LANES
#undef MR
#undef NR
#undef ROWS
#undef UNITS
