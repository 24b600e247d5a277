//! Converts an object of an old store to a template for Jeton.

use cryptoki_sys::*;
use jeton_migrate::{Object, Value};

use super::trust;
use crate::client::{Attribute, Memory, Structure, names};
use crate::object::PUBLIC_PARTS;
use crate::token_file::{KeyRole, ROLES};

/// The plan for an object: the arguments with which Jeton creates it.
pub struct Plan {
    /// The template without `CKA_TRUSTED`.
    pub template: Vec<Attribute>,
    /// Whether `CKA_TRUSTED` is true, which only the SO may set.
    pub trusted: bool,
    /// The attributes that are changed or left out, each with the new value or the reason.
    pub differences: Vec<String>,
    /// The memory that templates inside the template point to.
    _held: Vec<Memory>,
}

const STORAGE: &[CK_ATTRIBUTE_TYPE] =
    &[CKA_CLASS, CKA_TOKEN, CKA_PRIVATE, CKA_MODIFIABLE, CKA_COPYABLE, CKA_DESTROYABLE, CKA_LABEL];

const DATA: &[CK_ATTRIBUTE_TYPE] = &[CKA_APPLICATION, CKA_OBJECT_ID, CKA_VALUE];

#[rustfmt::skip]
const CERTIFICATE: &[CK_ATTRIBUTE_TYPE] = &[
    CKA_CERTIFICATE_TYPE, CKA_CERTIFICATE_CATEGORY, CKA_JAVA_MIDP_SECURITY_DOMAIN,
    CKA_NAME_HASH_ALGORITHM, CKA_HASH_OF_SUBJECT_PUBLIC_KEY, CKA_HASH_OF_ISSUER_PUBLIC_KEY,
    CKA_SUBJECT, CKA_ISSUER, CKA_SERIAL_NUMBER, CKA_VALUE, CKA_CHECK_VALUE, CKA_URL, CKA_ID, CKA_START_DATE,
    CKA_END_DATE, CKA_PUBLIC_KEY_INFO,
    CKA_OWNER, CKA_AC_ISSUER, CKA_ATTR_TYPES,
];

const TRUST: &[CK_ATTRIBUTE_TYPE] = &[
    CKA_ISSUER,
    CKA_SERIAL_NUMBER,
    CKA_HASH_OF_CERTIFICATE,
    CKA_NAME_HASH_ALGORITHM,
    CKA_TRUST_SERVER_AUTH,
    CKA_TRUST_CLIENT_AUTH,
    CKA_TRUST_CODE_SIGNING,
    CKA_TRUST_EMAIL_PROTECTION,
    CKA_TRUST_IPSEC_IKE,
    CKA_TRUST_TIME_STAMPING,
    CKA_TRUST_OCSP_SIGNING,
];

const KEY: &[CK_ATTRIBUTE_TYPE] =
    &[CKA_KEY_TYPE, CKA_ID, CKA_START_DATE, CKA_END_DATE, CKA_ALLOWED_MECHANISMS];

const PUBLIC: &[CK_ATTRIBUTE_TYPE] = &[CKA_SUBJECT, CKA_PUBLIC_KEY_INFO, CKA_WRAP_TEMPLATE];

#[rustfmt::skip]
const PRIVATE: &[CK_ATTRIBUTE_TYPE] = &[
    CKA_SUBJECT, CKA_PUBLIC_KEY_INFO, CKA_SENSITIVE, CKA_EXTRACTABLE, CKA_WRAP_WITH_TRUSTED,
    CKA_ALWAYS_AUTHENTICATE,
    CKA_UNWRAP_TEMPLATE, CKA_DERIVE_TEMPLATE,
    CKA_MODULUS, CKA_PUBLIC_EXPONENT, CKA_PRIVATE_EXPONENT, CKA_PRIME_1, CKA_PRIME_2, CKA_EXPONENT_1,
    CKA_EXPONENT_2, CKA_COEFFICIENT,
    CKA_EC_PARAMS, CKA_VALUE, CKA_SEED, CKA_PARAMETER_SET, CKA_PRIME, CKA_BASE,
];

const SECRET: &[CK_ATTRIBUTE_TYPE] = &[
    CKA_SENSITIVE,
    CKA_EXTRACTABLE,
    CKA_WRAP_WITH_TRUSTED,
    CKA_CHECK_VALUE,
    CKA_WRAP_TEMPLATE,
    CKA_UNWRAP_TEMPLATE,
    CKA_DERIVE_TEMPLATE,
    CKA_VALUE,
];

