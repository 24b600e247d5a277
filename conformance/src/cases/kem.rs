//! Key encapsulation.

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute, Failure, Mechanism, Memory, ObjectHandle, names};

use super::encryption::oaep;
use super::keys::ecdh;
use super::{BAD_HANDLE, BAD_MECHANISM, Case, SHA256, WRONG_KEY, case, optional, row};
use crate::fixture::{
    Answer, FFDHE2048, Fixture, Key, NO_OBJECT, P256, Pair, bytes, ensure, flag, hex, number, open_key, with,
};
use crate::task::Task;

static KEM: Mechanism = Mechanism::new(CKM_ML_KEM);
/// The length of an ML-KEM-768 ciphertext in bytes (FIPS 203, table 3).
const LENGTH: usize = 1088;

/// Encapsulates a secret. Returns the ciphertext and a readable key.
pub fn encapsulate(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    room: usize,
) -> Answer<(Vec<u8>, ObjectHandle)> {
    let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), number(CKA_VALUE_LEN, 32));
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

pub fn decapsulate(
    fixture: &Fixture<'_>,
    mechanism: &Mechanism,
    key: ObjectHandle,
    ciphertext: &[u8],
) -> Answer<ObjectHandle> {
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

/// Returns an ML-KEM pair. Fails with `CKR_FUNCTION_NOT_SUPPORTED` if the module has no ML-KEM.
fn ml_kem(fixture: &Fixture<'_>) -> Answer<Pair> {
    if fixture.lists(CKM_ML_KEM) { fixture.pair(Key::MlKem) } else { Err(absent()) }
}

/// Returns the failure of a module that does not encapsulate with the mechanism.
fn absent() -> Failure {
    let code = CKR_FUNCTION_NOT_SUPPORTED;
    Failure { function: "C_EncapsulateKey", code, doing: "looking for the mechanism".into() }
}

/// The mechanisms that also wrap or derive.
#[derive(Clone, Copy)]
enum Also {
    Oaep,
    Pkcs1,
    Ecdh,
    Dh,
}

impl Also {
    fn mechanism(self) -> Mechanism {
        match self {
            Self::Oaep => oaep(CKM_SHA256, CKG_MGF1_SHA256, b""),
            Self::Pkcs1 => Mechanism::new(CKM_RSA_PKCS),
            Self::Ecdh => ecdh(CKD_NULL, b""),
            Self::Dh => Mechanism::new(CKM_DH_PKCS_DERIVE),
        }
    }

    /// Returns the mechanism that generates a pair, with the attributes that it needs.
    fn request(self) -> (Mechanism, Vec<Attribute>) {
        let (kind, request) = match self {
            Self::Oaep | Self::Pkcs1 => (CKM_RSA_PKCS_KEY_PAIR_GEN, vec![number(CKA_MODULUS_BITS, 2048)]),
            Self::Ecdh => (CKM_EC_KEY_PAIR_GEN, vec![bytes(CKA_EC_PARAMS, P256)]),
            Self::Dh => {
                let group = [bytes(CKA_PRIME, hex(FFDHE2048)), bytes(CKA_BASE, [2])];
                (CKM_DH_PKCS_KEY_PAIR_GEN, group.into())
            }
        };
        (Mechanism::new(kind), request)
    }

    /// Generates a pair that may encapsulate, or not. Fails with `CKR_FUNCTION_NOT_SUPPORTED` if
    /// the module does not encapsulate with this mechanism.
    fn pair(self, fixture: &Fixture<'_>, may: bool) -> Answer<Pair> {
        let kind = self.mechanism().kind;
        let flags = fixture.module.mechanism_info(fixture.slot, kind).map_or(0, |info| info.flags);
        if flags & CKF_ENCAPSULATE == 0 {
            return Err(absent());
        }
        let (generator, request) = self.request();
        let half = |usage| vec![flag(CKA_TOKEN, false), flag(usage, may)];
        let public = [half(CKA_ENCAPSULATE), request].concat();
        let made = fixture.generate_key_pair(&generator, &public, &half(CKA_DECAPSULATE));
        made.map(|(public, private)| Pair { public, private })
    }
}

/// Checks that both sides get the same key.
fn reversed(fixture: &Fixture<'_>, also: Also) -> Answer {
    let (pair, mechanism) = (also.pair(fixture, true)?, also.mechanism());
    let (ciphertext, one) = encapsulate(fixture, &mechanism, pair.public, 512)?;
    let two = decapsulate(fixture, &mechanism, pair.private, &ciphertext)?;
    let value = |key| fixture.attribute(key, CKA_VALUE);
    let (one, two) = (value(one)?, value(two)?);
    // The template of `decapsulate` has no length. Without one, Diffie-Hellman gives the whole
    // secret, of which a shorter key has the last bytes.
    let is_right = if matches!(also, Also::Dh) { two.ends_with(&one) } else { two == one };
    ensure("C_DecapsulateKey", is_right && one.len() == 32)
}

/// Decapsulates a ciphertext that has one byte too many.
fn lengthened(fixture: &Fixture<'_>, also: Also) -> Answer {
    let (pair, mechanism) = (also.pair(fixture, true)?, also.mechanism());
    let (mut ciphertext, _) = encapsulate(fixture, &mechanism, pair.public, 512)?;
    ciphertext.push(0);
    decapsulate(fixture, &mechanism, pair.private, &ciphertext).map(drop)
}

/// Encapsulates with a key of another type that may encapsulate.
fn of_another_type(fixture: &Fixture<'_>, also: Also) -> Answer {
    let other = match also {
        Also::Oaep | Also::Pkcs1 => Also::Ecdh,
        Also::Ecdh | Also::Dh => Also::Oaep,
    };
    also.pair(fixture, true)?;
    encapsulate(fixture, &also.mechanism(), other.pair(fixture, true)?.public, 512).map(drop)
}

/// Encapsulates with a key that has `CKA_ENCAPSULATE` false.
fn not_permitted(fixture: &Fixture<'_>, also: Also) -> Answer {
    let pair = also.pair(fixture, false)?;
    encapsulate(fixture, &also.mechanism(), pair.public, 512).map(drop)
}

/// The code of a module that does not encapsulate with this mechanism.
const REVERSED: &[CK_RV] = &[CKR_OK, CKR_FUNCTION_NOT_SUPPORTED];
const OF_ANOTHER_LENGTH: &[CK_RV] = &[
    CKR_WRAPPED_KEY_LEN_RANGE,
    CKR_WRAPPED_KEY_INVALID,
    CKR_ENCRYPTED_DATA_LEN_RANGE,
    CKR_ENCRYPTED_DATA_INVALID,
    CKR_FUNCTION_NOT_SUPPORTED,
];
const OF_ANOTHER_TYPE: &[CK_RV] =
    &[CKR_KEY_TYPE_INCONSISTENT, CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_FUNCTION_NOT_SUPPORTED];
const NOT_PERMITTED: &[CK_RV] = &[CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_FUNCTION_NOT_SUPPORTED];

/// The function under test, the situation of a mechanism that also wraps or derives, the allowed
/// codes, and the calls.
type Check = (&'static str, &'static str, &'static [CK_RV], fn(&Fixture<'_>, Also) -> Answer);

