/* ___chkstk_ms for x86-64 Windows: touches each page of a large stack frame, in order.
 *
 * Compilers call it with the size of the frame in rax, and expect all registers unchanged. It is the
 * one function that the kernels need of the compiler's runtime library, which zig links as a whole.
 */
__asm__(".globl ___chkstk_ms\n"
        "___chkstk_ms:\n"
        "  push %rax\n"
        "  push %rcx\n"
        "  lea 24(%rsp), %rcx\n" /* the caller's stack pointer: two registers and an address up */
        "1:\n"
        "  cmp $4096, %rax\n"
        "  jbe 2f\n"
        "  sub $4096, %rcx\n"
        "  orl $0, (%rcx)\n"
        "  sub $4096, %rax\n"
        "  jmp 1b\n"
        "2:\n"
        "  sub %rax, %rcx\n"
        "  orl $0, (%rcx)\n"
        "  pop %rcx\n"
        "  pop %rax\n"
        "  ret\n");
