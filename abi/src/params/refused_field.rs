//! Names the field for which a parameter is refused, for the log. It looks at the struct itself, by
//! the table of structs, and follows no pointer.

use std::fmt::{self, Display, Formatter};

use cryptoki_sys::{CK_ULONG, CKM_TLS_PRF};
use jeton_names::parameter::parameter;
use jeton_names::structs::{Count, Flow, Layout, Len, Parameter, Target, Value};

use super::{hash, prf};
use crate::ck_ulong::{narrow, wide};

/// What is wrong with a parameter.
#[derive(Debug)]
pub(super) enum Wrong {
    /// It has another length than the structs of the mechanism.
    Len(&'static [&'static Layout]),
    /// A field has a number that it may not have.
    Number(&'static str, u64),
    /// A pointer is `NULL`, and its length is not 0.
    Null(&'static str),
    /// The struct itself is good, and this field points to other structs.
    Inside(&'static str),
    /// Each field is good alone.
    Together,
}

impl Display for Wrong {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Len([]) => write!(f, "ulParameterLen"),
            Self::Len(layouts) => {
                write!(f, "ulParameterLen: the struct has")?;
                let mut sizes = layouts.iter().enumerate();
                sizes.try_for_each(|(at, one)| {
                    write!(f, "{} {}", if at > 0 { " or" } else { "" }, one.size)
                })?;
                write!(f, " bytes")
            }
            Self::Number(name, number) => write!(f, "{name} = {number:#x}"),
            Self::Null(name) => write!(f, "{name} = NULL"),
            Self::Inside(name) => write!(f, "a field of what {name} points to"),
            Self::Together => write!(f, "the fields do not fit each other or the mechanism"),
        }
    }
}

/// Finds what is wrong with the parameter of a mechanism.
pub(super) fn field(mechanism: u64, given: &[u8]) -> Wrong {
    let kind = parameter(mechanism, None);
    let Some(layout) = kind.layouts().iter().find(|layout| layout.size == given.len()) else {
        // An initialisation vector of GMAC may have any length.
        return if kind == Parameter::Gmac { Wrong::Together } else { Wrong::Len(kind.layouts()) };
    };
    let number = |at: usize, value: Value| match value {
        Value::Flag(_) | Value::Bytes(_) => given.get(at).map_or(0, |byte| (*byte).into()),
        _ => word(given, at),
    };
    let values = layout.values.iter().map(|(at, value)| (*at, number(*at, *value), *value));
    if let Some((at, number, _)) = values.clone().find(|(_, number, value)| is_wrong(*value, *number)) {
        return Wrong::Number(layout.name(at), number);
    }
    if let Some(wrong) =
        layout.pointers.iter().find_map(|pointer| pointed(layout, given, pointer.at, &pointer.target))
    {
        return wrong;
    }
    // Other fields decide whether these may have a number that the table lacks.
    let is_rare = |value: &Value, number| matches!(value, Value::Among(all) if !all.contains(&number));
    if let Some((at, number, _)) = values.clone().find(|(_, number, value)| is_rare(value, *number)) {
        return Wrong::Number(layout.name(at), number);
    }
    let inner = layout.pointers.iter().find(|pointer| {
        matches!(&pointer.target, Target::Structs { layout, .. } if layout.written.is_empty())
            && word(given, pointer.at) != 0
    });
    inner.map_or(Wrong::Together, |pointer| Wrong::Inside(layout.name(pointer.at)))
}

/// Looks at a pointer and at the number of bytes or structs behind it.
fn pointed(layout: &Layout, given: &[u8], at: usize, target: &Target) -> Option<Wrong> {
    let (number_at, limit) = match target {
        Target::Bytes { len: Len::Field(len), limit, flow } if *flow != Flow::Out => (*len, *limit),
        Target::Structs { count: Count::Field(count, limit), .. } => (*count, *limit),
        _ => return None,
    };
    let number = word(given, number_at);
    if number > limit {
        return Some(Wrong::Number(layout.name(number_at), number));
    }
    (number > 0 && word(given, at) == 0).then(|| Wrong::Null(layout.name(at)))
}

