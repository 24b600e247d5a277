//! Files of Jeton that share state between threads, and files that these need. They are compiled
//! unchanged with the atomics and locks of [`sync`]. There [shuttle](https://docs.rs/shuttle)
//! chooses which thread takes the next step. `tests/` has the models. The session and the module
//! here have only what these files need.
//!
//! The models try orders of a sequentially consistent machine. They do not cover weaker memory
//! orders, for which ThreadSanitizer and loom exist.

#![allow(dead_code, missing_docs, reason = "the models use only a part of the files")]

// The files import from the crates `jeton` and `libc`. Here this crate has both names.
extern crate self as jeton;
extern crate self as libc;

pub use jeton_words::{error, id};

#[path = "../../../abi/src/call.rs"]
mod call;
#[path = "../../../abi/src/number.rs"]
mod number;

pub mod functions;
pub mod sync;

#[path = "../../../src/session/table.rs"]
pub mod table;

#[path = "../../../src/token/epoch.rs"]
mod epoch;

#[path = "../../../src/token/reserve.rs"]
mod reserve;

pub mod uses;

/// A session, which knows its own handle.
pub struct Session {
    pub handle: id::SessionHandle,
    pub uses: u32,
}

pub mod session {
    pub use crate::Session;
}

pub mod token {
    use crate::epoch::Epoch;
    use crate::object::policy::Login;

    /// A token with only an epoch.
    pub struct Token(Epoch);

    impl Default for Token {
        fn default() -> Self {
            Self(Epoch::new())
        }
    }

    impl Token {
        pub fn epoch(&self) -> u64 {
            self.0.get()
        }

        pub fn login(&self) -> Login {
            self.0.login()
        }

        pub fn bump(&self) {
            self.0.bump();
        }

        pub fn publish(&self, login: Login) {
            self.0.publish(login);
        }
    }
}

pub mod object {
    pub mod policy {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Login {
            Public,
            User,
            SecurityOfficer,
        }
    }
}

mod store {
    /// The fork handlers for SQLite do nothing here. `abi/pkcs11/tests/fork.rs` tests the real ones.
    pub(crate) mod fork {
        pub(crate) fn prepare() -> crate::error::Result<()> {
            Ok(())
        }

        pub(crate) unsafe extern "C" fn hold() {}

        pub(crate) unsafe extern "C" fn release() {}

        pub(crate) fn count() {}
    }
}

type Handler = Option<unsafe extern "C" fn()>;

/// The handlers of the process: before a fork, after it in the parent, and after it in the child.
static HANDLERS: std::sync::Mutex<Option<[Handler; 3]>> = std::sync::Mutex::new(None);

/// pthread_atfork(3)
///
/// # Safety
///
/// The handlers must be safe to call at any time from now on.
pub unsafe fn pthread_atfork(before: Handler, parent: Handler, child: Handler) -> i32 {
    *HANDLERS.lock().expect("one thread at a time") = Some([before, parent, child]);
    0
}

/// fork(2): a new thread becomes the child, and continues with copies of the current values of the
/// atomics.
pub fn fork(child: impl FnOnce() + Send + 'static) {
    let handlers = HANDLERS.lock().expect("one thread at a time").unwrap_or_default();
    let run = |handler: Handler| {
        if let Some(handler) = handler {
            // SAFETY: the caller of `pthread_atfork` allowed calls at any time.
            unsafe { handler() };
        }
    };
    run(handlers[0]);
    let of_child = handlers[2];
    sync::fork(move || {
        run(of_child);
        child();
    });
    run(handlers[1]);
}

/// `C_Initialize`, `C_Finalize`, and one function in place of all others.
pub mod abi {
    use std::cell::Cell;

    use cryptoki_sys::{CK_RV, CKR_OK};

    use crate::call;

    pub fn initialize() -> CK_RV {
        call::guarded(|| call::initialize(None, crate::functions::Threads::Allowed))
    }

    pub fn finalize() -> CK_RV {
        call::guarded(call::finalize)
    }

    /// Returns the result, and whether the module was initialised while the call used it.
    pub fn other() -> (CK_RV, bool) {
        let up = Cell::new(false);
        let rv = call::call(|module| {
            up.set(module.is_up());
            Ok(())
        });
        assert!(rv == CKR_OK || !up.get());
        (rv, up.get())
    }
}