/// The usages of each class of key. A usage that the old object does not name is false: the default
/// of Jeton could be true.
const PUBLIC_USAGES: &[CK_ATTRIBUTE_TYPE] =
    &[CKA_ENCRYPT, CKA_VERIFY, CKA_VERIFY_RECOVER, CKA_WRAP, CKA_DERIVE, CKA_ENCAPSULATE];
const PRIVATE_USAGES: &[CK_ATTRIBUTE_TYPE] =
    &[CKA_DECRYPT, CKA_SIGN, CKA_SIGN_RECOVER, CKA_UNWRAP, CKA_DERIVE, CKA_DECAPSULATE];
const SECRET_USAGES: &[CK_ATTRIBUTE_TYPE] =
    &[CKA_ENCRYPT, CKA_DECRYPT, CKA_SIGN, CKA_VERIFY, CKA_WRAP, CKA_UNWRAP, CKA_DERIVE];

/// The attributes that a token computes, and obsolete attributes without a meaning. The report does
/// not mention that they are left out.
const COMPUTED: &[CK_ATTRIBUTE_TYPE] = &[
    CKA_MODULUS_BITS,
    CKA_PRIME_BITS,
    CKA_VALUE_BITS,
    CKA_VALUE_LEN,
    CKA_CHECK_VALUE,
    CKA_UNIQUE_ID,
    CKA_SECONDARY_AUTH,
    CKA_AUTH_PIN_FLAGS,
];

/// `CKA_NSS_DB`: the public half of a key pair, which NSS stores in the private key.
pub(super) const NSS_DB: CK_ATTRIBUTE_TYPE = 0xd5a0_db00;

impl Plan {
    /// Returns the plan for an object, or the reason why it cannot be migrated.
    pub fn of(object: &Object) -> Result<Self, String> {
        let class = object.number(CKA_CLASS).ok_or("it has no class: its creation was interrupted")?;
        let (lists, usages): (&[&[CK_ATTRIBUTE_TYPE]], &[CK_ATTRIBUTE_TYPE]) = match class {
            CKO_DATA => (&[STORAGE, DATA], &[]),
            CKO_CERTIFICATE => (&[STORAGE, CERTIFICATE], &[]),
            CKO_PUBLIC_KEY => (&[STORAGE, KEY, PUBLIC, &PUBLIC_PARTS], PUBLIC_USAGES),
            CKO_PRIVATE_KEY => (&[STORAGE, KEY, PRIVATE], PRIVATE_USAGES),
            CKO_SECRET_KEY => (&[STORAGE, KEY, SECRET], SECRET_USAGES),
            CKO_DOMAIN_PARAMETERS => (&[STORAGE, &[CKA_KEY_TYPE, CKA_PRIME, CKA_BASE]], &[]),
            CKO_TRUST => (&[STORAGE, TRUST], &[]),
            trust::CLASS => {
                let mut plan = Self::of(&trust::standard(object))?;
                plan.differences
                    .push("CKA_CLASS: CKO_TRUST, the standard's class for CKO_NSS_TRUST".to_owned());
                return Ok(plan);
            }
            0xce53_4351 | 0xce53_4352 => return Err("it is a CRL or a mail profile of NSS".to_owned()),
            other => return Err(format!("Jeton has no objects of class 0x{other:X}")),
        };
        match object.number(CKA_KEY_TYPE) {
            Some(CKK_GOSTR3410 | CKK_GOSTR3411 | CKK_GOST28147) => {
                return Err("Jeton has no GOST keys".to_owned());
            }
            Some(CKK_DSA) => {
                return Err(
                    "DSA is obsolete, and Jeton has no DSA keys; generate a key of another type".to_owned()
                );
            }
            Some(CKK_DES | CKK_DES2) => return Err("Jeton has no DES keys of 8 or 16 bytes".to_owned()),
            _ => {}
        }
        if class == CKO_SECRET_KEY && object.bytes(CKA_VALUE).is_empty() {
            return Err("it has no value: its creation failed or was interrupted".to_owned());
        }
        let mut plan = Self {
            template: Vec::new(),
            trusted: object.flag(CKA_TRUSTED),
            differences: Vec::new(),
            _held: Vec::new(),
        };
        for (kind, value) in &object.attributes {
            if lists.iter().any(|list| list.contains(kind)) || usages.contains(kind) {
                plan.put(object, *kind, value);
            } else {
                plan.leave_out(*kind, value);
            }
        }
        for usage in usages {
            plan.complete(*usage, false);
        }
        if matches!(class, CKO_PRIVATE_KEY | CKO_SECRET_KEY) {
            plan.complete(CKA_SENSITIVE, true);
            plan.complete(CKA_EXTRACTABLE, false);
        }
        // Only token objects are in a store.
        plan.complete(CKA_TOKEN, true);
        Ok(plan)
    }