const CHECKS: [Check; 4] = [
    ("C_EncapsulateKey", "is reversed by C_DecapsulateKey", REVERSED, reversed),
    ("C_DecapsulateKey", "of a ciphertext that is too long", OF_ANOTHER_LENGTH, lengthened),
    ("C_EncapsulateKey", "and a key of another type", OF_ANOTHER_TYPE, of_another_type),
    ("C_EncapsulateKey", "and a key without CKA_ENCAPSULATE", NOT_PERMITTED, not_permitted),
];

pub fn tasks() -> Vec<Task> {
    let mechanisms = [Also::Oaep, Also::Pkcs1, Also::Ecdh, Also::Dh];
    let pairs = CHECKS.into_iter().flat_map(|check| mechanisms.map(|also| (check, also)));
    let tasks = pairs.map(|((function, situation, codes, run), also)| {
        let name = format!("with {} {situation}", names::mechanism(also.mechanism().kind));
        row(function, name, codes.to_vec(), move |fixture| run(fixture, also))
    });
    tasks.collect()
}

const WRONG_HALF: &[CK_RV] = &[
    CKR_KEY_TYPE_INCONSISTENT,
    CKR_KEY_FUNCTION_NOT_PERMITTED,
    CKR_KEY_HANDLE_INVALID,
    CKR_UNWRAPPING_KEY_TYPE_INCONSISTENT,
];
const NO_KEY: &[CK_RV] = &[CKR_KEY_HANDLE_INVALID, CKR_UNWRAPPING_KEY_HANDLE_INVALID];

