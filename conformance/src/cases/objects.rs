//! "Object management functions".

use cryptoki_sys::*;
use jeton_client::{Arg, Attribute};

use super::{Case, Handle, INCOMPLETE, READ_ONLY, Run, case, creates};
use crate::fixture::{Key, NO_OBJECT, P256, SECRET, able, bytes, ensure, flag, number, open_key, with};

pub fn data(private: bool) -> Vec<Attribute> {
    vec![
        number(CKA_CLASS, CKO_DATA),
        flag(CKA_TOKEN, false),
        flag(CKA_PRIVATE, private),
        bytes(CKA_LABEL, *b"conformance data"),
        bytes(CKA_VALUE, *b"value"),
    ]
}

fn secret() -> Vec<Attribute> {
    with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), bytes(CKA_VALUE, SECRET))
}

/// The code for an attribute that cannot change.
const FIXED: &[CK_RV] = &[CKR_ATTRIBUTE_READ_ONLY];
/// The codes for an attribute that no template may have.
const FORBIDDEN: &[CK_RV] = &[CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_TYPE_INVALID];
/// The codes for an attribute of another object type.
pub const FOREIGN: &[CK_RV] = &[CKR_ATTRIBUTE_TYPE_INVALID, CKR_TEMPLATE_INCONSISTENT];
/// The codes for an attribute that a copy must not change.
const KEPT: &[CK_RV] = &[CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT];
/// The codes for a template with an invalid attribute, or with attributes that do not fit together.
pub const WRONG: &[CK_RV] = &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_TEMPLATE_INCONSISTENT];
/// The codes for an impossible length of a key.
pub const BAD_VALUE: &[CK_RV] = &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_KEY_SIZE_RANGE, CKR_TEMPLATE_INCONSISTENT];

const GENERIC: Handle = Handle::Private(Key::Generic);
const SEALED: Handle = Handle::Private(Key::Sealed);

const fn sets(name: &'static str, expected: &'static [CK_RV], key: Handle, of: fn() -> Attribute) -> Case {
    Case { function: "C_SetAttributeValue", name, expected, absent: &[], run: Run::Sets(key, of) }
}

const BAD_CURVE: &[CK_RV] = &[
    CKR_ATTRIBUTE_VALUE_INVALID,
    CKR_CURVE_NOT_SUPPORTED,
    CKR_DOMAIN_PARAMS_INVALID,
    CKR_TEMPLATE_INCONSISTENT,
];
const BAD_POINT: &[CK_RV] =
    &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_DOMAIN_PARAMS_INVALID, CKR_TEMPLATE_INCONSISTENT];
const UNTRUSTED: &[CK_RV] = &[
    CKR_ATTRIBUTE_READ_ONLY,
    CKR_USER_NOT_LOGGED_IN,
    CKR_TEMPLATE_INCONSISTENT,
    CKR_ATTRIBUTE_VALUE_INVALID,
];
const MISSING: &[CK_RV] = &[CKR_ATTRIBUTE_TYPE_INVALID];
const PROHIBITED: &[CK_RV] = &[CKR_ACTION_PROHIBITED];

