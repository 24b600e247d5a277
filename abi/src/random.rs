//! "Random number generation functions".

use cryptoki_sys::{CK_BYTE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton_words::token::{Function, Token};

use crate::call::{Entry, answered};
use crate::input::buffer;
use crate::operation::function;

function!(consume C_SeedRandom, seed_random);

pub unsafe fn C_GenerateRandom<T: Token>(
    entry: &Entry<T>,
    handle: CK_SESSION_HANDLE,
    random: *mut CK_BYTE,
    random_len: CK_ULONG,
) -> CK_RV {
    entry.call_in(Function::C_GenerateRandom, handle, |token, session| {
        // SAFETY: the contract of PKCS#11 for RandomData.
        let random = unsafe { buffer(random, random_len) }?;
        answered(token.random(session, random))
    })
}