pub const CASES: &[Case] = &[
    optional("C_EncapsulateKey", "is reversed by C_DecapsulateKey", &[CKR_OK], |fixture| {
        let pair = ml_kem(fixture)?;
        let (ciphertext, one) = encapsulate(fixture, &KEM, pair.public, LENGTH)?;
        let two = decapsulate(fixture, &KEM, pair.private, &ciphertext)?;
        ensure("C_DecapsulateKey", fixture.attribute(one, CKA_VALUE)? == fixture.attribute(two, CKA_VALUE)?)
    }),
    optional("C_EncapsulateKey", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        encapsulate(fixture, &KEM, ml_kem(fixture)?.public, LENGTH - 1).map(drop)
    }),
    optional("C_EncapsulateKey", "with NULL for the buffer", &[CKR_OK], |fixture| {
        let (pair, output, mut length) = (ml_kem(fixture)?, Arg::zeroed(), 0);
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let arguments = vec![
            Arg::Mechanism(&KEM),
            Arg::Number(pair.public.0),
            Arg::Template(&template),
            Arg::NoBuffer(&mut length),
            Arg::Output(&output),
        ];
        fixture.call("C_EncapsulateKey", &fixture.session, arguments)?;
        ensure("C_EncapsulateKey", length == LENGTH as CK_ULONG)
    }),
    optional("C_EncapsulateKey", "with a mechanism that does not encapsulate", BAD_MECHANISM, |fixture| {
        encapsulate(fixture, &SHA256, ml_kem(fixture)?.public, LENGTH).map(drop)
    }),
    optional("C_EncapsulateKey", "with an invalid key handle", BAD_HANDLE, |fixture| {
        ml_kem(fixture).and_then(|_| encapsulate(fixture, &KEM, NO_OBJECT, LENGTH).map(drop))
    }),
    optional("C_EncapsulateKey", "with the private key", WRONG_KEY, |fixture| {
        encapsulate(fixture, &KEM, ml_kem(fixture)?.private, LENGTH).map(drop)
    }),
    case("C_EncapsulateKey", "with a key of another type", OF_ANOTHER_TYPE, |fixture| {
        ml_kem(fixture)
            .and_then(|_| encapsulate(fixture, &KEM, fixture.pair(Key::Ec)?.public, LENGTH).map(drop))
    }),
    case("C_DecapsulateKey", "of a ciphertext that is too short", OF_ANOTHER_LENGTH, |fixture| {
        decapsulate(fixture, &KEM, ml_kem(fixture)?.private, &[1; LENGTH - 1]).map(drop)
    }),
    optional("C_DecapsulateKey", "of an altered ciphertext gives another secret", &[CKR_OK], |fixture| {
        let pair = ml_kem(fixture)?;
        let (mut ciphertext, one) = encapsulate(fixture, &KEM, pair.public, LENGTH)?;
        ciphertext[0] ^= 1;
        let two = decapsulate(fixture, &KEM, pair.private, &ciphertext)?;
        ensure("C_DecapsulateKey", fixture.attribute(one, CKA_VALUE)? != fixture.attribute(two, CKA_VALUE)?)
    }),
    optional("C_DecapsulateKey", "with the public key", WRONG_HALF, |fixture| {
        decapsulate(fixture, &KEM, ml_kem(fixture)?.public, &[1; LENGTH]).map(drop)
    }),
    optional("C_DecapsulateKey", "with an invalid key handle", NO_KEY, |fixture| {
        ml_kem(fixture).and_then(|_| decapsulate(fixture, &KEM, NO_OBJECT, &[1; LENGTH]).map(drop))
    }),
];
