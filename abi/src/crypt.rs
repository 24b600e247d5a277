//! "Encryption functions" and "Decryption functions". Data is copied for the core only if input and
//! output overlap.

use cryptoki_sys::*;
use jeton::backend::Direction;
use jeton::session::Operation;

use crate::call::call_session;
use crate::input::{In, Out};
use crate::operation::{init_crypting, produce, transform, update};

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

        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $single(
            handle: CK_SESSION_HANDLE,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let (input, output) = (In(input, input_len), Out(output, output_len));
            // SAFETY: the contract of PKCS#11 for the buffers with their lengths.
            call_session(handle, |session| unsafe {
                transform(&mut session.operations.$operation, input, output, Operation::crypt)
            })
        }

        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $update(
            handle: CK_SESSION_HANDLE,
            input: *mut CK_BYTE,
            input_len: CK_ULONG,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let (input, output) = (In(input, input_len), Out(output, output_len));
            // SAFETY: the contract of PKCS#11 for the buffers with their lengths.
            call_session(handle, |session| unsafe {
                update(session, Direction::$direction, input, output, |session, input, out| {
                    session.crypt_update(Direction::$direction, input, out)
                })
            })
        }

        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $final(
            handle: CK_SESSION_HANDLE,
            output: *mut CK_BYTE,
            output_len: *mut CK_ULONG,
        ) -> CK_RV {
            let output = Out(output, output_len);
            // SAFETY: the contract of PKCS#11 for the buffers with their lengths.
            call_session(handle, |session| unsafe {
                produce(&mut session.operations.$operation, output, Operation::crypt_final)
            })
        }
    };
}

functions!(Encrypt, encrypt: C_EncryptInit, C_Encrypt, C_EncryptUpdate, C_EncryptFinal);
functions!(Decrypt, decrypt: C_DecryptInit, C_Decrypt, C_DecryptUpdate, C_DecryptFinal);
