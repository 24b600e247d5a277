//! Key encapsulation.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Failure, Mechanism, Memory, ObjectHandle, Structure};

use super::{Case, SHA256, case};
use crate::fixture::{Fixture, Key, NO_OBJECT, ensure, open_key, with};

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
    let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Attribute::number(CKA_VALUE_LEN, 32));
    let output = Arg::zeroed();
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

/// Checks that a mechanism that also wraps or derives gives both sides the same key. A pair needs
/// the two usages.
fn reversed(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    generator: &Mechanism,
    request: Attribute,
) -> Result<(), Failure> {
    let flags = fixture.module.mechanism_info(fixture.slot, mechanism.kind).map_or(0, |info| info.flags);
    if flags & CKF_ENCAPSULATE == 0 {
        let code = CKR_FUNCTION_NOT_SUPPORTED;
        return Err(Failure {
            function: "C_EncapsulateKey",
            code,
            doing: "looking for the mechanism".into(),
        });
    }
    let half = |usage| vec![Attribute::flag(CKA_TOKEN, false), Attribute::flag(usage, true)];
    let public = with(half(CKA_ENCAPSULATE), request);
    let (public, private) = fixture.session.generate_key_pair(generator, &public, &half(CKA_DECAPSULATE))?;
    let (ciphertext, one) = encapsulate(fixture, mechanism, public, 512)?;
    let two = decapsulate(fixture, mechanism, private, &ciphertext)?;
    let value = |key| fixture.session.attribute(key, CKA_VALUE);
    ensure("C_DecapsulateKey", value(one)? == value(two)? && value(one)?.len() == 32)
}

/// The code of a module that does not encapsulate with this mechanism.
const REVERSED: &[CK_RV] = &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED];

pub const CASES: &[Case] = &[
    case("C_EncapsulateKey", "with CKM_RSA_PKCS_OAEP is reversed by C_DecapsulateKey", REVERSED, |fixture| {
        let mechanism = Structure::new().number(CKM_SHA256).number(CKG_MGF1_SHA256);
        let mechanism = mechanism.number(CKZ_DATA_SPECIFIED).bytes(b"").mechanism(CKM_RSA_PKCS_OAEP);
        let generator = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
        reversed(fixture, &mechanism, &generator, Attribute::number(CKA_MODULUS_BITS, 2048))
    }),
    case("C_EncapsulateKey", "with CKM_RSA_PKCS is reversed by C_DecapsulateKey", REVERSED, |fixture| {
        let generator = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
        let bits = Attribute::number(CKA_MODULUS_BITS, 2048);
        reversed(fixture, &Mechanism::new(CKM_RSA_PKCS), &generator, bits)
    }),
    case("C_EncapsulateKey", "with CKM_ECDH1_DERIVE is reversed by C_DecapsulateKey", REVERSED, |fixture| {
        let mechanism = Structure::new().number(CKD_NULL).number(0).null().number(0).null();
        let generator = Mechanism::new(CKM_EC_KEY_PAIR_GEN);
        let curve = fixture.session.attribute(fixture.pair(Key::Ec)?.public, CKA_EC_PARAMS)?;
        let curve = Attribute::bytes(CKA_EC_PARAMS, curve);
        reversed(fixture, &mechanism.mechanism(CKM_ECDH1_DERIVE), &generator, curve)
    }),
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
