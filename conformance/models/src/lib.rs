//! Files of Jeton that share state between threads, and files that these need. They are compiled
//! unchanged with the atomics and locks of [`sync`]. There [shuttle](https://docs.rs/shuttle)
//! chooses which thread takes the next step. `tests/` has the models. The session and the module
//! here have only what these files need.
//!
//! The models try orders of a sequentially consistent machine. They do not cover weaker memory
//! orders, for which ThreadSanitizer and loom exist.

#![allow(dead_code, missing_docs, reason = "the models use only a part of the files")]

pub use jeton_words::{error, id};

#[path = "../../../abi/src/call.rs"]
mod call;
#[path = "../../../abi/src/ck_ulong.rs"]
mod ck_ulong;

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
    use crate::object::access::Login;

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
    pub mod access {
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Login {
            Public,
            User,
            SecurityOfficer,
        }
    }
}

type Handlers = [fn(); 3];

/// The handlers of the process: before a fork, after it in the parent, and after it in the child.
static HANDLERS: std::sync::Mutex<Option<Handlers>> = std::sync::Mutex::new(None);

/// fork(2): a new thread becomes the child, and continues with copies of the current values of the
/// atomics.
pub fn fork(child: impl FnOnce() + Send + 'static) {
    let handlers = *HANDLERS.lock().expect("one thread at a time");
    let run = move |index: usize| {
        if let Some(handlers) = handlers {
            handlers[index]();
        }
    };
    run(0);
    sync::fork(move || {
        run(2);
        child();
    });
    run(1);
}

/// `C_Initialize`, `C_Finalize`, and one function in place of all others.
pub mod abi {
    use std::cell::Cell;

    use cryptoki_sys::{CK_RV, CKR_OK};
    use jeton_words::token::Function;

    use crate::call::{Entry, Hooks, guarded};
    use crate::functions::Module;

    static ENTRY: Entry<Module> = Entry::new(Hooks {
        new: Module::default,
        register,
        prepare: || Ok(()),
        hold: || (),
        release: || (),
        forget: || (),
    });

    /// Registers the handlers, as pthread_atfork(3) does.
    fn register() -> bool {
        let handlers: crate::Handlers = [|| ENTRY.hold(), || ENTRY.release(), || ENTRY.forget_parent()];
        *crate::HANDLERS.lock().expect("one thread at a time") = Some(handlers);
        true
    }

    pub fn initialize() -> CK_RV {
        guarded(|| "C_Initialize", || ENTRY.initialize(Module::start))
    }

    pub fn finalize() -> CK_RV {
        guarded(|| "C_Finalize", || ENTRY.finalize(Module::stop))
    }

    /// Returns the result, and whether the module was initialised while the call used it.
    pub fn other() -> (CK_RV, bool) {
        let up = Cell::new(false);
        let rv = ENTRY.call(Function::C_GetSlotInfo, |module| {
            up.set(module.is_up());
            Ok(())
        });
        assert!(rv == CKR_OK || !up.get());
        (rv, up.get())
    }
}