pub const CASES: &[Case] = &[
    creates("without CKA_CLASS", INCOMPLETE, || vec![bytes(CKA_LABEL, *b"none")]),
    creates("with an empty template", INCOMPLETE, Vec::new),
    creates("with an unknown class", WRONG, || vec![number(CKA_CLASS, 0x7fff_fff0)]),
    creates("of a key without CKA_KEY_TYPE", INCOMPLETE, || {
        vec![number(CKA_CLASS, CKO_SECRET_KEY), bytes(CKA_VALUE, SECRET)]
    }),
    creates("of a key of an unknown type", WRONG, || {
        with(open_key(CKO_SECRET_KEY, 0x7fff_fff0), bytes(CKA_VALUE, SECRET))
    }),
    creates("of a secret key without CKA_VALUE", INCOMPLETE, || open_key(CKO_SECRET_KEY, CKK_AES)),
    creates("of an AES key of 17 bytes", BAD_VALUE, || {
        with(open_key(CKO_SECRET_KEY, CKK_AES), bytes(CKA_VALUE, [1; 17]))
    }),
    creates("of an EC key without CKA_EC_PARAMS", INCOMPLETE, || {
        with(open_key(CKO_PUBLIC_KEY, CKK_EC), bytes(CKA_EC_POINT, [4; 65]))
    }),
    creates("of an EC key on an invalid curve", BAD_CURVE, || {
        let template = with(open_key(CKO_PUBLIC_KEY, CKK_EC), bytes(CKA_EC_PARAMS, [6, 3, 0x2a, 3, 4]));
        with(template, bytes(CKA_EC_POINT, [4; 65]))
    }),
    creates("of a point that is not on its curve", BAD_POINT, || {
        let template = with(open_key(CKO_PUBLIC_KEY, CKK_EC), bytes(CKA_EC_PARAMS, P256));
        let point = [&[4, 65, 4][..], &[1; 64]].concat();
        with(template, bytes(CKA_EC_POINT, point))
    }),
    creates("of an RSA key without CKA_PUBLIC_EXPONENT", INCOMPLETE, || {
        with(open_key(CKO_PUBLIC_KEY, CKK_RSA), bytes(CKA_MODULUS, [0xff; 256]))
    }),
    creates("with an attribute of another object type", FOREIGN, || {
        with(data(false), bytes(CKA_MODULUS, [1; 8]))
    }),
    creates("with an unknown attribute", MISSING, || with(data(false), bytes(0x7fff_fff0, [1; 8]))),
    creates("with an attribute twice, with different values", WRONG, || {
        with(data(false), bytes(CKA_LABEL, *b"another"))
    }),
    creates("with a CK_BBOOL of two bytes", &[CKR_ATTRIBUTE_VALUE_INVALID], || {
        vec![number(CKA_CLASS, CKO_DATA), bytes(CKA_TOKEN, [0, 0])]
    }),
    creates("with a class of one byte", &[CKR_ATTRIBUTE_VALUE_INVALID], || vec![bytes(CKA_CLASS, [0])]),
    creates("with CKA_LOCAL", FORBIDDEN, || able(secret(), &[CKA_LOCAL])),
    creates("with CKA_ALWAYS_SENSITIVE", FORBIDDEN, || able(secret(), &[CKA_ALWAYS_SENSITIVE])),
    case("C_CreateObject", "of a token object in a read-only session", READ_ONLY, |fixture| {
        let template = [number(CKA_CLASS, CKO_DATA), flag(CKA_TOKEN, true)];
        fixture.reader()?.create_object(&template).map(drop)
    }),
    case("C_CreateObject", "of a private object without a login", &[CKR_USER_NOT_LOGGED_IN], |fixture| {
        fixture.logged_out(|session| session.create_object(&data(true)).map(drop))
    }),
    creates("of a trusted key by the user", UNTRUSTED, || able(secret(), &[CKA_TRUSTED])),
    case("C_CreateObject", "sets CKA_LOCAL to false", &[CKR_OK], |fixture| {
        let key = fixture.create_object(&secret())?;
        ensure(
            "C_CreateObject",
            fixture.attribute(key, CKA_LOCAL)? == [0]
                && fixture.attribute(key, CKA_NEVER_EXTRACTABLE)? == [0],
        )
    }),
    case("C_CopyObject", "of an invalid object handle", &[CKR_OBJECT_HANDLE_INVALID], |fixture| {
        fixture.copy_object(NO_OBJECT, &[]).map(drop)
    }),
    case("C_CopyObject", "with another label", &[CKR_OK], |fixture| {
        let object = fixture.create_object(&data(false))?;
        let copy = fixture.copy_object(object, &[bytes(CKA_LABEL, *b"copy")])?;
        ensure(
            "C_CopyObject",
            fixture.attribute(copy, CKA_LABEL)? == b"copy" && fixture.attribute(copy, CKA_VALUE)? == b"value",
        )
    }),
    case("C_CopyObject", "with another class", KEPT, |fixture| {
        let object = fixture.create_object(&data(false))?;
        fixture.copy_object(object, &[number(CKA_CLASS, CKO_SECRET_KEY)]).map(drop)
    }),
    case("C_CopyObject", "of a sensitive key, with CKA_SENSITIVE false", KEPT, |fixture| {
        fixture.copy_object(fixture.key(Key::Sealed)?, &[flag(CKA_SENSITIVE, false)]).map(drop)
    }),
    case("C_CopyObject", "of an object with CKA_COPYABLE false", PROHIBITED, |fixture| {
        let object = fixture.create_object(&with(data(false), flag(CKA_COPYABLE, false)))?;
        fixture.copy_object(object, &[]).map(drop)
    }),
    case("C_CopyObject", "to the token in a read-only session", READ_ONLY, |fixture| {
        let session = fixture.reader()?;
        let object = session.create_object(&data(false))?;
        session.copy_object(object, &[flag(CKA_TOKEN, true)]).map(drop)
    }),
    case("C_DestroyObject", "a second time", &[CKR_OBJECT_HANDLE_INVALID], |fixture| {
        let object = fixture.create_object(&data(false))?;
        fixture.destroy_object(object)?;
        fixture.destroy_object(object)
    }),
    case("C_DestroyObject", "of an object with CKA_DESTROYABLE false", PROHIBITED, |fixture| {
        let session = fixture.fresh()?;
        let object = session.create_object(&with(data(false), flag(CKA_DESTROYABLE, false)))?;
        session.destroy_object(object)
    }),
    case("C_DestroyObject", "of a token object in a read-only session", READ_ONLY, |fixture| {
        let mut template = data(true);
        template[1] = flag(CKA_TOKEN, true);
        let object = fixture.create_object(&template)?;
        let refused = fixture.reader()?.destroy_object(object);
        fixture.destroy_object(object)?;
        refused
    }),
    case("C_GetObjectSize", "of an invalid object handle", &[CKR_OBJECT_HANDLE_INVALID], |fixture| {
        fixture.object_size(NO_OBJECT).map(drop)
    }),
    case("C_GetObjectSize", "of an object", &[CKR_OK, CKR_INFORMATION_SENSITIVE], |fixture| {
        fixture.object_size(fixture.key(Key::Generic)?).map(drop)
    }),
    case("C_GetAttributeValue", "of an invalid object handle", &[CKR_OBJECT_HANDLE_INVALID], |fixture| {
        fixture.attribute(NO_OBJECT, CKA_CLASS).map(drop)
    }),
    case("C_GetAttributeValue", "of a sensitive value", &[CKR_ATTRIBUTE_SENSITIVE], |fixture| {
        fixture.attribute(fixture.key(Key::Sealed)?, CKA_VALUE).map(drop)
    }),
    case("C_GetAttributeValue", "of a sensitive, extractable value", &[CKR_ATTRIBUTE_SENSITIVE], |fixture| {
        fixture.attribute(fixture.key(Key::Ec)?, CKA_VALUE).map(drop)
    }),
    case("C_GetAttributeValue", "of a value that is not sensitive", &[CKR_OK], |fixture| {
        ensure("C_GetAttributeValue", fixture.attribute(fixture.key(Key::Generic)?, CKA_VALUE)? == SECRET)
    }),
    case("C_GetAttributeValue", "of an attribute that the object does not have", MISSING, |fixture| {
        fixture.attribute(fixture.pair(Key::Ec)?.public, CKA_MODULUS).map(drop)
    }),
    case("C_GetAttributeValue", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |fixture| {
        fixture.attribute_within(fixture.key(Key::Generic)?, CKA_VALUE, 31).map(drop)
    }),
    case("C_GetAttributeValue", "of existing attributes and a missing one", &[CKR_OK], |fixture| {
        let got = fixture.attributes(fixture.pair(Key::Ec)?.public, &[CKA_MODULUS, CKA_KEY_TYPE])?;
        ensure(
            "C_GetAttributeValue",
            got[0].is_none() && got[1].as_deref() == Some(&CKK_EC.to_ne_bytes()[..]),
        )
    }),
    case("C_GetAttributeValue", "with an empty template", &[CKR_OK, CKR_ARGUMENTS_BAD], |fixture| {
        let key = fixture.key(Key::Generic)?;
        fixture.call("C_GetAttributeValue", &fixture.session, vec![Arg::Number(key.0), Arg::Template(&[])])
    }),
    case("C_GetAttributeValue", "of a public point is a DER octet string", &[CKR_OK], |fixture| {
        let point = fixture.attribute(fixture.pair(Key::Ec)?.public, CKA_EC_POINT)?;
        ensure("C_GetAttributeValue", point.len() == 67 && point[..3] == [4, 65, 4])
    }),
    sets("of an invalid object handle", &[CKR_OBJECT_HANDLE_INVALID], Handle::Invalid, || {
        bytes(CKA_LABEL, *b"x")
    }),
    case("C_SetAttributeValue", "of a label", &[CKR_OK], |fixture| {
        let object = fixture.create_object(&data(false))?;
        fixture.set_attributes(object, &[bytes(CKA_LABEL, *b"new")])?;
        ensure("C_SetAttributeValue", fixture.attribute(object, CKA_LABEL)? == b"new")
    }),
    sets("CKA_SENSITIVE back to false", FIXED, SEALED, || flag(CKA_SENSITIVE, false)),
    sets("CKA_EXTRACTABLE back to true", FIXED, SEALED, || flag(CKA_EXTRACTABLE, true)),
    sets("of a class", FIXED, GENERIC, || number(CKA_CLASS, CKO_DATA)),
    sets("of a key's value", FIXED, GENERIC, || bytes(CKA_VALUE, [1; 32])),
    sets("of an unknown attribute", MISSING, GENERIC, || bytes(0x7fff_fff0, [1])),
    case("C_SetAttributeValue", "of an object with CKA_MODIFIABLE false", PROHIBITED, |fixture| {
        let object = fixture.create_object(&with(data(false), flag(CKA_MODIFIABLE, false)))?;
        fixture.set_attributes(object, &[bytes(CKA_LABEL, *b"new")])
    }),
    case("C_SetAttributeValue", "of a token object in a read-only session", READ_ONLY, |fixture| {
        let mut template = data(true);
        template[1] = flag(CKA_TOKEN, true);
        let object = fixture.create_object(&template)?;
        let refused = fixture.reader()?.set_attributes(object, &[bytes(CKA_LABEL, *b"new")]);
        fixture.destroy_object(object)?;
        refused
    }),
];
