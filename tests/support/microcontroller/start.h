/* What programs of tests call on an emulated microcontroller. */

#ifndef START_H
#define START_H

#include <stdint.h>

void print(const char *text);
void print_number(const char *name, uint32_t value); /* in hexadecimal */

uint32_t ticks(void);      /* thousands of instructions since the start */
uint32_t stack_used(void); /* most bytes of stack since the start */

#endif
