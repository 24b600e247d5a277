//! "Key management functions": generation and derivation of keys.

use cryptoki_sys::*;
use jeton_client::{Attribute, Mechanism, Structure};

use super::objects::{BAD_VALUE, WRONG};
use super::verifying::idle_pair;
use super::{
    BAD_HANDLE, BAD_MECHANISM, Case, ECDSA, INCOMPLETE, MAY_REFUSE, NO_MECHANISM, READ_ONLY, Run, SHA256,
    case,
};
use crate::fixture::{
    Answer, Fixture, Key, NO_OBJECT, P256, SECRET, able, bytes, ensure, flag, number, open_key, with,
};

static AES_GEN: Mechanism = Mechanism::new(CKM_AES_KEY_GEN);
static EC_GEN: Mechanism = Mechanism::new(CKM_EC_KEY_PAIR_GEN);
static RSA_GEN: Mechanism = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);

/// The codes for a parameter that a mechanism refuses. A module may lack the mechanism.
const BAD_PARAMETER: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID, CKR_MECHANISM_INVALID];
/// The codes for a length that a derivation cannot give, in its parameter or in the template.
const BAD_LENGTH: &[CK_RV] = &[
    CKR_KEY_SIZE_RANGE,
    CKR_TEMPLATE_INCONSISTENT,
    CKR_ATTRIBUTE_VALUE_INVALID,
    CKR_MECHANISM_PARAM_INVALID,
    CKR_MECHANISM_INVALID,
];
/// The codes for a base key of another type.
const BAD_TYPE: &[CK_RV] = &[CKR_KEY_TYPE_INCONSISTENT, CKR_MECHANISM_PARAM_INVALID, CKR_MECHANISM_INVALID];

/// A mechanism, the type of its base key, and the length of the key that it derives.
pub type Derivation = (Mechanism, CK_KEY_TYPE, Option<CK_ULONG>);

/// Derives a generic secret. The value of the base key is [`SECRET`].
pub fn derived(fixture: &Fixture<'_>, (mechanism, base, length): Derivation) -> Answer {
    let key = with(open_key(CKO_SECRET_KEY, base), bytes(CKA_VALUE, SECRET));
    let key = fixture.create_object(&able(key, &[CKA_DERIVE]))?;
    let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    template.extend(length.map(|length| number(CKA_VALUE_LEN, length)));
    fixture.derive_key(&mechanism, key, &template).map(drop)
}

const fn derives(name: &'static str, expected: &'static [CK_RV], of: fn() -> Derivation) -> Case {
    Case { function: "C_DeriveKey", name, expected, absent: &[], run: Run::Derives(of) }
}

const fn generates(name: &'static str, expected: &'static [CK_RV], template: fn() -> Vec<Attribute>) -> Case {
    Case { function: "C_GenerateKey", name, expected, absent: &[], run: Run::Generates(template) }
}

const fn pair(
    name: &'static str,
    expected: &'static [CK_RV],
    mechanism: &'static Mechanism,
    public: fn() -> Vec<Attribute>,
) -> Case {
    let run = Run::GeneratesPair(mechanism, public);
    Case { function: "C_GenerateKeyPair", name, expected, absent: &[], run }
}

fn hkdf(extract: bool, expand: bool) -> Mechanism {
    let parameter = Structure::new().flag(extract).flag(expand).number(CKM_SHA256);
    parameter.number(CKF_HKDF_SALT_NULL).bytes(b"").number(0).bytes(b"").mechanism(CKM_HKDF_DERIVE)
}

/// Returns SP 800-108 in counter mode with a counter of one byte.
fn counter(prf: CK_MECHANISM_TYPE) -> Mechanism {
    let format = Structure::new().flag(false).number(8);
    let field = Structure::new().number(CK_SP800_108_ITERATION_VARIABLE).structure(format).number(16);
    let parameter = Structure::new().number(prf).number(1).structure(field).number(0).null();
    parameter.mechanism(CKM_SP800_108_COUNTER_KDF)
}

