//! Clears the vector registers. Ciphers compute with keys in them, and leave them there. The next
//! signal, context switch or first call through the dynamic linker copies all registers to memory.
//! The calling conventions let a function change these registers, so no caller notices.
#![allow(unsafe_code)]

#[cfg(target_arch = "aarch64")]
pub use arm::clear_registers;
#[cfg(target_arch = "x86_64")]
pub use intel::clear_registers;

/// Does nothing: the vector registers of this processor are not known.
#[cfg(not(any(target_arch = "aarch64", target_arch = "x86_64")))]
pub fn clear_registers() {}

#[cfg(target_arch = "x86_64")]
mod intel {
    use std::arch::{asm, naked_asm};
    use std::sync::atomic::{AtomicU8, Ordering};

    /// The registers of this processor. The first call sets it.
    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

    const UNKNOWN: u8 = 0;
    const SSE: u8 = 1;
    const AVX: u8 = 2;
    const AVX_512: u8 = 3;

    /// Clears all vector registers and, with AVX-512, the mask registers. Takes four instructions
    /// with AVX.
    #[inline]
    pub fn clear_registers() {
        match LEVEL.load(Ordering::Relaxed) {
            // SAFETY: `detect` found AVX. The instruction changes only these registers. They are
            // listed one by one: `clobber_abi` would make the compiler save the others.
            AVX => unsafe {
                asm!(
                    "vzeroall",
                    out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
                    out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
                    out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
                    out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
                    options(nomem, nostack, preserves_flags)
                );
            },
            level => clear_others(level),
        }
    }

    #[cold]
    fn clear_others(level: u8) {
        match level {
            UNKNOWN => {
                LEVEL.store(detect(), Ordering::Relaxed);
                clear_registers();
            }
            AVX_512 => avx_512(),
            _ => sse(),
        }
    }

    /// Returns which registers the processor and the system have.
    fn detect() -> u8 {
        if is_x86_feature_detected!("avx512f") {
            AVX_512
        } else if is_x86_feature_detected!("avx") {
            AVX
        } else {
            SSE
        }
    }

    /// Call it only if the processor has AVX-512.
    #[unsafe(naked)]
    extern "sysv64" fn avx_512() {
        naked_asm!(
            "vzeroall",
            ".irp i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
            r"vpxord zmm\i, zmm\i, zmm\i",
            ".endr",
            ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
            r"kxorw k\i, k\i, k\i",
            ".endr",
            "ret",
        )
    }

    #[unsafe(naked)]
    extern "sysv64" fn sse() {
        naked_asm!(
            ".irp i, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15",
            r"pxor xmm\i, xmm\i",
            ".endr",
            "ret",
        )
    }
}

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::naked_asm;

    /// Clears all vector registers, except the lower halves of v8 to v15, which belong to the
    /// caller. A write to the lower half clears the rest of the register, also that of SVE.
    pub fn clear_registers() {
        clear();
    }

    #[unsafe(naked)]
    extern "C" fn clear() {
        naked_asm!(
            ".irp i, 0, 1, 2, 3, 4, 5, 6, 7",
            r"movi v\i\().2d, #0",
            ".endr",
            ".irp i, 8, 9, 10, 11, 12, 13, 14, 15",
            r"fmov d\i, d\i",
            ".endr",
            ".irp i, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31",
            r"movi v\i\().2d, #0",
            ".endr",
            "ret",
        )
    }
}