    /// Leaves a private or secret key the usages of one role, as the policy *strict* asks: a
    /// private key signs if it could, and a secret key enciphers.
    pub fn keep_one_role(&mut self) {
        let class = self.number(CKA_CLASS);
        if !matches!(class, Some(CKO_PRIVATE_KEY | CKO_SECRET_KEY)) {
            return;
        }
        let mut roles: Vec<_> = ROLES.iter().collect();
        roles.sort_by_key(|role| (role.name == "sign") != (class == Some(CKO_PRIVATE_KEY)));
        let has = |plan: &Self, role: &KeyRole| role.usages.iter().any(|id| plan.flag(id.0));
        let Some(kept) = roles.iter().position(|role| has(self, role)) else { return };
        let kept = roles.remove(kept);
        for usage in
            roles.iter().flat_map(|role| role.usages).filter(|usage| self.flag(usage.0)).collect::<Vec<_>>()
        {
            self.template.retain(|one| one.kind != usage.0);
            self.template.push(Attribute::flag(usage.0, false));
            let reason =
                format!("{usage}: false, because the policy strict leaves the role to {}", kept.name);
            self.differences.push(reason);
        }
    }

    /// Returns the attributes by which a search finds the object again. They are not secret, and
    /// users rarely change them.
    pub fn signs(&self) -> Vec<Attribute> {
        let class = self.number(CKA_CLASS);
        let wanted = |attribute: &&Attribute| {
            matches!(
                attribute.kind,
                CKA_CLASS | CKA_LABEL | CKA_ID | CKA_KEY_TYPE | CKA_MODULUS | CKA_EC_PARAMS | CKA_EC_POINT
            ) || match attribute.kind {
                CKA_VALUE => matches!(class, Some(CKO_DATA | CKO_CERTIFICATE | CKO_PUBLIC_KEY)),
                CKA_ISSUER | CKA_SERIAL_NUMBER => class == Some(CKO_TRUST),
                _ => false,
            }
        };
        let mut signs: Vec<_> = self.template.iter().filter(wanted).cloned().collect();
        let has_id = !matches!(class, Some(CKO_DATA | CKO_TRUST | CKO_DOMAIN_PARAMETERS));
        let named: &[_] = if has_id { &[CKA_LABEL, CKA_ID] } else { &[CKA_LABEL] };
        let unnamed = named.iter().filter(|kind| self.get(**kind).is_none());
        signs.extend(unnamed.map(|kind| Attribute::bytes(*kind, [])));
        signs
    }

    pub(super) fn is_private_key(&self) -> bool {
        self.number(CKA_CLASS) == Some(CKO_PRIVATE_KEY)
    }

