//! Marks secrets as undefined for valgrind, so that it reports a branch or an address that depends
//! on one. Without valgrind it does nothing.
#![allow(unsafe_code, reason = "the requests of valgrind")]

/// `VALGRIND_MAKE_MEM_UNDEFINED` and `VALGRIND_MAKE_MEM_DEFINED` of valgrind/memcheck.h.
const UNDEFINED: usize = 0x4d43_0001;
const DEFINED: usize = 0x4d43_0002;

/// Asks valgrind. The instructions change nothing on a processor.
fn ask(request: usize, bytes: &mut [u8]) {
    let arguments = [request, bytes.as_mut_ptr().addr(), bytes.len(), 0, 0, 0];
    // SAFETY: four rotations by 128 bits together, and an exchange of a register with itself. The
    // exchange hides the memory from the compiler, so that it knows nothing of the bytes.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        std::arch::asm!(
            "rol rdi, 3", "rol rdi, 13", "rol rdi, 61", "rol rdi, 51", "xchg rbx, rbx",
            inout("rax") arguments.as_ptr() => _,
            inout("rdx") 0_usize => _,
            in("rdi") 0_usize,
        );
    }
    std::hint::black_box((arguments, bytes));
}

/// Marks a secret.
pub(crate) fn secret(bytes: &mut [u8]) {
    ask(UNDEFINED, bytes);
}

/// Marks what the algorithm publishes: a part of a signature, or the result of a check.
pub(crate) fn public(bytes: &mut [u8]) {
    ask(DEFINED, bytes);
}
