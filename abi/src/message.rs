//! The message-based functions.

/// Defines the functions that start and end a message-based operation: its `Init` function and its
/// `Final` function. The other arguments are the operation, the function that reads the mechanism,
/// and the function of the core that starts the operation.
macro_rules! init_and_final {
    ($init:ident, $final:ident, $operation:ident, $mechanism:ident, $start:expr) => {
        $crate::operation::init!($init, $operation, $mechanism, $start);

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

pub(crate) use crypt::{
    C_DecryptMessage, C_DecryptMessageBegin, C_DecryptMessageNext, C_EncryptMessage, C_EncryptMessageBegin,
    C_EncryptMessageNext, C_MessageDecryptFinal, C_MessageDecryptInit, C_MessageEncryptFinal,
    C_MessageEncryptInit,
};
pub(crate) use sign::{
    C_MessageSignFinal, C_MessageSignInit, C_MessageVerifyFinal, C_MessageVerifyInit, C_SignMessage,
    C_SignMessageBegin, C_SignMessageNext, C_VerifyMessage, C_VerifyMessageBegin, C_VerifyMessageNext,
};