fn ike(prf: CK_MECHANISM_TYPE) -> Mechanism {
    let parameter = Structure::new().number(prf).flag(false).flag(false);
    parameter.bytes(&[1; 16]).bytes(&[2; 16]).number(0).mechanism(CKM_IKE_PRF_DERIVE)
}

/// Returns the derivation of the master secret of TLS 1.2.
fn master() -> Mechanism {
    let randoms = Structure::new().bytes(&[1; 32]).bytes(&[2; 32]);
    let parameter = Structure::new().members(randoms).null().number(CKM_SHA256);
    parameter.mechanism(CKM_TLS12_MASTER_KEY_DERIVE_DH)
}

/// Generates a generic secret of that number of bytes from a password.
fn of_password(fixture: &Fixture<'_>, rounds: CK_ULONG, length: Option<CK_ULONG>) -> Answer {
    let parameter = Structure::new().number(CKZ_SALT_SPECIFIED).bytes(b"salt").number(rounds);
    let parameter = parameter.number(CKP_PKCS5_PBKD2_HMAC_SHA256).bytes(b"").bytes(b"password");
    let mut template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
    template.extend(length.map(|length| number(CKA_VALUE_LEN, length)));
    fixture.generate_key(&parameter.mechanism(CKM_PKCS5_PBKD2), &template).map(drop)
}

fn sized(bytes: CK_ULONG) -> Vec<Attribute> {
    vec![flag(CKA_TOKEN, false), number(CKA_VALUE_LEN, bytes)]
}

pub fn generated(fixture: &Fixture<'_>, template: &[Attribute]) -> Answer {
    fixture.generate_key(&AES_GEN, template).map(drop)
}

pub fn ecdh(kdf: CK_ULONG, public: &[u8]) -> Mechanism {
    Structure::new().number(kdf).counted(&[]).counted(public).mechanism(CKM_ECDH1_DERIVE)
}

fn agreed(fixture: &Fixture<'_>, mechanism: &Mechanism, more: &[Attribute]) -> Answer {
    let template = [open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), more.to_vec()].concat();
    fixture.derive_key(mechanism, fixture.key(Key::Ec)?, &template).map(drop)
}

/// Returns the point of the fixture's EC pair without its DER encoding.
pub fn point(fixture: &Fixture<'_>) -> Answer<Vec<u8>> {
    let point = fixture.attribute(fixture.pair(Key::Ec)?.public, CKA_EC_POINT)?;
    Ok(point[2..].to_vec())
}

const VALUE_GIVEN: &[CK_RV] =
    &[CKR_ATTRIBUTE_TYPE_INVALID, CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT];
const BAD_CURVE: &[CK_RV] = &[
    CKR_CURVE_NOT_SUPPORTED,
    CKR_DOMAIN_PARAMS_INVALID,
    CKR_ATTRIBUTE_VALUE_INVALID,
    CKR_TEMPLATE_INCONSISTENT,
];
const NO_DERIVATION: &[CK_RV] = &[CKR_KEY_FUNCTION_NOT_PERMITTED, CKR_KEY_TYPE_INCONSISTENT];
const BAD_POINT: &[CK_RV] =
    &[CKR_MECHANISM_PARAM_INVALID, CKR_DATA_INVALID, CKR_PUBLIC_KEY_INVALID, CKR_DOMAIN_PARAMS_INVALID];
const TOO_LONG: &[CK_RV] = &[CKR_KEY_SIZE_RANGE, CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_VALUE_INVALID];
const NO_KEY: &[CK_RV] = &[CKR_KEY_HANDLE_INVALID, CKR_MECHANISM_PARAM_INVALID, CKR_MECHANISM_INVALID];
const PART_OF_A_BLOCK: &[CK_RV] = &[CKR_MECHANISM_PARAM_INVALID, CKR_DATA_LEN_RANGE, CKR_MECHANISM_INVALID];
const NO_LENGTH: &[CK_RV] = &[CKR_TEMPLATE_INCOMPLETE, CKR_MECHANISM_INVALID];

