//! "Encryption functions" and "Decryption functions". Data is copied for the core only if input and
//! output overlap.

use cryptoki_sys::{CK_BYTE, CK_MECHANISM, CK_OBJECT_HANDLE, CK_RV, CK_SESSION_HANDLE, CK_ULONG};
use jeton::backend::Direction;
use jeton::functions::Output;
use jeton::session::{Operation, Session};

use crate::call::call_session;
use crate::operation::{function, init_crypting};

/// Defines the functions of one direction.
macro_rules! functions {
    ($direction:ident, $operation:ident: $init:ident, $single:ident, $update:ident, $final:ident) => {
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $init(
            handle: CK_SESSION_HANDLE,
            given: *mut CK_MECHANISM,
            key: CK_OBJECT_HANDLE,
        ) -> CK_RV {
            // SAFETY: the contract of PKCS#11 for pMechanism.
            call_session(handle, |session| unsafe {
                init_crypting(session, Direction::$direction, given, key)
            })
        }

        function!(transform $single, $operation, Operation::crypt);
        function!(update $update, Direction::$direction, |session: &mut Session, input: &[u8], out: Output<'_>| {
            session.crypt_update(Direction::$direction, input, out)
        });
        function!(produce $final, $operation, Operation::crypt_final);
    };
}

functions!(Encrypt, encrypt: C_EncryptInit, C_Encrypt, C_EncryptUpdate, C_EncryptFinal);
functions!(Decrypt, decrypt: C_DecryptInit, C_Decrypt, C_DecryptUpdate, C_DecryptFinal);
