//! Tries each struct of the table `jeton_names::structs` with each mechanism that takes it: a good
//! struct is read, and each wrong field is refused.

use std::ptr::null_mut;

use cryptoki_sys::{
    CK_MECHANISM, CK_MECHANISM_TYPE, CK_SP800_108_COUNTER_FORMAT, CK_ULONG, CKM_AES_CMAC, CKM_AES_GMAC,
    CKM_AES_MAC, CKM_AES_XCBC_MAC_96, CKM_ECDSA, CKM_MD5, CKM_RSA_PKCS, CKM_SHA_1_HMAC, CKM_SHA3_256,
    CKM_SHA256, CKM_SHA256_HMAC, CKM_SHA256_HMAC_GENERAL, CKM_SHA384, CKM_SP800_108_COUNTER_KDF, CKM_TLS_PRF,
};
use jeton_names::parameter::parameter;
use jeton_names::structs::{AAD, Count, DERIVED_KEY, Flow, Layout, Len, PRF_DATA, Parameter, Target, Value};
use jeton_words::cipher::CipherMode;
use jeton_words::error::Result;
use jeton_words::params::Params;
use jeton_words::shape::Shape;

use super::mechanism;
use super::testing::{BYTES, HUGE, INVALID};
use super::wrap::mechanism_that_wraps;

/// Memory for structs, and what they point to.
#[derive(Default)]
struct Memory(Vec<Box<[u8]>>);

impl Memory {
    /// Returns zeros at an odd address.
    fn zeros(&mut self, len: usize) -> *mut u8 {
        self.0.push(vec![0; len + 2].into());
        let block = self.0.last_mut().expect("a block").as_mut_ptr();
        block.wrapping_add(1 + block.addr() % 2)
    }

    /// Returns a struct that the mechanism takes.
    fn good(&mut self, layout: &Layout, mechanism: CK_MECHANISM_TYPE) -> *mut u8 {
        let place = self.zeros(layout.size);
        for (at, value) in layout.values {
            put(place.wrapping_add(*at), *value, first(*value));
        }
        for pointer in layout.pointers {
            let (to, len, number) = match &pointer.target {
                Target::Bytes { limit: 0, .. } | Target::Value(_) => (null_mut(), None, 0),
                // Only in counter mode the first field has a value.
                Target::Bytes { len, .. } if std::ptr::eq(layout, &raw const PRF_DATA) => {
                    let format = self.zeros(size_of::<CK_SP800_108_COUNTER_FORMAT>());
                    put(format.wrapping_add(8), Value::Any(0), 32);
                    let is_counter = mechanism == CKM_SP800_108_COUNTER_KDF;
                    if is_counter { (format, len.field(), 16) } else { (null_mut(), len.field(), 0) }
                }
                Target::Bytes { len, limit, flow: Flow::In } => {
                    (BYTES.as_ptr().cast_mut(), len.field(), (*limit).min(12))
                }
                Target::Bytes { len, limit, .. } => {
                    let place = self.zeros(512);
                    put(place, Value::Any(0), 1);
                    (place, len.field(), (*limit).min(12))
                }
                Target::Structs { layout, .. } if std::ptr::eq(*layout, &raw const DERIVED_KEY) => {
                    (null_mut(), None, 0)
                }
                Target::Structs { layout, count } => match count {
                    Count::One => (self.good(layout, mechanism), None, 1),
                    Count::Field(at, _) => (self.good(layout, mechanism), Some(*at), 1),
                },
            };
            // SAFETY: the pointer is a field of the struct.
            unsafe { place.wrapping_add(pointer.at).cast::<*mut u8>().write_unaligned(to) };
            if let Some(at) = len {
                put(place.wrapping_add(at), Value::Any(0), number);
            }
        }
        place
    }
}

/// Writes a field.
fn put(place: *mut u8, value: Value, number: CK_ULONG) {
    // SAFETY: the callers pass the field of a struct, which has one byte or eight.
    unsafe {
        match value {
            Value::Flag(_) | Value::Bytes(_) => place.write(number as u8),
            _ => place.cast::<CK_ULONG>().write_unaligned(number),
        }
    }
}

fn first(value: Value) -> CK_ULONG {
    match value {
        Value::Flag(flag) => flag.into(),
        Value::Bytes(_) => 3,
        Value::Hash | Value::TlsHash => CKM_SHA256,
        Value::Prf => CKM_SHA256_HMAC,
        Value::Object => 9,
        Value::Of(all) | Value::Among(all) => all[0],
        Value::Range(least, _) => least,
        Value::Bits(_) => 8,
        Value::Any(number) => number,
    }
}

/// Returns numbers that are accepted, and numbers that are refused.
fn tries(value: Value) -> (Vec<CK_ULONG>, Vec<CK_ULONG>) {
    match value {
        Value::Flag(_) => (vec![], vec![2, 255]),
        Value::Bytes(_) | Value::Object | Value::Any(_) => (vec![], vec![]),
        Value::Hash => (
            vec![CKM_SHA384, CKM_SHA3_256],
            vec![0, CKM_RSA_PKCS, CKM_ECDSA, CKM_SHA256_HMAC, CKM_MD5, CKM_TLS_PRF, HUGE],
        ),
        Value::TlsHash => (vec![CKM_SHA384, CKM_TLS_PRF], vec![CKM_ECDSA, CKM_SHA256_HMAC, HUGE]),
        Value::Prf => (
            vec![CKM_SHA_1_HMAC, CKM_AES_CMAC],
            vec![
                0,
                CKM_SHA256,
                CKM_SHA256_HMAC_GENERAL,
                CKM_AES_GMAC,
                CKM_AES_MAC,
                CKM_AES_XCBC_MAC_96,
                HUGE,
            ],
        ),
        Value::Of(all) => {
            let near = all.iter().flat_map(|one| [one.wrapping_sub(1), one + 1, one + 8]);
            (all.to_vec(), near.chain([0, HUGE]).filter(|one| !all.contains(one)).collect())
        }
        Value::Among(all) => (vec![], [0, HUGE].into_iter().filter(|one| !all.contains(one)).collect()),
        Value::Range(least, most) => (vec![least, most], vec![least.wrapping_sub(1), most + 1, HUGE]),
        Value::Bits(most) => (vec![0, most], vec![7, most + 8, HUGE, HUGE - 7]),
    }
}

