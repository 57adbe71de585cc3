// A function in a file with crafted debug information: a million nested namespaces. A reader of debug information that
// descends into them by recursion overflows its stack.
extern "C" [[gnu::noinline, gnu::used]] void* hostile_call(void* (*f)()) {
  void* const result = f();
  asm volatile("");
  return result;
}

asm(R"(
  .section .debug_abbrev,"",%progbits
  .byte 1, 0x11, 1, 0x11, 1, 0x12, 1, 0, 0  # compile unit with children: addresses of beginning and end
  .byte 2, 0x39, 1, 0, 0                    # namespace with children
  .byte 0
  .section .debug_info,"",%progbits
  .4byte 2f - 1f
1:
  .2byte 4
  .4byte 0
  .byte 8
  .byte 1
  .8byte hostile_call
  .8byte hostile_call + 256
  .fill 1000000, 1, 2
2:
  .text
)");
