//! Keys that are unwrapped, derived or encapsulated, and the handles of several derived keys.

#![allow(non_snake_case, reason = "fields have the names of the specification")]
#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

use super::*;

/// Returns the number of objects with this label.
fn labelled(session: Session, label: &[u8]) -> CK_ULONG {
    let template = [attribute(CKA_LABEL, label)];
    let (mut found, mut count) = ([0; 9], 0);
    ok!(C_FindObjectsInit(session, template.as_ptr().cast_mut(), 1));
    ok!(C_FindObjects(session, found.as_mut_ptr(), 9, &raw mut count));
    ok!(C_FindObjectsFinal(session));
    count
}

#[test]
fn an_encapsulated_key_is_decapsulated() {
    let session = session();
    let public = [attribute(CKA_PARAMETER_SET, &CKP_ML_KEM_768), attribute(CKA_ENCAPSULATE, &CK_TRUE)];
    let private = [attribute(CKA_DECAPSULATE, &CK_TRUE)];
    let (public, private) = generate_pair(list(), session, CKM_ML_KEM_KEY_PAIR_GEN, &public, &private);
    let template = [&aes_template()[..], &[attribute(CKA_LABEL, b"kem")]].concat();
    let template = template.as_ptr().cast_mut();
    let with: *mut CK_MECHANISM = &mut mechanism(CKM_ML_KEM);

    let mut room = 0;
    ok!(C_EncapsulateKey(session, with, public, template, 5, nothing(), &raw mut room, nothing()));
    assert_eq!((room, labelled(session, b"kem")), (1088, 0));
    let (mut ciphertext, mut key, mut again) = ([0_u8; 1088], 77, 0);
    let place = ciphertext.as_mut_ptr();
    let encapsulate = |room: &mut CK_ULONG, key: *mut Object| {
        rv!(C_EncapsulateKey(session, with, public, template, 5, place, room, key))
    };
    room = 1087;
    assert_eq!(encapsulate(&mut room, &raw mut key), CKR_BUFFER_TOO_SMALL);
    assert_eq!((room, key), (1088, 77));
    assert_eq!(encapsulate(&mut room, nothing()), CKR_ARGUMENTS_BAD);
    assert_eq!(labelled(session, b"kem"), 0);
    assert_eq!(encapsulate(&mut room, &raw mut key), CKR_OK);
    assert_eq!(labelled(session, b"kem"), 1);

    ok!(C_DecapsulateKey(session, with, private, template, 5, pointer(&ciphertext), 1088, &raw mut again));
    let ecb = &mut mechanism(CKM_AES_ECB);
    assert_eq!(encrypted(session, ecb, key, &[3; 32]), encrypted(session, ecb, again, &[3; 32]));
}

/// Creates a generic secret with CKA_DERIVE.
fn generic(session: Session, value: &[u8]) -> Object {
    let template = [
        attribute(CKA_CLASS, &CKO_SECRET_KEY),
        attribute(CKA_KEY_TYPE, &CKK_GENERIC_SECRET),
        attribute(CKA_VALUE, value),
        attribute(CKA_DERIVE, &CK_TRUE),
    ];
    created(session, &template)
}

