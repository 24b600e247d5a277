//! Key encapsulation.

use cryptoki_sys::*;
use jeton_client::{Arg, Failure, Mechanism, Memory, ObjectHandle};

use super::{Case, SHA256, case};
use crate::fixture::{Fixture, Key, NO_OBJECT, ensure, open_key};

static KEM: Mechanism = Mechanism::new(CKM_ML_KEM);
/// The length of an ML-KEM-768 ciphertext in bytes (FIPS 203, table 3).
const LENGTH: usize = 1088;

/// Encapsulates a secret. Returns the ciphertext and a readable key.
pub fn encapsulate(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    room: usize,
) -> Result<(Vec<u8>, ObjectHandle), Failure> {
    let (template, output) = (open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Arg::zeroed());
    let (mut out, mut length) = (vec![0; room], room as CK_ULONG);
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(key.0),
        Arg::Template(&template),
        Arg::Buffer(&mut out, &mut length),
        Arg::Output(&output),
    ];
    fixture.call("C_EncapsulateKey", &fixture.session, arguments)?;
    out.truncate(length as usize);
    Ok((out, ObjectHandle(output.number(0))))
}

/// Decapsulates a secret as a readable key.
pub fn decapsulate(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    ciphertext: &[u8],
) -> Result<ObjectHandle, Failure> {
    let (template, output): (_, Memory) = (open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Arg::zeroed());
    let arguments = vec![
        Arg::Mechanism(mechanism),
        Arg::Number(key.0),
        Arg::Template(&template),
        Arg::Bytes(ciphertext),
        Arg::Output(&output),
    ];
    fixture.call("C_DecapsulateKey", &fixture.session, arguments)?;
    Ok(ObjectHandle(output.number(0)))
}

/// Calls `work` with an ML-KEM pair. Fails with `CKR_FUNCTION_NOT_SUPPORTED` if the module has no
/// ML-KEM.
fn with_pair(
    fixture: &Fixture<'_>,
    work: impl FnOnce(crate::fixture::Pair) -> Result<(), Failure>,
) -> Result<(), Failure> {
    if !fixture.lists(CKM_ML_KEM) {
        let code = CKR_FUNCTION_NOT_SUPPORTED;
        return Err(Failure { function: "C_EncapsulateKey", code, doing: "looking for ML-KEM".into() });
    }
    work(fixture.pair(Key::MlKem)?)
}

pub const CASES: &[Case] = &[
    case(
        "C_EncapsulateKey",
        "is reversed by C_DecapsulateKey",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            with_pair(fixture, |pair| {
                let (ciphertext, one) = encapsulate(fixture, &KEM, pair.public, LENGTH)?;
                let two = decapsulate(fixture, &KEM, pair.private, &ciphertext)?;
                ensure(
                    "C_DecapsulateKey",
                    fixture.session.attribute(one, CKA_VALUE)?
                        == fixture.session.attribute(two, CKA_VALUE)?,
                )
            })
        },
    ),
    case(
        "C_EncapsulateKey",
        "into a short buffer",
        &[CKR_BUFFER_TOO_SMALL, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| with_pair(fixture, |pair| encapsulate(fixture, &KEM, pair.public, LENGTH - 1).map(drop)),
    ),
    case("C_EncapsulateKey", "with NULL for the buffer", &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED], |fixture| {
        with_pair(fixture, |pair| {
            let (template, output, mut length) =
                (open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Arg::zeroed(), 0);
            let arguments = vec![
                Arg::Mechanism(&KEM),
                Arg::Number(pair.public.0),
                Arg::Template(&template),
                Arg::NoBuffer(&mut length),
                Arg::Output(&output),
            ];
            fixture.call("C_EncapsulateKey", &fixture.session, arguments)?;
            ensure("C_EncapsulateKey", length == LENGTH as CK_ULONG)
        })
    }),
    case(
        "C_EncapsulateKey",
        "with a mechanism that does not encapsulate",
        &[CKR_MECHANISM_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| with_pair(fixture, |pair| encapsulate(fixture, &SHA256, pair.public, LENGTH).map(drop)),
    ),
    case(
        "C_EncapsulateKey",
        "with an invalid key handle",
        &[CKR_KEY_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| with_pair(fixture, |_| encapsulate(fixture, &KEM, NO_OBJECT, LENGTH).map(drop)),
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
        |fixture| with_pair(fixture, |pair| encapsulate(fixture, &KEM, pair.private, LENGTH).map(drop)),
    ),
    case(
        "C_EncapsulateKey",
        "with a key of another type",
        &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            with_pair(fixture, |_| {
                encapsulate(fixture, &KEM, fixture.pair(Key::Ec)?.public, LENGTH).map(drop)
            })
        },
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
        |fixture| {
            with_pair(fixture, |pair| decapsulate(fixture, &KEM, pair.private, &[1; LENGTH - 1]).map(drop))
        },
    ),
    case(
        "C_DecapsulateKey",
        "of an altered ciphertext gives another secret",
        &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| {
            with_pair(fixture, |pair| {
                let (mut ciphertext, one) = encapsulate(fixture, &KEM, pair.public, LENGTH)?;
                ciphertext[0] ^= 1;
                let two = decapsulate(fixture, &KEM, pair.private, &ciphertext)?;
                ensure(
                    "C_DecapsulateKey",
                    fixture.session.attribute(one, CKA_VALUE)?
                        != fixture.session.attribute(two, CKA_VALUE)?,
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
        |fixture| with_pair(fixture, |pair| decapsulate(fixture, &KEM, pair.public, &[1; LENGTH]).map(drop)),
    ),
    case(
        "C_DecapsulateKey",
        "with an invalid key handle",
        &[CKR_KEY_HANDLE_INVALID, CKR_UNWRAPPING_KEY_HANDLE_INVALID, CKR_FUNCTION_NOT_SUPPORTED],
        |fixture| with_pair(fixture, |_| decapsulate(fixture, &KEM, NO_OBJECT, &[1; LENGTH]).map(drop)),
    ),
];
