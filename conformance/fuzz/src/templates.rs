//! Templates: known and unknown attributes, valid and invalid values, nested templates.

use std::ptr::null_mut;

use cryptoki_sys::*;
use jeton_names::structs::TEMPLATES;

use crate::run::Run;

/// The attributes that templates use. The corpus refers to them by index, so their order must not
/// change.
pub(crate) const KNOWN: [CK_ATTRIBUTE_TYPE; 76] = [
    CKA_CLASS,
    CKA_TOKEN,
    CKA_PRIVATE,
    CKA_LABEL,
    CKA_UNIQUE_ID,
    CKA_APPLICATION,
    CKA_VALUE,
    CKA_OBJECT_ID,
    CKA_CERTIFICATE_TYPE,
    CKA_ISSUER,
    CKA_SERIAL_NUMBER,
    CKA_OWNER,
    CKA_ATTR_TYPES,
    CKA_TRUSTED,
    CKA_CERTIFICATE_CATEGORY,
    CKA_JAVA_MIDP_SECURITY_DOMAIN,
    CKA_URL,
    CKA_HASH_OF_SUBJECT_PUBLIC_KEY,
    CKA_HASH_OF_ISSUER_PUBLIC_KEY,
    CKA_NAME_HASH_ALGORITHM,
    CKA_CHECK_VALUE,
    CKA_KEY_TYPE,
    CKA_SUBJECT,
    CKA_ID,
    CKA_SENSITIVE,
    CKA_ENCRYPT,
    CKA_DECRYPT,
    CKA_WRAP,
    CKA_UNWRAP,
    CKA_SIGN,
    CKA_SIGN_RECOVER,
    CKA_VERIFY,
    CKA_VERIFY_RECOVER,
    CKA_DERIVE,
    CKA_START_DATE,
    CKA_END_DATE,
    CKA_MODULUS,
    CKA_MODULUS_BITS,
    CKA_PUBLIC_EXPONENT,
    CKA_PRIVATE_EXPONENT,
    CKA_PRIME_1,
    CKA_PRIME_2,
    CKA_EXPONENT_1,
    CKA_EXPONENT_2,
    CKA_COEFFICIENT,
    CKA_PUBLIC_KEY_INFO,
    CKA_PRIME,
    CKA_SUBPRIME,
    CKA_BASE,
    CKA_PRIME_BITS,
    CKA_VALUE_BITS,
    CKA_VALUE_LEN,
    CKA_EXTRACTABLE,
    CKA_LOCAL,
    CKA_NEVER_EXTRACTABLE,
    CKA_ALWAYS_SENSITIVE,
    CKA_KEY_GEN_MECHANISM,
    CKA_MODIFIABLE,
    CKA_COPYABLE,
    CKA_DESTROYABLE,
    CKA_EC_PARAMS,
    CKA_EC_POINT,
    CKA_ALWAYS_AUTHENTICATE,
    CKA_WRAP_WITH_TRUSTED,
    CKA_WRAP_TEMPLATE,
    CKA_UNWRAP_TEMPLATE,
    CKA_DERIVE_TEMPLATE,
    CKA_OTP_FORMAT,
    CKA_OTP_LENGTH,
    CKA_OTP_COUNTER,
    CKA_ALLOWED_MECHANISMS,
    CKA_PROFILE_ID,
    CKA_PARAMETER_SET,
    CKA_ENCAPSULATE_TEMPLATE,
    CKA_DECAPSULATE_TEMPLATE,
    CKA_SEED,
];

const FLAGS: [CK_ATTRIBUTE_TYPE; 22] = [
    CKA_TOKEN,
    CKA_PRIVATE,
    CKA_TRUSTED,
    CKA_SENSITIVE,
    CKA_ENCRYPT,
    CKA_DECRYPT,
    CKA_WRAP,
    CKA_UNWRAP,
    CKA_SIGN,
    CKA_SIGN_RECOVER,
    CKA_VERIFY,
    CKA_VERIFY_RECOVER,
    CKA_DERIVE,
    CKA_EXTRACTABLE,
    CKA_LOCAL,
    CKA_MODIFIABLE,
    CKA_COPYABLE,
    CKA_DESTROYABLE,
    CKA_ALWAYS_AUTHENTICATE,
    CKA_WRAP_WITH_TRUSTED,
    CKA_ENCAPSULATE,
    CKA_DECAPSULATE,
];

/// The maximum depth of nested templates: more than the module accepts.
const DEPTH: usize = 6;

