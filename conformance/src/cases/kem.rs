//! Key encapsulation.

use cryptoki_sys::*;
use jeton_driver::client::{Arg, Failure, Mechanism, Memory, ObjectHandle};

use super::{Case, SHA256, case};
use crate::place::{Key, NO_OBJECT, Place, ensure, open_key};

static KEM: Mechanism = Mechanism::new(CKM_ML_KEM);
/// The length of an ML-KEM-768 ciphertext in bytes (FIPS 203, table 3).
const LENGTH: usize = 1088;

/// Encapsulates a secret. Returns the ciphertext and a readable key.
pub fn encapsulate(
    p: &Place<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    room: usize,
) -> Result<(Vec<u8>, ObjectHandle), Failure> {
    let (template, place) = (open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Arg::place());
    let (mut out, mut length) = (vec![0; room], room as CK_ULONG);
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(key.0),
        Arg::Template(&template),
        Arg::Buffer(&mut out, &mut length),
        Arg::Place(&place),
    ];
    p.call("C_EncapsulateKey", &p.session, arguments)?;
    out.truncate(length as usize);
    Ok((out, ObjectHandle(place.number(0))))
}

/// Decapsulates a secret as a readable key.
pub fn decapsulate(
    p: &Place<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    ciphertext: &[u8],
) -> Result<ObjectHandle, Failure> {
    let (template, place): (_, Memory) = (open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Arg::place());
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(key.0),
        Arg::Template(&template),
        Arg::Bytes(ciphertext),
        Arg::Place(&place),
    ];
    p.call("C_DecapsulateKey", &p.session, arguments)?;
    Ok(ObjectHandle(place.number(0)))
}

/// Calls `work` with an ML-KEM pair. A module without ML-KEM is not tested.
fn with_pair(
    p: &Place<'_>,
    work: impl FnOnce(crate::place::Pair) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !p.lists(CKM_ML_KEM) {
        let code = CKR_FUNCTION_NOT_SUPPORTED;
        return Err(Failure { function: "C_EncapsulateKey", code, doing: "looking for ML-KEM".into() });
    }
    work(p.pair(Key::MlKem)?)
}

pub const CASES: &[Case] = &[
    case("C_EncapsulateKey", "is undone by C_DecapsulateKey", &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED], |p| {
        with_pair(p, |pair| {
            let (ciphertext, one) = encapsulate(p, &KEM, pair.public, LENGTH)?;
            let two = decapsulate(p, &KEM, pair.private, &ciphertext)?;
            ensure(
                "C_DecapsulateKey",
                p.session.attribute(one, CKA_VALUE)? == p.session.attribute(two, CKA_VALUE)?,
            )
        })
    }),
    case(
        "C_EncapsulateKey",
        "into a short buffer",
        &[CKR_BUFFER_TOO_SMALL, CKR_FUNCTION_NOT_SUPPORTED],
        |p| with_pair(p, |pair| encapsulate(p, &KEM, pair.public, LENGTH - 1).map(drop)),
    ),
    case("C_EncapsulateKey", "asked for the length", &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED], |p| {
        with_pair(p, |pair| {
            let (template, place, mut length) =
                (open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Arg::place(), 0);
            let arguments = vec![
                Arg::Mechanism(&KEM),
                Arg::Number(pair.public.0),
                Arg::Template(&template),
                Arg::NoBuffer(&mut length),
                Arg::Place(&place),
            ];
            p.call("C_EncapsulateKey", &p.session, arguments)?;
            ensure("C_EncapsulateKey", length == LENGTH as CK_ULONG)
        })
    }),
    case(
        "C_EncapsulateKey",
        "with a mechanism that does not encapsulate",
        &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |p| with_pair(p, |pair| encapsulate(p, &SHA256, pair.public, LENGTH).map(drop)),
    ),
    case(
        "C_EncapsulateKey",
        "with a handle that names no key",
        &[CKR_KEY_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |p| with_pair(p, |_| encapsulate(p, &KEM, NO_OBJECT, LENGTH).map(drop)),
    ),
    case(
        "C_EncapsulateKey",
        "with the private key",
        &[
            CKR_KEY_TYPE_INCONSISTENT,
            CKR_KEY_FUNCTION_NOT_PERMITTED,
            CKR_KEY_HANDLE_INVALID,
            CKR_FUNCTION_NOT_SUPPORTED,
        ],
        |p| with_pair(p, |pair| encapsulate(p, &KEM, pair.private, LENGTH).map(drop)),
    ),
    case(
        "C_EncapsulateKey",
        "with a key of another type",
        &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_FUNCTION_NOT_SUPPORTED],
        |p| with_pair(p, |_| encapsulate(p, &KEM, p.pair(Key::Ec)?.public, LENGTH).map(drop)),
    ),
    case(
        "C_DecapsulateKey",
        "of a ciphertext that is too short",
        &[
            CKR_WRAPPED_KEY_LEN_RANGE,
            CKR_WRAPPED_KEY_INVALID,
            CKR_ENCRYPTED_DATA_LEN_RANGE,
            CKR_ENCRYPTED_DATA_INVALID,
            CKR_FUNCTION_NOT_SUPPORTED,
        ],
        |p| with_pair(p, |pair| decapsulate(p, &KEM, pair.private, &[1; LENGTH - 1]).map(drop)),
    ),
    case(
        "C_DecapsulateKey",
        "of an altered ciphertext gives another secret",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |p| {
            with_pair(p, |pair| {
                let (mut ciphertext, one) = encapsulate(p, &KEM, pair.public, LENGTH)?;
                ciphertext[0] ^= 1;
                let two = decapsulate(p, &KEM, pair.private, &ciphertext)?;
                ensure(
                    "C_DecapsulateKey",
                    p.session.attribute(one, CKA_VALUE)? != p.session.attribute(two, CKA_VALUE)?,
                )
            })
        },
    ),
    case(
        "C_DecapsulateKey",
        "with the public key",
        &[
            CKR_KEY_TYPE_INCONSISTENT,
            CKR_KEY_FUNCTION_NOT_PERMITTED,
            CKR_KEY_HANDLE_INVALID,
            CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT,
            CKR_FUNCTION_NOT_SUPPORTED,
        ],
        |p| with_pair(p, |pair| decapsulate(p, &KEM, pair.public, &[1; LENGTH]).map(drop)),
    ),
    case(
        "C_DecapsulateKey",
        "with a handle that names no key",
        &[CKR_KEY_HANDLE_INVALID, CKR_UNWRAPPING_KEY_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |p| with_pair(p, |_| decapsulate(p, &KEM, NO_OBJECT, &[1; LENGTH]).map(drop)),
    ),
];