/// Tries the fields of the struct at `place`, one by one. `call` reads the parameter, which is this
/// struct or points to it. `long` has [`AAD`] bytes.
///
/// # Safety
///
/// The struct is writable.
unsafe fn try_fields(
    layout: &Layout,
    place: *mut u8,
    inside: bool,
    long: *mut u8,
    call: &dyn Fn() -> Result<Params>,
) {
    let try_numbers = |at: usize, value: Value, (good, bad): (Vec<CK_ULONG>, Vec<CK_ULONG>)| {
        let field = place.wrapping_add(at);
        // SAFETY: a field of the struct.
        let before = unsafe {
            match value {
                Value::Flag(_) | Value::Bytes(_) => field.read().into(),
                _ => field.cast::<CK_ULONG>().read_unaligned(),
            }
        };
        for number in good {
            put(field, value, number);
            assert!(call().is_ok(), "{number:#x} at {at}");
        }
        for number in bad {
            put(field, value, number);
            assert_eq!(call().err(), INVALID, "{number:#x} at {at}");
        }
        put(field, value, before);
    };
    for (at, value) in layout.values {
        try_numbers(*at, *value, tries(*value));
    }
    for pointer in layout.pointers {
        let field = place.wrapping_add(pointer.at).cast::<*mut u8>();
        // SAFETY: a field of the struct.
        let before = unsafe { field.read_unaligned() };
        if before.is_null() {
            continue;
        }
        // SAFETY: the same field.
        let with = |to: *mut u8| unsafe { field.write_unaligned(to) };
        let is_read = match &pointer.target {
            Target::Bytes { len: Len::Password(_), .. } => true,
            Target::Bytes { len, limit, flow } => {
                if let Some(at) = len.field() {
                    try_numbers(at, Value::Any(0), (vec![], vec![limit + 1, HUGE / 8 + 2, HUGE]));
                    if !inside {
                        with(long);
                        try_numbers(at, Value::Any(0), (vec![*limit], vec![]));
                    }
                }
                *flow == Flow::In || len.field().is_some()
            }
            Target::Structs { layout, count } => {
                if let Count::Field(at, limit) = count {
                    try_numbers(*at, Value::Any(0), (vec![], vec![limit + 1, HUGE]));
                }
                let is_read = layout.written.is_empty();
                if is_read {
                    // SAFETY: made by `good`.
                    unsafe { try_fields(layout, before, true, long, call) };
                }
                is_read
            }
            Target::Value(_) => false,
        };
        if is_read {
            with(null_mut());
            assert_eq!(call().err(), INVALID, "NULL at {}", pointer.at);
        }
        with(before);
    }
}

#[test]
fn each_struct_of_the_table_is_read_and_its_wrong_fields_are_refused() {
    let mut long = vec![7; AAD as usize];
    let mut tried = 0;
    for word in &mechanism::MECHANISMS {
        let mechanism = word.id.0 as CK_MECHANISM_TYPE;
        let parameter = parameter(mechanism, None);
        assert_eq!(parameter == Parameter::None, !word.shape.has_parameter(), "{mechanism:#x}");
        let is_bytes = match word.shape {
            Shape::Cipher(mode) => {
                !matches!(mode, CipherMode::Aead(_) | CipherMode::ChaCha20 | CipherMode::AesCtr)
            }
            shape => shape == Shape::Integer,
        };
        assert_eq!(parameter == Parameter::Bytes, is_bytes && word.shape.has_parameter(), "{mechanism:#x}");
        for layout in parameter.layouts() {
            let mut memory = Memory::default();
            let place = memory.good(layout, mechanism);
            let read = |pointer: *mut u8, ulParameterLen| {
                let given = CK_MECHANISM { mechanism, pParameter: pointer.cast(), ulParameterLen };
                // SAFETY: live memory, or refused before it is read.
                unsafe { mechanism_that_wraps(&raw const given) }.map(|(mechanism, _)| mechanism.params)
            };
            let len = layout.size as CK_ULONG;
            let parsed = read(place, len);
            assert!(parsed.is_ok_and(|params| params != Params::None), "{mechanism:#x}: {layout:?}");
            for wrong in [1, len - 1, len + 1, HUGE] {
                assert_eq!(read(place, wrong).err(), INVALID, "{mechanism:#x}: {wrong} bytes");
            }
            assert_eq!(read(null_mut(), len).err(), INVALID);
            let is_optional = matches!(parameter, Parameter::Eddsa | Parameter::SignContext);
            let none = read(place, 0);
            assert!(if is_optional { none == Ok(Params::None) } else { none.err() == INVALID });
            // SAFETY: the struct is in `memory`.
            unsafe { try_fields(layout, place, false, long.as_mut_ptr(), &|| read(place, len)) };
            tried += 1;
        }
    }
    assert!(tried > 100, "{tried}");
}
