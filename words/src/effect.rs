//! What a call of a function changes, how long it may take, and whether it has a PIN. A client
//! whose connection ends needs to know.

use crate::functions;
use crate::token::Function;

/// What a call leaves behind besides an operation of its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: another call does the same.
    Reads,
    /// Objects, the token or PINs. It must not be carried out twice.
    Changes,
    /// The login, which ends with the process that has the token. Another process may carry it out.
    Ends,
}

/// Returns whether an argument is a PIN, by its kind.
macro_rules! is_pin {
    (Pin) => {
        true
    };
    ($other:ident) => {
        false
    };
}

macro_rules! pins {
    ($($function:ident $method:ident($($argument:ident: $kind:ident),*) -> $answer:ty;)*) => {
        impl Function {
            /// Returns whether a call has a PIN.
            pub const fn has_pin(self) -> bool {
                match self {
                    Self::C_GetAttributeValue | Self::C_DeriveKey => false,
                    $(Self::$function => false $(|| is_pin!($kind))*,)*
                }
            }
        }
    };
}

functions!(pins);

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Time {
    /// As long as a computation with a key.
    Short,
    /// As long as several computations, or one that costs much memory.
    Slow,
    /// As long as the generation of a key, or without a limit.
    Long,
}

impl Function {
    /// Returns what a call changes.
    pub const fn effect(self) -> Effect {
        self.row().0
    }

    /// Returns how long a call may take. `C_WaitForSlotEvent` takes long only if it waits.
    pub const fn time(self) -> Time {
        self.row().1
    }

    const fn row(self) -> (Effect, Time) {
        use Effect::{Changes, Ends, Reads};
        use Time::{Long, Short, Slow};
        match self {
            Self::C_Login | Self::C_LoginUser | Self::C_Logout => (Ends, Short),
            Self::C_GenerateKey | Self::C_GenerateKeyPair => (Changes, Long),
            Self::C_InitToken
            | Self::C_DeriveKey
            | Self::C_UnwrapKey
            | Self::C_UnwrapKeyAuthenticated
            | Self::C_AsyncComplete => (Changes, Slow),
            Self::C_InitPIN
            | Self::C_SetPIN
            | Self::C_CloseAllSessions
            | Self::C_SetOperationState
            | Self::C_CreateObject
            | Self::C_CopyObject
            | Self::C_DestroyObject
            | Self::C_SetAttributeValue
            | Self::C_EncapsulateKey
            | Self::C_DecapsulateKey
            | Self::C_AsyncJoin => (Changes, Short),
            Self::C_WaitForSlotEvent => (Reads, Long),
            Self::C_GetSlotList
            | Self::C_GetSlotInfo
            | Self::C_GetTokenInfo
            | Self::C_GetMechanismList
            | Self::C_GetMechanismInfo
            | Self::C_OpenSession
            | Self::C_CloseSession
            | Self::C_GetSessionInfo
            | Self::C_SessionCancel
            | Self::C_GetOperationState
            | Self::C_GetSessionValidationFlags
            | Self::C_GetObjectSize
            | Self::C_GetAttributeValue
            | Self::C_FindObjectsInit
            | Self::C_FindObjects
            | Self::C_FindObjectsFinal
            | Self::C_EncryptInit
            | Self::C_Encrypt
            | Self::C_EncryptUpdate
            | Self::C_EncryptFinal
            | Self::C_DecryptInit
            | Self::C_Decrypt
            | Self::C_DecryptUpdate
            | Self::C_DecryptFinal
            | Self::C_MessageEncryptInit
            | Self::C_EncryptMessage
            | Self::C_EncryptMessageBegin
            | Self::C_EncryptMessageNext
            | Self::C_EncryptMessageEnd
            | Self::C_MessageEncryptFinal
            | Self::C_MessageDecryptInit
            | Self::C_DecryptMessage
            | Self::C_DecryptMessageBegin
            | Self::C_DecryptMessageNext
            | Self::C_DecryptMessageEnd
            | Self::C_MessageDecryptFinal
            | Self::C_DigestInit
            | Self::C_Digest
            | Self::C_DigestUpdate
            | Self::C_DigestKey
            | Self::C_DigestFinal
            | Self::C_SignInit
            | Self::C_Sign
            | Self::C_SignUpdate
            | Self::C_SignFinal
            | Self::C_SignRecoverInit
            | Self::C_SignRecover
            | Self::C_MessageSignInit
            | Self::C_SignMessage
            | Self::C_SignMessageBegin
            | Self::C_SignMessageNext
            | Self::C_SignMessageEnd
            | Self::C_MessageSignFinal
            | Self::C_VerifyInit
            | Self::C_Verify
            | Self::C_VerifyUpdate
            | Self::C_VerifyFinal
            | Self::C_VerifyRecoverInit
            | Self::C_VerifyRecover
            | Self::C_VerifySignatureInit
            | Self::C_VerifySignature
            | Self::C_VerifySignatureUpdate
            | Self::C_VerifySignatureFinal
            | Self::C_MessageVerifyInit
            | Self::C_VerifyMessage
            | Self::C_VerifyMessageBegin
            | Self::C_VerifyMessageNext
            | Self::C_VerifyMessageEnd
            | Self::C_MessageVerifyFinal
            | Self::C_DigestEncryptUpdate
            | Self::C_DecryptDigestUpdate
            | Self::C_SignEncryptUpdate
            | Self::C_DecryptVerifyUpdate
            | Self::C_WrapKey
            | Self::C_WrapKeyAuthenticated
            | Self::C_SeedRandom
            | Self::C_GenerateRandom
            | Self::C_AsyncGetID => (Reads, Short),
        }
    }
}
