//! "Object management functions".

use cryptoki_sys::*;
use jeton_driver::client::{Arg, Attribute};

use super::{Case, case};
use crate::place::{Key, NO_OBJECT, P256, SECRET, able, ensure, open_key, with};

/// Returns the template of a data object in a session.
pub fn data(private: bool) -> Vec<Attribute> {
    vec![
        Attribute::number(CKA_CLASS, CKO_DATA),
        Attribute::flag(CKA_TOKEN, false),
        Attribute::flag(CKA_PRIVATE, private),
        Attribute::bytes(CKA_LABEL, *b"conformance data"),
        Attribute::bytes(CKA_VALUE, *b"value"),
    ]
}

fn secret() -> Vec<Attribute> {
    with(open_key(CKO_SECRET_KEY, CKK_GENERIC_SECRET), Attribute::bytes(CKA_VALUE, SECRET))
}

/// The codes for a read-only attribute, or one that cannot change.
const FIXED: &[CK_RV] = &[CKR_ATTRIBUTE_READ_ONLY];
/// The codes for a template with an error in one attribute or in their combination.
const WRONG: &[CK_RV] = &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_TEMPLATE_INCONSISTENT];

pub const CASES: &[Case] = &[
    case("C_CreateObject", "without a class", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        p.session.create_object(&[Attribute::bytes(CKA_LABEL, *b"none")]).map(drop)
    }),
    case("C_CreateObject", "with an empty template", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        p.session.create_object(&[]).map(drop)
    }),
    case("C_CreateObject", "of a class that is not there", WRONG, |p| {
        p.session.create_object(&[Attribute::number(CKA_CLASS, 0x7fff_fff0)]).map(drop)
    }),
    case("C_CreateObject", "of a key without its type", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        let template = [Attribute::number(CKA_CLASS, CKO_SECRET_KEY), Attribute::bytes(CKA_VALUE, SECRET)];
        p.session.create_object(&template).map(drop)
    }),
    case("C_CreateObject", "of a key of a type that is not there", WRONG, |p| {
        p.session
            .create_object(&with(open_key(CKO_SECRET_KEY, 0x7fff_fff0), Attribute::bytes(CKA_VALUE, SECRET)))
            .map(drop)
    }),
    case("C_CreateObject", "of a secret key without a value", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        p.session.create_object(&open_key(CKO_SECRET_KEY, CKK_AES)).map(drop)
    }),
    case(
        "C_CreateObject",
        "of an AES key of 17 bytes",
        &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_KEY_SIZE_RANGE, CKR_TEMPLATE_INCONSISTENT],
        |p| {
            let template = with(open_key(CKO_SECRET_KEY, CKK_AES), Attribute::bytes(CKA_VALUE, [1; 17]));
            p.session.create_object(&template).map(drop)
        },
    ),
    case("C_CreateObject", "of an elliptic curve key without its curve", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        let template = with(open_key(CKO_PUBLIC_KEY, CKK_EC), Attribute::bytes(CKA_EC_POINT, [4; 65]));
        p.session.create_object(&template).map(drop)
    }),
    case(
        "C_CreateObject",
        "of an elliptic curve key on a curve that is none",
        &[
            CKR_ATTRIBUTE_VALUE_INVALID,
            CKR_CURVE_NOT_SUPPORTED,
            CKR_DOMAIN_PARAMS_INVALID,
            CKR_TEMPLATE_INCONSISTENT,
        ],
        |p| {
            let template =
                with(open_key(CKO_PUBLIC_KEY, CKK_EC), Attribute::bytes(CKA_EC_PARAMS, [6, 3, 0x2a, 3, 4]));
            p.session.create_object(&with(template, Attribute::bytes(CKA_EC_POINT, [4; 65]))).map(drop)
        },
    ),
    case(
        "C_CreateObject",
        "of a point that is not on its curve",
        &[CKR_ATTRIBUTE_VALUE_INVALID, CKR_DOMAIN_PARAMS_INVALID, CKR_TEMPLATE_INCONSISTENT],
        |p| {
            let template = with(open_key(CKO_PUBLIC_KEY, CKK_EC), Attribute::bytes(CKA_EC_PARAMS, P256));
            let point = [&[4, 65, 4][..], &[1; 64]].concat();
            p.session.create_object(&with(template, Attribute::bytes(CKA_EC_POINT, point))).map(drop)
        },
    ),
    case("C_CreateObject", "of an RSA key without its exponent", &[CKR_TEMPLATE_INCOMPLETE], |p| {
        let template = with(open_key(CKO_PUBLIC_KEY, CKK_RSA), Attribute::bytes(CKA_MODULUS, [0xff; 256]));
        p.session.create_object(&template).map(drop)
    }),
    case(
        "C_CreateObject",
        "with an attribute of another kind of object",
        &[CKR_ATTRIBUTE_TYPE_INVALID, CKR_TEMPLATE_INCONSISTENT],
        |p| p.session.create_object(&with(data(false), Attribute::bytes(CKA_MODULUS, [1; 8]))).map(drop),
    ),
    case("C_CreateObject", "with an attribute that is not there", &[CKR_ATTRIBUTE_TYPE_INVALID], |p| {
        p.session.create_object(&with(data(false), Attribute::bytes(0x7fff_fff0, [1; 8]))).map(drop)
    }),
    case(
        "C_CreateObject",
        "with an attribute twice, and not the same",
        &[CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_VALUE_INVALID],
        |p| p.session.create_object(&with(data(false), Attribute::bytes(CKA_LABEL, *b"another"))).map(drop),
    ),
    case("C_CreateObject", "with a flag of two bytes", &[CKR_ATTRIBUTE_VALUE_INVALID], |p| {
        let template = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::bytes(CKA_TOKEN, [0, 0])];
        p.session.create_object(&template).map(drop)
    }),
    case("C_CreateObject", "with a class of one byte", &[CKR_ATTRIBUTE_VALUE_INVALID], |p| {
        p.session.create_object(&[Attribute::bytes(CKA_CLASS, [0])]).map(drop)
    }),
    case(
        "C_CreateObject",
        "with CKA_LOCAL",
        &[CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_TYPE_INVALID],
        |p| p.session.create_object(&able(secret(), &[CKA_LOCAL])).map(drop),
    ),
    case(
        "C_CreateObject",
        "with CKA_ALWAYS_SENSITIVE",
        &[CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT, CKR_ATTRIBUTE_TYPE_INVALID],
        |p| p.session.create_object(&able(secret(), &[CKA_ALWAYS_SENSITIVE])).map(drop),
    ),
    case("C_CreateObject", "of a token object in a read-only session", &[CKR_SESSION_READ_ONLY], |p| {
        let template = [Attribute::number(CKA_CLASS, CKO_DATA), Attribute::flag(CKA_TOKEN, true)];
        p.reader()?.create_object(&template).map(drop)
    }),
    case("C_CreateObject", "of a private object while nobody is logged in", &[CKR_USER_NOT_LOGGED_IN], |p| {
        p.logged_out(|session| session.create_object(&data(true)).map(drop))
    }),
    case(
        "C_CreateObject",
        "of a trusted key by the user",
        &[
            CKR_ATTRIBUTE_READ_ONLY,
            CKR_USER_NOT_LOGGED_IN,
            CKR_TEMPLATE_INCONSISTENT,
            CKR_ATTRIBUTE_VALUE_INVALID,
        ],
        |p| p.session.create_object(&able(secret(), &[CKA_TRUSTED])).map(drop),
    ),
    case("C_CreateObject", "makes a key local to nobody", &[CKR_OK], |p| {
        let key = p.session.create_object(&secret())?;
        ensure(
            "C_CreateObject",
            p.session.attribute(key, CKA_LOCAL)? == [0]
                && p.session.attribute(key, CKA_NEVER_EXTRACTABLE)? == [0],
        )
    }),
    case("C_CopyObject", "of an object that is not there", &[CKR_OBJECT_HANDLE_INVALID], |p| {
        p.session.copy_object(NO_OBJECT, &[]).map(drop)
    }),
    case("C_CopyObject", "with another label", &[CKR_OK], |p| {
        let object = p.session.create_object(&data(false))?;
        let copy = p.session.copy_object(object, &[Attribute::bytes(CKA_LABEL, *b"copy")])?;
        ensure(
            "C_CopyObject",
            p.session.attribute(copy, CKA_LABEL)? == b"copy"
                && p.session.attribute(copy, CKA_VALUE)? == b"value",
        )
    }),
    case("C_CopyObject", "with another class", &[CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT], |p| {
        let object = p.session.create_object(&data(false))?;
        p.session.copy_object(object, &[Attribute::number(CKA_CLASS, CKO_SECRET_KEY)]).map(drop)
    }),
    case(
        "C_CopyObject",
        "of a sensitive key to one that is not",
        &[CKR_ATTRIBUTE_READ_ONLY, CKR_TEMPLATE_INCONSISTENT],
        |p| p.session.copy_object(p.key(Key::Sealed)?, &[Attribute::flag(CKA_SENSITIVE, false)]).map(drop),
    ),
    case("C_CopyObject", "of an object that is not to be copied", &[CKR_ACTION_PROHIBITED], |p| {
        let object = p.session.create_object(&with(data(false), Attribute::flag(CKA_COPYABLE, false)))?;
        p.session.copy_object(object, &[]).map(drop)
    }),
    case("C_CopyObject", "to the token in a read-only session", &[CKR_SESSION_READ_ONLY], |p| {
        let session = p.reader()?;
        let object = session.create_object(&data(false))?;
        session.copy_object(object, &[Attribute::flag(CKA_TOKEN, true)]).map(drop)
    }),
    case("C_DestroyObject", "a second time", &[CKR_OBJECT_HANDLE_INVALID], |p| {
        let object = p.session.create_object(&data(false))?;
        p.session.destroy_object(object)?;
        p.session.destroy_object(object)
    }),
    case("C_DestroyObject", "of an object that is to stay", &[CKR_ACTION_PROHIBITED], |p| {
        let session = p.fresh()?;
        let object = session.create_object(&with(data(false), Attribute::flag(CKA_DESTROYABLE, false)))?;
        session.destroy_object(object)
    }),
    case("C_DestroyObject", "of a token object in a read-only session", &[CKR_SESSION_READ_ONLY], |p| {
        let mut template = data(true);
        template[1] = Attribute::flag(CKA_TOKEN, true);
        let object = p.session.create_object(&template)?;
        let refused = p.reader()?.destroy_object(object);
        p.session.destroy_object(object)?;
        refused
    }),
    case("C_GetObjectSize", "of an object that is not there", &[CKR_OBJECT_HANDLE_INVALID], |p| {
        p.session.object_size(NO_OBJECT).map(drop)
    }),
    case("C_GetObjectSize", "of an object", &[CKR_OK, CKR_INFORMATION_SENSITIVE], |p| {
        p.session.object_size(p.key(Key::Generic)?).map(drop)
    }),
    case("C_GetAttributeValue", "of an object that is not there", &[CKR_OBJECT_HANDLE_INVALID], |p| {
        p.session.attribute(NO_OBJECT, CKA_CLASS).map(drop)
    }),
    case("C_GetAttributeValue", "of a sensitive value", &[CKR_ATTRIBUTE_SENSITIVE], |p| {
        p.session.attribute(p.key(Key::Sealed)?, CKA_VALUE).map(drop)
    }),
    case(
        "C_GetAttributeValue",
        "of a value that is sensitive though it may leave",
        &[CKR_ATTRIBUTE_SENSITIVE],
        |p| p.session.attribute(p.key(Key::Ec)?, CKA_VALUE).map(drop),
    ),
    case("C_GetAttributeValue", "of a value that is open", &[CKR_OK], |p| {
        ensure("C_GetAttributeValue", p.session.attribute(p.key(Key::Generic)?, CKA_VALUE)? == SECRET)
    }),
    case(
        "C_GetAttributeValue",
        "of an attribute that the object has not",
        &[CKR_ATTRIBUTE_TYPE_INVALID],
        |p| p.session.attribute(p.pair(Key::Ec)?.public, CKA_MODULUS).map(drop),
    ),
    case("C_GetAttributeValue", "into a short buffer", &[CKR_BUFFER_TOO_SMALL], |p| {
        p.session.attribute_within(p.key(Key::Generic)?, CKA_VALUE, 31).map(drop)
    }),
    case("C_GetAttributeValue", "of some attributes that are there and one that is not", &[CKR_OK], |p| {
        let got = p.session.attributes(p.pair(Key::Ec)?.public, &[CKA_MODULUS, CKA_KEY_TYPE])?;
        ensure(
            "C_GetAttributeValue",
            got[0].is_none() && got[1].as_deref() == Some(&CKK_EC.to_ne_bytes()[..]),
        )
    }),
    case("C_GetAttributeValue", "of nothing", &[CKR_OK, CKR_ARGUMENTS_BAD], |p| {
        let key = p.key(Key::Generic)?;
        p.call("C_GetAttributeValue", &p.session, vec![Arg::Number(key.0), Arg::Template(&[])])
    }),
    case("C_GetAttributeValue", "of a public point is a DER octet string", &[CKR_OK], |p| {
        let point = p.session.attribute(p.pair(Key::Ec)?.public, CKA_EC_POINT)?;
        ensure("C_GetAttributeValue", point.len() == 67 && point[..3] == [4, 65, 4])
    }),
    case("C_SetAttributeValue", "of an object that is not there", &[CKR_OBJECT_HANDLE_INVALID], |p| {
        p.session.set_attributes(NO_OBJECT, &[Attribute::bytes(CKA_LABEL, *b"x")])
    }),
    case("C_SetAttributeValue", "of a label", &[CKR_OK], |p| {
        let object = p.session.create_object(&data(false))?;
        p.session.set_attributes(object, &[Attribute::bytes(CKA_LABEL, *b"new")])?;
        ensure("C_SetAttributeValue", p.session.attribute(object, CKA_LABEL)? == b"new")
    }),
    case("C_SetAttributeValue", "CKA_SENSITIVE back to false", FIXED, |p| {
        p.session.set_attributes(p.key(Key::Sealed)?, &[Attribute::flag(CKA_SENSITIVE, false)])
    }),
    case("C_SetAttributeValue", "CKA_EXTRACTABLE back to true", FIXED, |p| {
        p.session.set_attributes(p.key(Key::Sealed)?, &[Attribute::flag(CKA_EXTRACTABLE, true)])
    }),
    case("C_SetAttributeValue", "of a class", FIXED, |p| {
        p.session.set_attributes(p.key(Key::Generic)?, &[Attribute::number(CKA_CLASS, CKO_DATA)])
    }),
    case("C_SetAttributeValue", "of a key's value", FIXED, |p| {
        p.session.set_attributes(p.key(Key::Generic)?, &[Attribute::bytes(CKA_VALUE, [1; 32])])
    }),
    case("C_SetAttributeValue", "of an attribute that is not there", &[CKR_ATTRIBUTE_TYPE_INVALID], |p| {
        p.session.set_attributes(p.key(Key::Generic)?, &[Attribute::bytes(0x7fff_fff0, [1])])
    }),
    case("C_SetAttributeValue", "of an object that is not to be changed", &[CKR_ACTION_PROHIBITED], |p| {
        let object = p.session.create_object(&with(data(false), Attribute::flag(CKA_MODIFIABLE, false)))?;
        p.session.set_attributes(object, &[Attribute::bytes(CKA_LABEL, *b"new")])
    }),
    case("C_SetAttributeValue", "of a token object in a read-only session", &[CKR_SESSION_READ_ONLY], |p| {
        let mut template = data(true);
        template[1] = Attribute::flag(CKA_TOKEN, true);
        let object = p.session.create_object(&template)?;
        let refused = p.reader()?.set_attributes(object, &[Attribute::bytes(CKA_LABEL, *b"new")]);
        p.session.destroy_object(object)?;
        refused
    }),
];
