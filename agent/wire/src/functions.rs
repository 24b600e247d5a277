//! The functions that travel, each with its arguments. One table makes the functions of the client
//! module and the dispatch of the agent.
//!
//! `[Kind names]` is one argument in the sense of [`argument`](crate::argument): one or more
//! parameters of the C function. The functions of the general chapter (`C_Initialize`, `C_Finalize`
//! and the function lists) and the two that always have the same result do not travel.

/// Calls a macro with the table of functions. The position of a function is its number in a
/// message, so that new ones come last.
#[macro_export]
macro_rules! functions {
    ($callback:ident) => {
        $callback! {
            C_GetInfo([Put info CK_INFO]);
            C_GetSlotList([Flag present] [List slots, count]);
            C_GetSlotInfo([Number slot] [Put info CK_SLOT_INFO]);
            C_GetTokenInfo([Number slot] [Put info CK_TOKEN_INFO]);
            C_GetMechanismList([Number slot] [List mechanisms, count]);
            C_GetMechanismInfo([Number slot] [Number mechanism] [Put info CK_MECHANISM_INFO]);
            C_InitToken([Number slot] [Short pin, pin_len] [Text label 32]);
            C_InitPIN([Session session] [Short pin, pin_len]);
            C_SetPIN([Session session] [Short old, old_len] [Short new, new_len]);
            C_OpenSession([Number slot] [Number flags] [Void application] [Notify notify] [Put session CK_SESSION_HANDLE]);
            C_CloseSession([Session session]);
            C_CloseAllSessions([Number slot]);
            C_GetSessionInfo([Session session] [Put info CK_SESSION_INFO]);
            C_GetOperationState([Session session] [Out state, state_len]);
            C_SetOperationState([Session session] [Short state, state_len] [Number encryption_key] [Number authentication_key]);
            C_Login([Session session] [Number user] [Short pin, pin_len]);
            C_Logout([Session session]);
            C_CreateObject([Session session] [Template template, count] [Put object CK_OBJECT_HANDLE]);
            C_CopyObject([Session session] [Number object] [Template template, count] [Put new_object CK_OBJECT_HANDLE]);
            C_DestroyObject([Session session] [Number object]);
            C_GetObjectSize([Session session] [Number object] [Put size CK_ULONG]);
            C_GetAttributeValue([Session session] [Number object] [Values template, count]);
            C_SetAttributeValue([Session session] [Number object] [Template template, count]);
            C_FindObjectsInit([Session session] [Template template, count]);
            C_FindObjects([Session session] [Found objects, max, count]);
            C_FindObjectsFinal([Session session]);
            C_EncryptInit([Session session] [Mechanism mechanism] [Number key]);
            C_Encrypt([Session session] [In data, data_len] [Out encrypted, encrypted_len]);
            C_EncryptUpdate([Session session] [In part, part_len] [Out encrypted, encrypted_len]);
            C_EncryptFinal([Session session] [Out encrypted, encrypted_len]);
            C_DecryptInit([Session session] [Mechanism mechanism] [Number key]);
            C_Decrypt([Session session] [In encrypted, encrypted_len] [Out data, data_len]);
            C_DecryptUpdate([Session session] [In encrypted, encrypted_len] [Out part, part_len]);
            C_DecryptFinal([Session session] [Out part, part_len]);
            C_DigestInit([Session session] [Mechanism mechanism]);
            C_Digest([Session session] [In data, data_len] [Out digest, digest_len]);
            C_DigestUpdate([Session session] [In part, part_len]);
            C_DigestKey([Session session] [Number key]);
            C_DigestFinal([Session session] [Out digest, digest_len]);
            C_SignInit([Session session] [Mechanism mechanism] [Number key]);
            C_Sign([Session session] [In data, data_len] [Out signature, signature_len]);
            C_SignUpdate([Session session] [In part, part_len]);
            C_SignFinal([Session session] [Out signature, signature_len]);
            C_SignRecoverInit([Session session] [Mechanism mechanism] [Number key]);
            C_SignRecover([Session session] [In data, data_len] [Out signature, signature_len]);
            C_VerifyInit([Session session] [Mechanism mechanism] [Number key]);
            C_Verify([Session session] [In data, data_len] [Short signature, signature_len]);
            C_VerifyUpdate([Session session] [In part, part_len]);
            C_VerifyFinal([Session session] [Short signature, signature_len]);
            C_VerifyRecoverInit([Session session] [Mechanism mechanism] [Number key]);
            C_VerifyRecover([Session session] [Short signature, signature_len] [Out data, data_len]);
            C_DigestEncryptUpdate([Session session] [In part, part_len] [Out encrypted, encrypted_len]);
            C_DecryptDigestUpdate([Session session] [In encrypted, encrypted_len] [Out part, part_len]);
            C_SignEncryptUpdate([Session session] [In part, part_len] [Out encrypted, encrypted_len]);
            C_DecryptVerifyUpdate([Session session] [In encrypted, encrypted_len] [Out part, part_len]);
            C_GenerateKey([Session session] [Mechanism mechanism] [Template template, count] [Put key CK_OBJECT_HANDLE]);
            C_GenerateKeyPair(
                [Session session] [Mechanism mechanism] [Template public, public_count] [Template private, private_count]
                [Put public_key CK_OBJECT_HANDLE] [Put private_key CK_OBJECT_HANDLE]);
            C_WrapKey([Session session] [Mechanism mechanism] [Number wrapping] [Number key] [Out wrapped, wrapped_len]);
            C_UnwrapKey(
                [Session session] [Mechanism mechanism] [Number unwrapping] [In wrapped, wrapped_len]
                [Template template, count] [Put key CK_OBJECT_HANDLE]);
            C_DeriveKey(
                [Session session] [Mechanism mechanism] [Number base] [Template template, count] [Put key CK_OBJECT_HANDLE]);
            C_SeedRandom([Session session] [In seed, seed_len]);
            C_GenerateRandom([Session session] [Fill random, random_len]);
            C_WaitForSlotEvent([Number flags] [Put slot CK_SLOT_ID] [Void reserved]);
            C_LoginUser([Session session] [Number user] [Short pin, pin_len] [Short name, name_len]);
            C_SessionCancel([Session session] [Number flags]);
            C_MessageEncryptInit([Session session] [MessageInit mechanism] [Number key]);
            C_EncryptMessage(
                [Session session] [Message parameter, parameter_len] [In aad, aad_len] [In data, data_len]
                [Out encrypted, encrypted_len]);
            C_EncryptMessageBegin([Session session] [Message parameter, parameter_len] [In aad, aad_len]);
            C_EncryptMessageNext(
                [Session session] [Message parameter, parameter_len] [In part, part_len] [Out encrypted, encrypted_len]
                [Number flags]);
            C_MessageEncryptFinal([Session session]);
            C_MessageDecryptInit([Session session] [MessageInit mechanism] [Number key]);
            C_DecryptMessage(
                [Session session] [Message parameter, parameter_len] [In aad, aad_len] [In encrypted, encrypted_len]
                [Out data, data_len]);
            C_DecryptMessageBegin([Session session] [Message parameter, parameter_len] [In aad, aad_len]);
            C_DecryptMessageNext(
                [Session session] [Message parameter, parameter_len] [In encrypted, encrypted_len] [Out part, part_len]
                [Number flags]);
            C_MessageDecryptFinal([Session session]);
            C_MessageSignInit([Session session] [Mechanism mechanism] [Number key]);
            C_SignMessage(
                [Session session] [Message parameter, parameter_len] [In data, data_len] [Out signature, signature_len]);
            C_SignMessageBegin([Session session] [Message parameter, parameter_len]);
            C_SignMessageNext(
                [Session session] [Message parameter, parameter_len] [In part, part_len] [Out signature, signature_len]);
            C_MessageSignFinal([Session session]);
            C_MessageVerifyInit([Session session] [Mechanism mechanism] [Number key]);
            C_VerifyMessage(
                [Session session] [Message parameter, parameter_len] [In data, data_len] [Short signature, signature_len]);
            C_VerifyMessageBegin([Session session] [Message parameter, parameter_len]);
            C_VerifyMessageNext(
                [Session session] [Message parameter, parameter_len] [In part, part_len] [Short signature, signature_len]);
            C_MessageVerifyFinal([Session session]);
            C_EncapsulateKey(
                [Session session] [Mechanism mechanism] [Number public] [Template template, count]
                [Out ciphertext, ciphertext_len] [Put key CK_OBJECT_HANDLE]);
            C_DecapsulateKey(
                [Session session] [Mechanism mechanism] [Number private] [Template template, count]
                [In ciphertext, ciphertext_len] [Put key CK_OBJECT_HANDLE]);
            C_VerifySignatureInit([Session session] [Mechanism mechanism] [Number key] [Short signature, signature_len]);
            C_VerifySignature([Session session] [In data, data_len]);
            C_VerifySignatureUpdate([Session session] [In part, part_len]);
            C_VerifySignatureFinal([Session session]);
            C_GetSessionValidationFlags([Session session] [Number kind] [Put flags CK_FLAGS]);
            C_AsyncComplete([Session session] [Name name] [Put result CK_ASYNC_DATA]);
            C_AsyncGetID([Session session] [Name name] [Put id CK_ULONG]);
            C_AsyncJoin([Session session] [Name name] [Number id] [Ignored data, data_len]);
            C_WrapKeyAuthenticated(
                [Session session] [MessageMechanism mechanism] [Number wrapping] [Number key] [In aad, aad_len]
                [Out wrapped, wrapped_len]);
            C_UnwrapKeyAuthenticated(
                [Session session] [MessageMechanism mechanism] [Number unwrapping] [In wrapped, wrapped_len]
                [Template template, count] [In aad, aad_len] [Put key CK_OBJECT_HANDLE]);
        }
    };
}

macro_rules! numbers {
    ($($name:ident($([$($argument:tt)*])*);)*) => {
        /// A function that travels.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
        #[allow(missing_docs, non_camel_case_types, reason = "the names are the specification's")]
        pub enum Function {
            $($name,)*
        }

        impl Function {
            /// All functions.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Returns the name of the function.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => stringify!($name),)*
                }
            }
        }
    };
}

functions!(numbers);

impl Function {
    /// Returns whether the function continues or ends an operation of the session.
    pub fn continues(self) -> bool {
        let operations = ["Encrypt", "Decrypt", "Digest", "Sign", "Verify"];
        !self.name().ends_with("Init") && operations.iter().any(|operation| self.name().contains(operation))
    }
}