    /// Returns the value of a `CK_ULONG` attribute of the template.
    pub(super) fn number(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<u64> {
        let bytes = self.get(kind)?;
        Some(u64::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Returns whether a `CK_BBOOL` attribute of the template is true.
    fn flag(&self, kind: CK_ATTRIBUTE_TYPE) -> bool {
        self.get(kind) == Some(&[CK_TRUE][..])
    }

    pub(super) fn get(&self, kind: CK_ATTRIBUTE_TYPE) -> Option<&[u8]> {
        self.template.iter().find(|one| one.kind == kind).map(|one| one.value.as_slice())
    }

    fn complete(&mut self, kind: CK_ATTRIBUTE_TYPE, flag: bool) {
        if self.get(kind).is_none() {
            self.template.push(Attribute::flag(kind, flag));
        }
    }

    fn put(&mut self, object: &Object, kind: CK_ATTRIBUTE_TYPE, value: &Value) {
        let attribute = match value {
            Value::Flag(flag) => Attribute::flag(kind, *flag),
            // SoftHSMv2 has one key type for all curves of RFC 8032 and RFC 7748.
            Value::Number(CKK_EC_EDWARDS) if kind == CKA_KEY_TYPE && is_montgomery(object) => {
                self.differences
                    .push("CKA_KEY_TYPE: CKK_EC_MONTGOMERY, as version 3.0 of PKCS#11 says".to_owned());
                Attribute::number(kind, CKK_EC_MONTGOMERY)
            }
            Value::Number(number) => Attribute::number(kind, *number),
            Value::Bytes(bytes) if kind == CKA_EC_PARAMS => match curve_of_name(bytes) {
                Some(last) => {
                    self.differences
                        .push("CKA_EC_PARAMS: the OID of the curve instead of its name".to_owned());
                    Attribute::bytes(kind, [0x06, 0x03, 0x2b, 0x65, last])
                }
                None => Attribute::bytes(kind, bytes.to_vec()),
            },
            Value::Bytes(bytes) if kind == CKA_EC_POINT && is_bare_point(object, bytes) => {
                self.differences.push("CKA_EC_POINT: as the DER of an octet string".to_owned());
                let header = [0x04, bytes.len() as u8];
                Attribute::bytes(kind, [&header[..], bytes].concat())
            }
            // The value is empty by default, so the template omits it.
            Value::Bytes(bytes) if bytes.is_empty() && kind != CKA_VALUE => return,
            Value::Bytes(bytes) => Attribute::bytes(kind, bytes.to_vec()),
            Value::Mechanisms(mechanisms) if mechanisms.is_empty() => return,
            Value::Mechanisms(mechanisms) => Attribute::bytes(kind, words(mechanisms)),
            Value::Template(attributes) if attributes.is_empty() => return,
            Value::Template(attributes) => {
                let (bytes, held) = nested(attributes);
                self._held.extend(held);
                Attribute::bytes(kind, bytes)
            }
        };
        self.template.push(attribute);
    }

    fn leave_out(&mut self, kind: CK_ATTRIBUTE_TYPE, value: &Value) {
        let reason = match (kind, value) {
            (CKA_TRUSTED, _) => return,
            (CKA_LOCAL, Value::Flag(true)) => "false: another module generated the key",
            (CKA_ALWAYS_SENSITIVE | CKA_NEVER_EXTRACTABLE, Value::Flag(true)) => {
                "false: the key was outside the token"
            }
            (CKA_KEY_GEN_MECHANISM, Value::Number(number)) if *number != CK_UNAVAILABLE_INFORMATION => {
                "unavailable: another module generated the key"
            }
            (CKA_LOCAL | CKA_ALWAYS_SENSITIVE | CKA_NEVER_EXTRACTABLE | CKA_KEY_GEN_MECHANISM, _) => return,
            (NSS_DB, _) => return,
            _ if COMPUTED.contains(&kind) => return,
            (_, Value::Bytes(bytes)) if bytes.is_empty() => return,
            (_, Value::Flag(false)) => return,
            _ if kind & CKA_VENDOR_DEFINED != 0 => "left out: only the old module has this attribute",
            _ => "left out: objects of this class do not have it in Jeton",
        };
        self.differences.push(format!("{}: {reason}", names::attribute(kind)));
    }
}

/// Returns whether the point is the raw public key of RFC 8032 or RFC 7748, as PKCS#11 requires
/// since version 3.1. Jeton uses the DER of an octet string instead. The lengths of the two forms
/// differ.
fn is_bare_point(object: &Object, point: &[u8]) -> bool {
    let curve = matches!(object.number(CKA_KEY_TYPE), Some(CKK_EC_EDWARDS | CKK_EC_MONTGOMERY));
    curve && matches!(point.len(), 32 | 56 | 57)
}

/// Returns whether the parameters of a key name X25519 or X448, by OID or by name.
fn is_montgomery(object: &Object) -> bool {
    let parameters = object.bytes(CKA_EC_PARAMS);
    let last = match parameters {
        [0x06, 0x03, 0x2b, 0x65, last] => Some(*last),
        name => curve_of_name(name),
    };
    matches!(last, Some(0x6e | 0x6f))
}

/// Returns the last byte of the OID (RFC 8410) of a curve that is named by a string, as in version
/// 3.0 of PKCS#11.
fn curve_of_name(parameters: &[u8]) -> Option<u8> {
    match parameters {
        [0x13, _, name @ ..] => match name {
            b"curve25519" => Some(0x6e),
            b"curve448" => Some(0x6f),
            b"edwards25519" => Some(0x70),
            b"edwards448" => Some(0x71),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the memory of a C array of these numbers.
fn words(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

fn nested(attributes: &[(CK_ATTRIBUTE_TYPE, Value)]) -> (Vec<u8>, Vec<Memory>) {
    let mut held = Vec::new();
    let mut structure = Structure::new();
    for (kind, value) in attributes {
        let bytes = match value {
            Value::Flag(flag) => vec![CK_BBOOL::from(*flag)],
            Value::Number(number) => number.to_ne_bytes().to_vec(),
            Value::Bytes(bytes) => bytes.to_vec(),
            Value::Mechanisms(mechanisms) => words(mechanisms),
            // The readers refuse a template in a template.
            Value::Template(_) => continue,
        };
        let memory = Memory::of(&bytes);
        structure = structure.number(*kind).pointer(&memory).number(bytes.len() as CK_ULONG);
        held.push(memory);
    }
    (structure.memory().bytes(), held)
}
