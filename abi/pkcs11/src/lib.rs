//! `libjeton_pkcs11.so`: the C interface of PKCS#11 3.2 over the core's
//! [`Module`].

#![allow(non_snake_case, reason = "the exported names are the specification's")]
#![allow(clippy::missing_safety_doc, reason = "the contract of PKCS#11 holds for every exported function")]
#![allow(clippy::too_many_arguments, reason = "the specification's")]

use std::ffi::c_void;

use cryptoki_sys::*;
use jeton::functions::Module;
use jeton::store::fork;
use jeton_abi::{Hooks, at_fork};

/// The heap of this library's Rust code. It wipes freed memory, because the crates that the core
/// uses leave copies of keys there. AWS-LC and SQLite allocate by themselves; AWS-LC wipes what it
/// frees, and SQLite has no secrets.
#[global_allocator]
static ALLOCATOR: jeton_secret::WipingAllocator = jeton_secret::WipingAllocator;

jeton_abi::module!(
    Module,
    Hooks {
        new: Module::new,
        // SAFETY: these are functions of this library, which is never unmapped (build.rs:
        // nodelete).
        register: || unsafe { at_fork(hold, release, forget_parent) },
        prepare: fork::prepare,
        hold: fork::hold,
        release: fork::release,
        forget: fork::count,
    }
);

unsafe extern "C" fn hold() {
    ENTRY.hold();
}

unsafe extern "C" fn release() {
    ENTRY.release();
}

unsafe extern "C" fn forget_parent() {
    ENTRY.forget_parent();
}

/// Returns the functions of PKCS#11 3.2, for programs that link this library.
pub fn functions() -> &'static CK_FUNCTION_LIST_3_2 {
    &LIST_3_2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments_are_refused_before_the_module_starts() {
        let reserved = std::ptr::without_provenance_mut(1);
        let mut given = jeton_names::arguments(CKF_OS_LOCKING_OK, reserved);
        // SAFETY: a complete struct, whose pReserved is not followed.
        assert_eq!(unsafe { C_Initialize((&raw mut given).cast()) }, CKR_ARGUMENTS_BAD);
        // SAFETY: not followed.
        assert_eq!(unsafe { C_Finalize(reserved) }, CKR_ARGUMENTS_BAD);
    }
}
