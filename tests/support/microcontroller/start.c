/* Start-up of a Cortex-M in QEMU's boards mps2-an386 and mps2-an500, and what tests measure there.

   With -icount shift=0, an instruction takes a nanosecond, so that SysTick with its reference clock
   of 1 MHz counts thousands of instructions. */

#include "start.h"

#define REGISTER(address) (*(volatile uint32_t *)(address))
#define PAINT 0xA5A5A5A5u
#define TICKS 0xFFFFFFu /* of SysTick, after which it starts again */

extern uint32_t data_from[], data_begin[], data_end[], bss_begin[], bss_end[], stack_top[];

int main(void);

/* Calls the host: semihosting. */
static int host(int operation, const void *argument) {
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void print(const char *text) { host(0x04, text); }

void print_number(const char *name, uint32_t value) {
  char text[10] = "00000000\n";
  for (int k = 0; k < 8; k++) text[k] = "0123456789abcdef"[value >> (28 - 4 * k) & 15];
  print(name);
  print(" ");
  print(text);
}

static void leave(uint32_t reason) {
  const uint32_t block[2] = {reason, 0};
  host(0x20, block); /* SYS_EXIT_EXTENDED */
  for (;;) {
  }
}

uint32_t ticks(void) { return TICKS - REGISTER(0xE000E018); }

uint32_t stack_used(void) {
  const uint32_t *p = bss_end;
  while (p < stack_top && *p == PAINT) p++;
  return (uint32_t)((const char *)stack_top - (const char *)p);
}

/* Fills the memory that the stack may take. */
static __attribute__((noinline)) void paint(void) {
  volatile uint32_t *p = bss_end;
  uint32_t *here = __builtin_frame_address(0);
  while (p < here - 8) *p++ = PAINT;
}

void start(void) {
  REGISTER(0xE000ED88) |= 0xFu << 20; /* the floating-point unit */
  for (uint32_t *to = data_begin, *from = data_from; to < data_end;) *to++ = *from++;
  for (uint32_t *p = bss_begin; p < bss_end;) *p++ = 0;
  paint();
  REGISTER(0xE000E014) = TICKS;
  REGISTER(0xE000E018) = 0;
  REGISTER(0xE000E010) = 1; /* SysTick runs, by the reference clock */
  leave(main() ? 0x20023 : 0x20026);
}

static void fault(void) {
  print("fault\n");
  leave(0x20023);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    stack_top, (const void *)start, (const void *)fault, (const void *)fault,
    (const void *)fault, (const void *)fault, (const void *)fault};