impl Run<'_> {
    /// Returns the attributes of a template. [`len`](Self::len) returns their number.
    pub(crate) fn attributes(&mut self) -> *mut CK_ATTRIBUTE {
        if self.source.once_in(64) {
            return self.odd_pair().0.cast();
        }
        let template = self.template(DEPTH);
        self.next_len = template.len() as CK_ULONG;
        if template.is_empty() { null_mut() } else { self.memory.put_all(&template) }
    }

    fn template(&mut self, depth: usize) -> Vec<CK_ATTRIBUTE> {
        let mut template = Vec::new();
        if depth == DEPTH && !self.source.once_in(8) {
            // The module refuses most objects without these attributes.
            let (class, key_type) = (self.class(), self.key_type());
            template.push(self.numbered(CKA_CLASS, class));
            template.push(self.numbered(CKA_KEY_TYPE, key_type));
        }
        for _ in 0..self.source.below(12) {
            template.push(self.attribute(depth));
        }
        template
    }

    fn class(&mut self) -> CK_ULONG {
        if self.source.once_in(8) { self.source.number() } else { self.source.below(10) as CK_ULONG }
    }

    fn key_type(&mut self) -> CK_ULONG {
        if self.source.once_in(16) { self.source.number() } else { self.source.below(0x4c) as CK_ULONG }
    }

    fn numbered(&mut self, type_: CK_ATTRIBUTE_TYPE, number: CK_ULONG) -> CK_ATTRIBUTE {
        let pValue = self.memory.put(number).cast();
        CK_ATTRIBUTE { type_, pValue, ulValueLen: size_of::<CK_ULONG>() as CK_ULONG }
    }

    fn attribute(&mut self, depth: usize) -> CK_ATTRIBUTE {
        let type_ = match self.source.below(16) {
            0 => self.source.number(),
            1 => 0x600 + self.source.below(64) as CK_ULONG,
            2..5 => self.source.one(&FLAGS),
            _ => self.source.one(&KNOWN),
        };
        if TEMPLATES.contains(&type_) {
            return self.nested(type_, depth);
        }
        if self.source.once_in(32) {
            let (pointer, ulValueLen) = self.odd_pair();
            return CK_ATTRIBUTE { type_, pValue: pointer.cast(), ulValueLen };
        }
        let value = self.value(type_);
        CK_ATTRIBUTE { type_, pValue: self.memory.copy(&value).cast(), ulValueLen: value.len() as CK_ULONG }
    }

    fn value(&mut self, type_: CK_ATTRIBUTE_TYPE) -> Vec<u8> {
        if self.source.once_in(16) {
            return self.source.bytes();
        }
        match type_ {
            _ if FLAGS.contains(&type_) => vec![self.source.boolean()],
            // Limits the size of keys, because a slow key generation is not a finding.
            CKA_MODULUS_BITS | CKA_PRIME_BITS => {
                let bits = self.source.one(&[0, 1, 512, 768, 1023, 1024, CK_ULONG::MAX]);
                bits.to_ne_bytes().into()
            }
            CKA_CLASS => self.class().to_ne_bytes().into(),
            CKA_KEY_TYPE => self.key_type().to_ne_bytes().into(),
            CKA_VALUE_LEN => CK_ULONG::from(self.source.byte()).to_ne_bytes().into(),
            CKA_CERTIFICATE_TYPE
            | CKA_CERTIFICATE_CATEGORY
            | CKA_PARAMETER_SET
            | CKA_PROFILE_ID
            | CKA_JAVA_MIDP_SECURITY_DOMAIN
            | CKA_OTP_FORMAT
            | CKA_OTP_LENGTH
            | CKA_VALUE_BITS
            | CKA_NAME_HASH_ALGORITHM => self.source.number().to_ne_bytes().into(),
            CKA_ALLOWED_MECHANISMS => {
                (0..self.source.below(4)).flat_map(|_| self.mechanism_number().to_ne_bytes()).collect()
            }
            CKA_OTP_COUNTER => self.source.number().to_ne_bytes().into(),
            _ => self.source.bytes(),
        }
    }

    /// Returns a template as a value, sometimes one that contains itself.
    fn nested(&mut self, type_: CK_ATTRIBUTE_TYPE, depth: usize) -> CK_ATTRIBUTE {
        let size = size_of::<CK_ATTRIBUTE>() as CK_ULONG;
        if depth == 0 || self.source.once_in(16) {
            let mut own = CK_ATTRIBUTE { type_, pValue: null_mut(), ulValueLen: size };
            let place = self.memory.put(own);
            own.pValue = place.cast();
            // SAFETY: `put` made this memory for an attribute.
            unsafe { place.write_unaligned(own) };
            return own;
        }
        let inner = self.template(depth - 1);
        let excess = if self.source.once_in(16) { 1 } else { 0 };
        let ulValueLen = (inner.len() as CK_ULONG * size).saturating_sub(excess);
        CK_ATTRIBUTE { type_, pValue: self.memory.put_all(&inner).cast(), ulValueLen }
    }

    /// Returns attributes to fill, as `C_GetAttributeValue` needs them.
    pub(crate) fn questions(&mut self) -> *mut CK_ATTRIBUTE {
        let mut template = Vec::new();
        for _ in 0..self.source.below(12) {
            template.push(self.question(2));
        }
        self.next_len = template.len() as CK_ULONG;
        self.memory.put_all(&template)
    }

    fn question(&mut self, depth: usize) -> CK_ATTRIBUTE {
        let type_ = if self.source.once_in(16) { self.source.number() } else { self.source.one(&KNOWN) };
        let len = match self.source.below(4) {
            0 => return CK_ATTRIBUTE { type_, pValue: null_mut(), ulValueLen: self.source.number() },
            1 => self.source.below(16),
            2 => 1 << self.source.below(13),
            _ if TEMPLATES.contains(&type_) && depth > 0 => {
                let inner: Vec<_> = (0..self.source.below(4)).map(|_| self.question(depth - 1)).collect();
                let ulValueLen = size_of_val(&inner[..]) as CK_ULONG;
                return CK_ATTRIBUTE { type_, pValue: self.memory.put_all(&inner).cast(), ulValueLen };
            }
            _ => 8,
        };
        // The module reads the pointers of a nested template before it fills it. Zeros are NULL
        // pointers.
        CK_ATTRIBUTE { type_, pValue: self.memory.copy(&vec![0; len]).cast(), ulValueLen: len as CK_ULONG }
    }
}