/// Returns the number or the pointer at this offset.
fn word(given: &[u8], at: usize) -> u64 {
    let bytes = given.get(at..at + size_of::<CK_ULONG>()).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, |bytes| wide(CK_ULONG::from_ne_bytes(bytes)))
}

/// Returns whether a field may never have this number.
fn is_wrong(value: Value, number: u64) -> bool {
    match value {
        Value::Flag(_) => number > 1,
        Value::Bytes(_) | Value::Object | Value::Any(_) | Value::Among(_) => false,
        Value::Hash => hash(narrow(number)).is_err(),
        Value::TlsHash => number != wide(CKM_TLS_PRF) && hash(narrow(number)).is_err(),
        Value::Prf => prf(narrow(number)).is_err(),
        Value::Of(all) => !all.contains(&number),
        Value::Range(least, most) => !(least..=most).contains(&number),
        Value::Bits(most) => number > most || !number.is_multiple_of(8),
    }
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use cryptoki_sys::*;

    use super::*;

    fn bytes<T>(given: &T) -> &[u8] {
        // SAFETY: the structs of the tests have no padding.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(given).cast(), size_of::<T>()) }
    }

    fn said<T>(mechanism: CK_MECHANISM_TYPE, given: &T) -> String {
        field(wide(mechanism), bytes(given)).to_string()
    }

    #[test]
    fn the_log_names_the_field_that_is_wrong() {
        let pss = CK_RSA_PKCS_PSS_PARAMS { hashAlg: CKM_SHA256, mgf: CKG_MGF1_SHA256, sLen: 32 };
        let wrong = |change: fn(&mut CK_RSA_PKCS_PSS_PARAMS)| {
            let mut given = pss;
            change(&mut given);
            said(CKM_RSA_PKCS_PSS, &given)
        };
        assert_eq!(wrong(|given| given.hashAlg = CKM_RSA_PKCS), "hashAlg = 0x1");
        assert_eq!(wrong(|given| given.mgf = 99), "mgf = 0x63");
        assert_eq!(wrong(|given| given.sLen = 1025), "sLen = 0x401");
        assert_eq!(wrong(|_| ()), "the fields do not fit each other or the mechanism");
        assert_eq!(said(CKM_RSA_PKCS_PSS, &7_u64), "ulParameterLen: the struct has 24 bytes");

        let gcm = |ulIvLen, ulTagBits| CK_GCM_PARAMS {
            pIv: null_mut(),
            ulIvLen,
            ulIvBits: 0,
            pAAD: null_mut(),
            ulAADLen: 0,
            ulTagBits,
        };
        assert_eq!(said(CKM_AES_GCM, &gcm(12, 128)), "pIv = NULL");
        assert_eq!(said(CKM_AES_GCM, &gcm(1 << 20, 128)), "ulIvLen = 0x100000");
        assert_eq!(said(CKM_AES_GCM, &gcm(0, 127)), "ulTagBits = 0x7f");
        assert_eq!(said(CKM_AES_GCM, &1_u64), "ulParameterLen: the struct has 48 or 40 or 56 bytes");
        assert_eq!(field(wide(CKM_AES_CBC), &[0; 7]).to_string(), "ulParameterLen");
        assert_eq!(said(CKM_SHA256_HMAC_GENERAL, &65_u64), "pParameter = 0x41");

        let mut place = 0_u64;
        let wrap = CK_RSA_AES_KEY_WRAP_PARAMS { ulAESKeyBits: 256, pOAEPParams: (&raw mut place).cast() };
        assert_eq!(said(CKM_RSA_AES_KEY_WRAP, &wrap), "a field of what pOAEPParams points to");
    }
}
