//! The message-based functions.

/// Defines the functions that start and end a message-based operation: its `Init` function and its
/// `Final` function. The other arguments are the operation, the function that reads the mechanism,
/// and the function of the core that starts the operation.
macro_rules! init_and_final {
    ($init:ident, $final:ident, $operation:ident, $mechanism:ident, $start:expr) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $init(
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            call_session(handle, |session| {
                if given.is_null() {
                    return cancel(&mut session.operations.$operation);
                }
                // SAFETY: the contract of PKCS#11 for pMechanism.
                let mechanism = unsafe { $mechanism(given) }?;
                session.start(stringify!($init), &mechanism, object(key), $start)
            })
        }

        /// # Safety
        ///
        /// None: no pointer is passed.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $final(handle: CK_SESSION_HANDLE) -> CK_RV {
            call_session(handle, |session| session.operations.$operation.message_final())
        }
    };
}

mod crypt;
mod sign;

pub(crate) use crypt::*;
pub(crate) use sign::*;