pub const CASES: &[Case] = &[
    case("C_GenerateKey", "with an unknown mechanism", BAD_MECHANISM, |fixture| {
        fixture.generate_key(&NO_MECHANISM, &sized(32)).map(drop)
    }),
    case("C_GenerateKey", "with a mechanism that does not generate keys", BAD_MECHANISM, |fixture| {
        fixture.generate_key(&SHA256, &sized(32)).map(drop)
    }),
    generates("of an AES key without CKA_VALUE_LEN", INCOMPLETE, Vec::new),
    generates("of an AES key of 17 bytes", BAD_VALUE, || sized(17)),
    generates("with CKA_VALUE in the template", VALUE_GIVEN, || with(sized(32), bytes(CKA_VALUE, SECRET))),
    generates("with another class in the template", WRONG, || {
        with(sized(32), number(CKA_CLASS, CKO_PUBLIC_KEY))
    }),
    generates("with another key type in the template", WRONG, || {
        with(sized(32), number(CKA_KEY_TYPE, CKK_RSA))
    }),
    case("C_GenerateKey", "with a parameter that the mechanism does not have", MAY_REFUSE, |fixture| {
        fixture.generate_key(&Mechanism::with_bytes(CKM_AES_KEY_GEN, &[1; 8]), &sized(32)).map(drop)
    }),
    case("C_GenerateKey", "of a token key in a read-only session", READ_ONLY, |fixture| {
        let template = [flag(CKA_TOKEN, true), number(CKA_VALUE_LEN, 32)];
        fixture.reader()?.generate_key(&AES_GEN, &template).map(drop)
    }),
    case("C_GenerateKey", "of a private key without a login", &[CKR_USER_NOT_LOGGED_IN], |fixture| {
        fixture.logged_out(|session| {
            session.generate_key(&AES_GEN, &with(sized(32), flag(CKA_PRIVATE, true))).map(drop)
        })
    }),
    case("C_GenerateKey", "sets CKA_LOCAL and CKA_KEY_GEN_MECHANISM", &[CKR_OK], |fixture| {
        let template = [sized(32), vec![flag(CKA_SENSITIVE, true), flag(CKA_EXTRACTABLE, false)]];
        let key = fixture.generate_key(&AES_GEN, &template.concat())?;
        for flag in [CKA_LOCAL, CKA_ALWAYS_SENSITIVE, CKA_NEVER_EXTRACTABLE] {
            ensure("C_GenerateKey", fixture.attribute(key, flag)? == [1])?;
        }
        let mechanism = fixture.attribute(key, CKA_KEY_GEN_MECHANISM)?;
        ensure("C_GenerateKey", mechanism == CKM_AES_KEY_GEN.to_ne_bytes())
    }),
    pair("with a mechanism that does not generate key pairs", BAD_MECHANISM, &AES_GEN, Vec::new),
    pair("without CKA_EC_PARAMS", INCOMPLETE, &EC_GEN, Vec::new),
    pair("on an invalid curve", BAD_CURVE, &EC_GEN, || vec![bytes(CKA_EC_PARAMS, [6, 3, 0x2a, 3, 4])]),
    pair("of RSA without CKA_MODULUS_BITS", INCOMPLETE, &RSA_GEN, || {
        vec![bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1])]
    }),
    pair("of RSA with 128 bits", BAD_VALUE, &RSA_GEN, || vec![number(CKA_MODULUS_BITS, 128)]),
    pair("of RSA with an even exponent", WRONG, &RSA_GEN, || {
        vec![number(CKA_MODULUS_BITS, 2048), bytes(CKA_PUBLIC_EXPONENT, [1, 0, 0])]
    }),
    case("C_GenerateKeyPair", "of RSA without an exponent", &[CKR_OK], |fixture| {
        let pair = idle_pair(fixture)?;
        let reads = |key| fixture.attribute(key, CKA_PUBLIC_EXPONENT);
        ensure("C_GenerateKeyPair", [reads(pair.public)?, reads(pair.private)?] == [[1, 0, 1]; 2])
    }),
    case("C_GenerateKeyPair", "of token keys in a read-only session", READ_ONLY, |fixture| {
        let token = flag(CKA_TOKEN, true);
        let public = [bytes(CKA_EC_PARAMS, P256), token.clone()];
        fixture.reader()?.generate_key_pair(&EC_GEN, &public, &[token]).map(drop)
    }),
    case("C_DeriveKey", "with a mechanism that does not derive", BAD_MECHANISM, |fixture| {
        agreed(fixture, &ECDSA, &[])
    }),
    case("C_DeriveKey", "with an invalid key handle", BAD_HANDLE, |fixture| {
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        fixture.derive_key(&ecdh(CKD_NULL, &point(fixture)?), NO_OBJECT, &template).map(drop)
    }),
    case("C_DeriveKey", "with a key without CKA_DERIVE", NO_DERIVATION, |fixture| {
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        let mechanism = Structure::new().bytes(&[0; 16]).mechanism(CKM_AES_ECB_ENCRYPT_DATA);
        fixture.derive_key(&mechanism, fixture.key(Key::Idle)?, &template).map(drop)
    }),
    case("C_DeriveKey", "with a key of another type", &[CKR_KEY_TYPE_INCONSISTENT], |fixture| {
        let template = open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET);
        fixture.derive_key(&ecdh(CKD_NULL, &point(fixture)?), fixture.key(Key::Generic)?, &template).map(drop)
    }),
    case("C_DeriveKey", "without a parameter", &[CKR_MECHANISM_PARAM_INVALID], |fixture| {
        agreed(fixture, &Mechanism::new(CKM_ECDH1_DERIVE), &[])
    }),
    case("C_DeriveKey", "with an unknown key derivation function", BAD_PARAMETER, |fixture| {
        agreed(fixture, &ecdh(0x7fff_fff0, &point(fixture)?), &[])
    }),
    case("C_DeriveKey", "with a point that is not on the curve", BAD_POINT, |fixture| {
        agreed(fixture, &ecdh(CKD_NULL, &[&[4][..], &[1; 64]].concat()), &[number(CKA_VALUE_LEN, 32)])
    }),
    case("C_DeriveKey", "of more bytes than the secret has", TOO_LONG, |fixture| {
        agreed(fixture, &ecdh(CKD_NULL, &point(fixture)?), &[number(CKA_VALUE_LEN, 33)])
    }),
    case("C_DeriveKey", "gives both sides the same key", &[CKR_OK], |fixture| {
        let public = [bytes(CKA_EC_PARAMS, P256)];
        let (theirs, private) = fixture.generate_key_pair(&EC_GEN, &public, &able(vec![], &[CKA_DERIVE]))?;
        let their_point = fixture.attribute(theirs, CKA_EC_POINT)?[2..].to_vec();
        let template = with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), number(CKA_VALUE_LEN, 32));
        let one = fixture.derive_key(&ecdh(CKD_NULL, &their_point), fixture.key(Key::Ec)?, &template)?;
        let two = fixture.derive_key(&ecdh(CKD_NULL, &point(fixture)?), private, &template)?;
        ensure("C_DeriveKey", fixture.attribute(one, CKA_VALUE)? == fixture.attribute(two, CKA_VALUE)?)
    }),
    case("C_DeriveKey", "with shared data and without a key derivation function", BAD_PARAMETER, |fixture| {
        let mechanism = Structure::new().number(CKD_NULL).counted(b"shared").counted(&point(fixture)?);
        agreed(fixture, &mechanism.mechanism(CKM_ECDH1_DERIVE), &[])
    }),
    derives("by HKDF without a step", BAD_PARAMETER, || (hkdf(false, false), CKK_HKDF, Some(32))),
    // RFC 5869, 2.3: at most 255 blocks.
    derives("by HKDF of more than 255 blocks", BAD_LENGTH, || {
        (hkdf(true, true), CKK_HKDF, Some(255 * 32 + 1))
    }),
    derives("by extraction after the last bit", BAD_PARAMETER, || {
        let mechanism = Mechanism::with_numbers(CKM_EXTRACT_KEY_FROM_KEY, &[256]);
        (mechanism, CKK_GENERIC_SECRET, Some(16))
    }),
    derives("by concatenation with an invalid key handle", NO_KEY, || {
        let mechanism = Mechanism::with_numbers(CKM_CONCATENATE_BASE_AND_KEY, &[NO_OBJECT.0]);
        (mechanism, CKK_GENERIC_SECRET, None)
    }),
    derives("by concatenation of more bytes than there are", BAD_LENGTH, || {
        let mechanism = Structure::new().bytes(&[1; 8]).mechanism(CKM_CONCATENATE_BASE_AND_DATA);
        (mechanism, CKK_GENERIC_SECRET, Some(41))
    }),
    derives("by hashing, of more bytes than the hash has", BAD_LENGTH, || {
        (Mechanism::new(CKM_SHA256_KEY_DERIVATION), CKK_GENERIC_SECRET, Some(33))
    }),
    derives("by encryption of a part of a block", PART_OF_A_BLOCK, || {
        let mechanism = Structure::new().bytes(&[1; 15]).mechanism(CKM_AES_ECB_ENCRYPT_DATA);
        (mechanism, CKK_AES, None)
    }),
    // SP 800-108, 4: at most 2^r - 1 iterations with a counter of r bits.
    derives("by SP 800-108 of more bytes than the counter allows", BAD_LENGTH, || {
        (counter(CKM_SHA256_HMAC), CKK_GENERIC_SECRET, Some(256 * 32))
    }),
    derives("by SP 800-108 with AES-CMAC and a generic secret", BAD_TYPE, || {
        (counter(CKM_AES_CMAC), CKK_GENERIC_SECRET, Some(16))
    }),
    derives("by IKE of more bytes than the PRF has", BAD_LENGTH, || {
        (ike(CKM_SHA256_HMAC), CKK_GENERIC_SECRET, Some(33))
    }),
    derives("by IKE with AES-CMAC and a generic secret", BAD_TYPE, || {
        (ike(CKM_AES_CMAC), CKK_GENERIC_SECRET, Some(16))
    }),
    derives("by IKE with HMAC and an AES key", BAD_TYPE, || (ike(CKM_SHA256_HMAC), CKK_AES, Some(32))),
    derives("by prf+ of IKE of more than 255 blocks", BAD_LENGTH, || {
        let parameter = Structure::new().number(CKM_SHA256_HMAC).flag(false).number(0).bytes(b"seed");
        let mechanism = parameter.mechanism(CKM_IKE2_PRF_PLUS_DERIVE);
        (mechanism, CKK_GENERIC_SECRET, Some(255 * 32 + 1))
    }),
    // A master secret has 48 bytes.
    derives("of a TLS master secret of 32 bytes", BAD_LENGTH, || (master(), CKK_GENERIC_SECRET, Some(32))),
    derives("of a TLS master secret from an AES key", BAD_TYPE, || (master(), CKK_AES, Some(48))),
    case("C_GenerateKey", "with PBKDF2 without iterations", BAD_PARAMETER, |fixture| {
        of_password(fixture, 0, Some(32))
    }),
    case("C_GenerateKey", "with PBKDF2 without CKA_VALUE_LEN", NO_LENGTH, |fixture| {
        of_password(fixture, 1, None)
    }),
];
