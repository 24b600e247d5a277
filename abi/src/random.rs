//! "Random number generation functions".

use cryptoki_sys::{CK_BYTE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};

use crate::call::call_in;
use crate::input::{In, buffer};
use crate::number::session;

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_SeedRandom(
    handle: CK_SESSION_HANDLE,
    seed: *mut CK_BYTE,
    seed_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for pSeed.
        let seed = unsafe { In(seed, seed_len).bytes() }?;
        module.seed_random(session(handle), seed)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn C_GenerateRandom(
    handle: CK_SESSION_HANDLE,
    random: *mut CK_BYTE,
    random_len: CK_ULONG,
) -> CK_RV {
    call_in(handle, |module| {
        // SAFETY: the contract of PKCS#11 for RandomData.
        let random = unsafe { buffer(random, random_len) }?;
        module.random(session(handle), random)
    })
}