#[test]
fn tls_key_handles_are_returned_in_the_parameter() {
    let session = session();
    let randoms = CK_SSL3_RANDOM_DATA {
        pClientRandom: pointer(&[1; 32]),
        ulClientRandomLen: 32,
        pServerRandom: pointer(&[2; 32]),
        ulServerRandomLen: 32,
    };
    let (pre, mut master) = (generic(session, &[3; 48]), 0);
    let mut version = CK_VERSION { major: 9, minor: 9 };
    let mut params = CK_TLS12_MASTER_KEY_DERIVE_PARAMS {
        RandomInfo: randoms,
        pVersion: &raw mut version,
        prfHashMechanism: CKM_SHA256,
    };
    let mut with = mechanism_with(CKM_TLS12_MASTER_KEY_DERIVE, &params);
    ok!(C_DeriveKey(session, &raw mut with, pre, nothing(), 0, &raw mut master));
    assert_eq!((version.major, version.minor), (3, 3));
    // A Diffie-Hellman pre-master secret has no version, so a pointer for the version is refused.
    let mut with = mechanism_with(CKM_TLS12_MASTER_KEY_DERIVE_DH, &params);
    let rv = rv!(C_DeriveKey(session, &raw mut with, pre, nothing(), 0, &raw mut master));
    assert_eq!(rv, CKR_MECHANISM_PARAM_INVALID);
    params.pVersion = nothing();
    let mut with = mechanism_with(CKM_TLS12_MASTER_KEY_DERIVE, &params);
    assert_eq!(rv!(C_DeriveKey(session, &raw mut with, pre, nothing(), 0, nothing())), CKR_ARGUMENTS_BAD);
    ok!(C_DeriveKey(session, &raw mut with, pre, nothing(), 0, &raw mut master));

    let (mut client_iv, mut server_iv) = ([0_u8; 6], [0_u8; 6]);
    let mut out = CK_SSL3_KEY_MAT_OUT {
        hClientMacSecret: 77,
        hServerMacSecret: 77,
        hClientKey: 77,
        hServerKey: 77,
        pIVClient: client_iv.as_mut_ptr(),
        pIVServer: server_iv.as_mut_ptr(),
    };
    let params = CK_TLS12_KEY_MAT_PARAMS {
        ulMacSizeInBits: 0,
        ulKeySizeInBits: 128,
        ulIVSizeInBits: 32,
        bIsExport: CK_FALSE,
        RandomInfo: randoms,
        pReturnedKeyMaterial: &raw mut out,
        prfHashMechanism: CKM_SHA256,
    };
    let template = [attribute(CKA_KEY_TYPE, &CKK_AES)];
    let template = template.as_ptr().cast_mut();
    let mut with = mechanism_with(CKM_TLS12_KEY_AND_MAC_DERIVE, &params);
    ok!(C_DeriveKey(session, &raw mut with, master, template, 1, nothing()));
    assert_eq!((out.hClientMacSecret, out.hServerMacSecret), (CK_INVALID_HANDLE, CK_INVALID_HANDLE));
    assert!(out.hClientKey != 77 && out.hServerKey != 77 && out.hClientKey != out.hServerKey);
    // Each initialisation vector has exactly four bytes.
    assert_ne!((client_iv, server_iv), ([0; 6], [0; 6]));
    assert_eq!((&client_iv[4..], &server_iv[4..]), (&[0, 0][..], &[0, 0][..]));
    let mut half = CK_SSL3_KEY_MAT_OUT { pIVServer: nothing(), ..out };
    let params = CK_TLS12_KEY_MAT_PARAMS { pReturnedKeyMaterial: &raw mut half, ..params };
    let mut with = mechanism_with(CKM_TLS12_KEY_AND_MAC_DERIVE, &params);
    let rv = rv!(C_DeriveKey(session, &raw mut with, master, template, 1, nothing()));
    assert_eq!(rv, CKR_MECHANISM_PARAM_INVALID);
    // This mechanism never derives vectors, so a pointer for a vector may be NULL.
    let mut with = mechanism_with(CKM_TLS12_KEY_SAFE_DERIVE, &params);
    ok!(C_DeriveKey(session, &raw mut with, master, template, 1, nothing()));
    let nowhere = CK_TLS12_KEY_MAT_PARAMS { pReturnedKeyMaterial: nothing(), ..params };
    let mut with = mechanism_with(CKM_TLS12_KEY_SAFE_DERIVE, &nowhere);
    let rv = rv!(C_DeriveKey(session, &raw mut with, master, template, 1, nothing()));
    assert_eq!(rv, CKR_MECHANISM_PARAM_INVALID);
}

#[test]
fn additional_derived_key_handles_are_returned_in_the_parameter() {
    let session = session();
    let base = generic(session, &[4; 32]);
    let format = CK_SP800_108_COUNTER_FORMAT { bLittleEndian: CK_FALSE, ulWidthInBits: 32 };
    let field = CK_PRF_DATA_PARAM {
        type_: CK_SP800_108_ITERATION_VARIABLE,
        pValue: mutable(&format).cast(),
        ulValueLen: size_of_val(&format) as CK_ULONG,
    };
    let (good, short): (CK_ULONG, CK_ULONG) = (16, 15);
    let of = |len| [attribute(CKA_KEY_TYPE, &CKK_AES), attribute(CKA_VALUE_LEN, len)];
    let (good, wrong) = (of(&good), of(&short));
    let derive = |second: &[CK_ATTRIBUTE]| {
        let mut handles = [77; 3];
        let mut places = handles.each_mut().map(std::ptr::from_mut);
        let key = |template: &[CK_ATTRIBUTE], phKey| CK_DERIVED_KEY {
            pTemplate: template.as_ptr().cast_mut(),
            ulAttributeCount: 2,
            phKey,
        };
        let mut more = [key(&good, places[1]), key(second, places[2])];
        let params = CK_SP800_108_KDF_PARAMS {
            prfType: CKM_SHA256_HMAC,
            ulNumberOfDataParams: 1,
            pDataParams: mutable(&field),
            ulAdditionalDerivedKeys: 2,
            pAdditionalDerivedKeys: more.as_mut_ptr(),
        };
        let mut with = mechanism_with(CKM_SP800_108_COUNTER_KDF, &params);
        let template = good.as_ptr().cast_mut();
        let rv = rv!(C_DeriveKey(session, &raw mut with, base, template, 2, places.as_mut()[0]));
        (rv, handles)
    };
    let (rv, handles) = derive(&good);
    assert_eq!(rv, CKR_OK);
    assert!(!handles.contains(&77) && handles[0] != handles[1] && handles[1] != handles[2]);
    assert_eq!(derive(&wrong), (CKR_KEY_SIZE_RANGE, [77, 77, CK_INVALID_HANDLE]));
}

#[test]
fn tls_prf_fills_a_buffer() {
    let session = session();
    let (base, mut out, mut len) = (generic(session, &[5; 48]), [0_u8; 24], 20);
    let params = CK_TLS_PRF_PARAMS {
        pSeed: pointer(b"seed"),
        ulSeedLen: 4,
        pLabel: pointer(b"label"),
        ulLabelLen: 5,
        pOutput: out.as_mut_ptr(),
        pulOutputLen: &raw mut len,
    };
    let mut with = mechanism_with(CKM_TLS_PRF, &params);
    ok!(C_DeriveKey(session, &raw mut with, base, nothing(), 0, nothing()));
    assert_eq!(len, 20);
    assert_ne!(out[..20], [0; 20]);
    assert_eq!(out[20..], [0; 4]);
}
