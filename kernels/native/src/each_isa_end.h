/* Ends what each_isa.h defined for one instruction set. */

#undef F
#undef LANES
#undef MR
#undef NR
#undef ROWS
#undef UNITS
