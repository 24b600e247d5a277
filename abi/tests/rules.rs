//! Rules that depend on the configuration or on the type of a key, through the function list: the
//! smallest RSA key, `CKA_DERIVE` by default, and DSA. It is one test, because all threads of a
//! process share the state of the library.

#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

#[macro_use]
mod common;

use std::path::Path;

use common::{attribute, mechanism, mutable, nothing, room, two_calls};
use cryptoki_sys::*;
use jeton::backend::Provider;

const PIN: &[u8] = b"pin of a test";
/// DER of the object identifiers of P-256 and X25519.
const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
const X25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x6e];

#[test]
fn keys_keep_the_rules_of_their_type_and_of_the_configuration() {
    for provider in Provider::ALL {
        let directory = std::env::temp_dir().join(format!("jeton-rules-{}", std::process::id()));
        std::fs::create_dir_all(&directory).expect("a directory");
        initialize(&directory, provider.name);
        let session = session();
        short_rsa_keys_are_refused(session);
        private_keys_for_agreement_may_derive_by_default(session);
        dsa_keys_are_made_and_sign(session);
        ok!(C_Finalize(nothing()));
        std::fs::remove_dir_all(&directory).expect("the directory");
    }
}

fn initialize(directory: &Path, backend: &str) {
    let parameters = format!(
        "token-dir = '{}', backend = '{backend}', mechanisms = {{ min-rsa-bits = 2048, legacy = true }}, \
         pin = {{ memory-kib = 8, passes = 1 }}\0",
        directory.display()
    );
    let mut arguments = CK_C_INITIALIZE_ARGS {
        flags: CKF_OS_LOCKING_OK,
        pReserved: mutable(parameters.as_bytes()).cast(),
        ..Default::default()
    };
    ok!(C_Initialize((&raw mut arguments).cast()));
}

/// A session of a new token, with the user logged in.
fn session() -> CK_SESSION_HANDLE {
    let (pin, pin_len) = (mutable(PIN).cast(), PIN.len() as CK_ULONG);
    let slot = || {
        let (mut slots, mut count) = ([0; 2], 2);
        ok!(C_GetSlotList(CK_TRUE, slots.as_mut_ptr(), &raw mut count));
        slots[0]
    };
    ok!(C_InitToken(slot(), pin, pin_len, mutable(&[b' '; 32]).cast()));
    let mut session = 0;
    ok!(C_OpenSession(slot(), CKF_SERIAL_SESSION | CKF_RW_SESSION, nothing(), None, &raw mut session));
    ok!(C_Login(session, CKU_SO, pin, pin_len));
    ok!(C_InitPIN(session, pin, pin_len));
    ok!(C_Logout(session));
    ok!(C_Login(session, CKU_USER, pin, pin_len));
    session
}

/// Calls `C_GenerateKeyPair`.
fn pair(
    session: CK_SESSION_HANDLE,
    id: CK_MECHANISM_TYPE,
    public: &[CK_ATTRIBUTE],
    private: &[CK_ATTRIBUTE],
) -> (CK_RV, CK_OBJECT_HANDLE, CK_OBJECT_HANDLE) {
    let (mut public_key, mut private_key) = (0, 0);
    let rv = rv!(C_GenerateKeyPair(
        session,
        &mut mechanism(id),
        mutable(public).cast(),
        public.len() as CK_ULONG,
        mutable(private).cast(),
        private.len() as CK_ULONG,
        &raw mut public_key,
        &raw mut private_key,
    ));
    (rv, public_key, private_key)
}

/// "PKCS #1 RSA key pair generation": the token limits the size. `min-rsa-bits` sets the limit.
fn short_rsa_keys_are_refused(session: CK_SESSION_HANDLE) {
    let generate = |bits: CK_ULONG| {
        pair(session, CKM_RSA_PKCS_KEY_PAIR_GEN, &[attribute(CKA_MODULUS_BITS, &bits)], &[]).0
    };
    assert_eq!(generate(1024), CKR_ATTRIBUTE_VALUE_INVALID);
    assert_eq!(generate(2048), CKR_OK);
    let create = |modulus: &[u8]| {
        let template = [
            attribute(CKA_CLASS, &CKO_PUBLIC_KEY),
            attribute(CKA_KEY_TYPE, &CKK_RSA),
            attribute(CKA_MODULUS, modulus),
            attribute(CKA_PUBLIC_EXPONENT, &[1_u8, 0, 1]),
        ];
        let mut key = 0;
        rv!(C_CreateObject(session, mutable(&template[..]).cast(), 4, &raw mut key))
    };
    assert_eq!(create(&[0xff; 128]), CKR_ATTRIBUTE_VALUE_INVALID);
    assert_eq!(create(&[0xff; 256]), CKR_OK);
}

/// "Common Key Attributes" makes `CKA_DERIVE` false by default. For private keys for key agreement
/// the default is true (docs/attributes.md), because Java needs it.
fn private_keys_for_agreement_may_derive_by_default(session: CK_SESSION_HANDLE) {
    let rows = [(CKM_EC_KEY_PAIR_GEN, P256), (CKM_EC_MONTGOMERY_KEY_PAIR_GEN, X25519)];
    for (id, curve) in rows {
        let (rv, _, private) = pair(session, id, &[attribute(CKA_EC_PARAMS, curve)], &[]);
        assert_eq!((rv, derives(session, private)), (CKR_OK, CK_TRUE));
    }
    let mut secret = 0;
    let template = [attribute(CKA_VALUE_LEN, &(32 as CK_ULONG))];
    let mut generator = mechanism(CKM_AES_KEY_GEN);
    ok!(C_GenerateKey(session, &raw mut generator, mutable(&template[..]).cast(), 1, &raw mut secret));
    assert_eq!(derives(session, secret), CK_FALSE);
}

fn derives(session: CK_SESSION_HANDLE, key: CK_OBJECT_HANDLE) -> CK_BBOOL {
    let mut value = 2;
    ok!(C_GetAttributeValue(session, key, &mut room(CKA_DERIVE, &mut value), 1));
    value
}

/// "DSA": domain parameters, a key pair with these parameters, and signatures with and without a
/// hash.
fn dsa_keys_are_made_and_sign(session: CK_SESSION_HANDLE) {
    let mut parameters = 0;
    let template = [attribute(CKA_PRIME_BITS, &(1024 as CK_ULONG))];
    let mut generator = mechanism(CKM_DSA_PARAMETER_GEN);
    ok!(C_GenerateKey(session, &raw mut generator, mutable(&template[..]).cast(), 1, &raw mut parameters));
    let (mut prime, mut subprime, mut base) = ([0_u8; 128], [0_u8; 20], [0_u8; 128]);
    let mut read =
        [room(CKA_PRIME, &mut prime), room(CKA_SUBPRIME, &mut subprime), room(CKA_BASE, &mut base)];
    ok!(C_GetAttributeValue(session, parameters, read.as_mut_ptr(), 3));
    let public = [
        attribute(CKA_PRIME, &prime),
        attribute(CKA_SUBPRIME, &subprime),
        // The base may begin with zeros, which are not part of its value.
        CK_ATTRIBUTE { ulValueLen: read[2].ulValueLen, ..attribute(CKA_BASE, &base) },
        attribute(CKA_VERIFY, &CK_TRUE),
    ];
    let (rv, public, private) =
        pair(session, CKM_DSA_KEY_PAIR_GEN, &public, &[attribute(CKA_SIGN, &CK_TRUE)]);
    assert_eq!(rv, CKR_OK);
    for id in [CKM_DSA, CKM_DSA_SHA1, CKM_DSA_SHA256, CKM_DSA_SHA512] {
        // CKM_DSA signs a digest of 20 bytes.
        let data = [7_u8; 20];
        ok!(C_SignInit(session, &mut mechanism(id), private));
        let signature = two_calls(|out, len| rv!(C_Sign(session, mutable(&data).cast(), 20, out, len)));
        assert_eq!(signature.len(), 40);
        let verify = |signature: &[u8]| {
            ok!(C_VerifyInit(session, &mut mechanism(id), public));
            rv!(C_Verify(session, mutable(&data).cast(), 20, mutable(signature).cast(), 40))
        };
        assert_eq!(verify(&signature), CKR_OK);
        let mut altered = signature.clone();
        altered[39] ^= 1;
        assert_eq!(verify(&altered), CKR_SIGNATURE_INVALID);
    }
}
