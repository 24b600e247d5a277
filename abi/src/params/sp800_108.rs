//! The parameters of SP 800-108 (PKCS#11 3.2, "SP800-108 Key Derivation").

use cryptoki_sys::*;
use jeton_names::structs::{DATA, FIELDS};
use jeton_words::derive::Additional;
use jeton_words::error::{Error, Result, require};
use jeton_words::params::Params;
use jeton_words::sp800_108::{Field, Kdf, Number};

use super::{boolean, copy, items, prf, read};
use crate::ck_ulong::{object, wide};
use crate::input::{In, template};

/// Reads `CK_SP800_108_KDF_PARAMS`, or `CK_SP800_108_FEEDBACK_KDF_PARAMS` for the feedback mode.
///
/// # Safety
///
/// The memory that the struct points to is readable.
pub(super) unsafe fn params(kdf: Kdf, parameter: &[u8]) -> Result<Params> {
    let given = whole(kdf, parameter)?;
    let prf = prf(given.prfType)?;
    // SAFETY: the caller's promise.
    let list = unsafe { items(given.pDataParams, given.ulNumberOfDataParams, FIELDS) }?;
    // SAFETY: the caller's promise, for the memory that the fields point to.
    let fields = list.iter().map(|given| unsafe { field(kdf, given) }).collect::<Result<Vec<_>>>()?;
    // SAFETY: the caller's promise.
    let iv = unsafe { copy(In(given.pIV, given.ulIVLen), DATA) }?;
    Ok(Params::Sp800_108 { prf, fields, iv })
}

/// Reads the additional keys with the pointers for their handles. If the template of a key is
/// invalid, writes 0 as the handle of this key.
///
/// # Safety
///
/// During `'a`, the memory that the struct points to is readable, and the pointers for handles are
/// writable.
pub(super) unsafe fn additional<'a>(
    kdf: Kdf,
    parameter: &[u8],
) -> Result<Vec<(Additional<'a>, *mut CK_OBJECT_HANDLE)>> {
    let given = whole(kdf, parameter)?;
    // SAFETY: the caller's promise.
    let list = unsafe { items(given.pAdditionalDerivedKeys, given.ulAdditionalDerivedKeys, FIELDS) }?;
    let keys = list.iter().map(|given| {
        require(!given.phKey.is_null(), Error::MechanismParamInvalid)?;
        // SAFETY: the caller's promise.
        let template = unsafe { template(given.pTemplate, given.ulAttributeCount) };
        let template = template.map_err(|error| {
            // PKCS#11 3.2, "SP800-108 Key Derivation": the handle of the key that failed is
            // CK_INVALID_HANDLE. SAFETY: not null; writable by the caller's promise.
            unsafe { given.phKey.write_unaligned(CK_INVALID_HANDLE) };
            match error {
                Error::ArgumentsBad => Error::MechanismParamInvalid,
                other => other,
            }
        })?;
        Ok((Additional { template, key: None }, given.phKey))
    });
    keys.collect()
}

/// Reads either struct. Returns it as the struct with more fields.
fn whole(kdf: Kdf, parameter: &[u8]) -> Result<CK_SP800_108_FEEDBACK_KDF_PARAMS> {
    if kdf == Kdf::Feedback {
        // SAFETY: integers and pointers.
        return unsafe { read(parameter) };
    }
    // SAFETY: integers and pointers.
    let given: CK_SP800_108_KDF_PARAMS = unsafe { read(parameter) }?;
    Ok(CK_SP800_108_FEEDBACK_KDF_PARAMS {
        prfType: given.prfType,
        ulNumberOfDataParams: given.ulNumberOfDataParams,
        pDataParams: given.pDataParams,
        ulIVLen: 0,
        pIV: std::ptr::null_mut(),
        ulAdditionalDerivedKeys: given.ulAdditionalDerivedKeys,
        pAdditionalDerivedKeys: given.pAdditionalDerivedKeys,
    })
}

/// # Safety
///
/// The memory that the field points to is readable.
unsafe fn field(kdf: Kdf, given: &CK_PRF_DATA_PARAM) -> Result<Field> {
    // SAFETY: the caller's promise.
    let value = unsafe { copy(In(given.pValue.cast(), given.ulValueLen), DATA) }?;
    match given.type_ {
        CK_SP800_108_ITERATION_VARIABLE if kdf == Kdf::Counter => {
            counter(&value).map(|number| Field::Iteration(Some(number)))
        }
        // "For all other KDF types, pValue must be set to NULL_PTR and ulValueLen must be set to
        // 0."
        CK_SP800_108_ITERATION_VARIABLE if value.is_empty() => Ok(Field::Iteration(None)),
        // In counter mode: "This data field type is invalid for this KDF type."
        CK_SP800_108_COUNTER if kdf != Kdf::Counter => counter(&value).map(Field::Counter),
        CK_SP800_108_DKM_LENGTH => length(&value),
        CK_SP800_108_BYTE_ARRAY if !value.is_empty() => Ok(Field::Bytes(value)),
        CK_SP800_108_KEY_HANDLE => {
            // SAFETY: an integer.
            unsafe { read::<CK_OBJECT_HANDLE>(&value) }.map(|handle| Field::Key(object(handle)))
        }
        _ => Err(Error::MechanismParamInvalid),
    }
}

/// Reads `CK_SP800_108_COUNTER_FORMAT`.
fn counter(value: &[u8]) -> Result<Number> {
    // SAFETY: integers.
    let given: CK_SP800_108_COUNTER_FORMAT = unsafe { read(value) }?;
    number(given.bLittleEndian, given.ulWidthInBits)
}

/// Reads `CK_SP800_108_DKM_LENGTH_FORMAT`.
fn length(value: &[u8]) -> Result<Field> {
    // SAFETY: integers.
    let given: CK_SP800_108_DKM_LENGTH_FORMAT = unsafe { read(value) }?;
    let segments = match given.dkmLengthMethod {
        CK_SP800_108_DKM_LENGTH_SUM_OF_KEYS => false,
        CK_SP800_108_DKM_LENGTH_SUM_OF_SEGMENTS => true,
        _ => return Err(Error::MechanismParamInvalid),
    };
    let number = number(given.bLittleEndian, given.ulWidthInBits)?;
    Ok(Field::Length { segments, number })
}

/// Reads the width of a number, which must be a multiple of 8 bits.
fn number(little_endian: CK_BBOOL, bits: CK_ULONG) -> Result<Number> {
    let bits = wide(bits);
    require(bits.is_multiple_of(8), Error::MechanismParamInvalid)?;
    Ok(Number { little_endian: boolean(little_endian)?, len: (bits / 8) as usize })
}

#[cfg(test)]
mod tests {
    use std::mem::size_of;
    use std::ptr::{from_ref, null_mut};

    use jeton_words::hash::Hash;
    use jeton_words::shape::MacFunction;

    use super::super::testing::{HUGE, INVALID, SOME, length, with};
    use super::*;

    const ID: CK_MECHANISM_TYPE = CKM_SP800_108_COUNTER_KDF;

    fn format(ulWidthInBits: CK_ULONG) -> CK_SP800_108_COUNTER_FORMAT {
        CK_SP800_108_COUNTER_FORMAT { bLittleEndian: CK_FALSE, ulWidthInBits }
    }

    fn dkm(dkmLengthMethod: CK_ULONG, ulWidthInBits: CK_ULONG) -> CK_SP800_108_DKM_LENGTH_FORMAT {
        CK_SP800_108_DKM_LENGTH_FORMAT { dkmLengthMethod, bLittleEndian: CK_TRUE, ulWidthInBits }
    }

    fn field_of<T>(type_: CK_PRF_DATA_TYPE, value: &T) -> CK_PRF_DATA_PARAM {
        let value_len = length(size_of::<T>());
        CK_PRF_DATA_PARAM { type_, pValue: from_ref(value).cast_mut().cast(), ulValueLen: value_len }
    }

    fn nothing(type_: CK_PRF_DATA_TYPE) -> CK_PRF_DATA_PARAM {
        CK_PRF_DATA_PARAM { type_, pValue: null_mut(), ulValueLen: 0 }
    }

    fn of(fields: &[CK_PRF_DATA_PARAM]) -> CK_SP800_108_KDF_PARAMS {
        CK_SP800_108_KDF_PARAMS {
            prfType: CKM_SHA256_HMAC,
            ulNumberOfDataParams: length(fields.len()),
            pDataParams: fields.as_ptr().cast_mut(),
            ulAdditionalDerivedKeys: 0,
            pAdditionalDerivedKeys: null_mut(),
        }
    }

    #[test]
    fn fields_are_read_in_their_order() {
        let (counter, dkm) = (format(16), dkm(CK_SP800_108_DKM_LENGTH_SUM_OF_SEGMENTS, 64));
        let handle: CK_OBJECT_HANDLE = 9;
        let fields = [
            field_of(CK_SP800_108_BYTE_ARRAY, &[7_u8; 3]),
            field_of(CK_SP800_108_ITERATION_VARIABLE, &counter),
            field_of(CK_SP800_108_KEY_HANDLE, &handle),
            field_of(CK_SP800_108_DKM_LENGTH, &dkm),
        ];
        let expected = Params::Sp800_108 {
            prf: MacFunction::Hmac(Hash::Sha256),
            fields: vec![
                Field::Bytes([7; 3].into()),
                Field::Iteration(Some(Number { little_endian: false, len: 2 })),
                Field::Key(object(9)),
                Field::Length { segments: true, number: Number { little_endian: true, len: 8 } },
            ],
            iv: [].into(),
        };
        assert!(with(ID, &of(&fields)) == Ok(expected));
        // In the other modes the iteration variable has no format, and a counter may follow.
        let fields = [nothing(CK_SP800_108_ITERATION_VARIABLE), field_of(CK_SP800_108_COUNTER, &counter)];
        let given = of(&fields);
        let feedback = CK_SP800_108_FEEDBACK_KDF_PARAMS {
            prfType: CKM_AES_CMAC,
            ulNumberOfDataParams: given.ulNumberOfDataParams,
            pDataParams: given.pDataParams,
            ulIVLen: 4,
            pIV: SOME,
            ulAdditionalDerivedKeys: 0,
            pAdditionalDerivedKeys: null_mut(),
        };
        assert!(with(CKM_SP800_108_FEEDBACK_KDF, &feedback).is_ok());
    }

    #[test]
    fn invalid_fields_are_refused() {
        let counter = format(32);
        let iteration = field_of(CK_SP800_108_ITERATION_VARIABLE, &counter);
        let sum = dkm(CK_SP800_108_DKM_LENGTH_SUM_OF_KEYS, 32);
        let length = field_of(CK_SP800_108_DKM_LENGTH, &sum);
        assert!(with(ID, &of(&[iteration, length])).is_ok());
        let formats = [0, 7, 12, 40, HUGE].map(format);
        for wrong in &formats {
            let fields = [field_of(CK_SP800_108_ITERATION_VARIABLE, wrong)];
            assert_eq!(with(ID, &of(&fields)).err(), INVALID);
        }
        for (method, bits) in [(0, 32), (3, 32), (1, 0), (1, 72), (1, HUGE)] {
            let wrong = dkm(method, bits);
            let fields = [iteration, field_of(CK_SP800_108_DKM_LENGTH, &wrong)];
            assert_eq!(with(ID, &of(&fields)).err(), INVALID);
        }
        let neither = CK_SP800_108_COUNTER_FORMAT { bLittleEndian: 2, ..counter };
        for wrong in [
            vec![],
            vec![length],
            vec![iteration, iteration],
            vec![iteration, length, length],
            vec![nothing(CK_SP800_108_ITERATION_VARIABLE)],
            vec![field_of(CK_SP800_108_ITERATION_VARIABLE, &neither)],
            vec![iteration, field_of(CK_SP800_108_COUNTER, &counter)],
            vec![iteration, nothing(CK_SP800_108_BYTE_ARRAY)],
            vec![iteration, nothing(CK_SP800_108_KEY_HANDLE)],
            vec![iteration, nothing(0)],
            vec![iteration, nothing(6)],
        ] {
            assert_eq!(with(ID, &of(&wrong)).err(), INVALID);
        }
        let good = [iteration];
        let wrong = CK_SP800_108_KDF_PARAMS { prfType: CKM_AES_XCBC_MAC, ..of(&good) };
        assert_eq!(with(ID, &wrong).err(), INVALID);
    }

    #[test]
    fn additional_keys_have_templates_and_output_pointers() {
        let counter = format(32);
        let iteration = [field_of(CK_SP800_108_ITERATION_VARIABLE, &counter)];
        let mut handle: CK_OBJECT_HANDLE = 1;
        let key = CK_DERIVED_KEY { pTemplate: null_mut(), ulAttributeCount: 0, phKey: &raw mut handle };
        let read = |keys: &[CK_DERIVED_KEY], count: CK_ULONG| {
            let given = CK_SP800_108_KDF_PARAMS {
                ulAdditionalDerivedKeys: count,
                pAdditionalDerivedKeys: keys.as_ptr().cast_mut(),
                ..of(&iteration)
            };
            // SAFETY: the bytes of a live struct without padding.
            let bytes = unsafe {
                std::slice::from_raw_parts(
                    from_ref(&given).cast::<u8>(),
                    size_of::<CK_SP800_108_KDF_PARAMS>(),
                )
            };
            // SAFETY: live memory, or refused before it is read.
            unsafe { additional(Kdf::Counter, bytes) }.map(|keys| keys.len())
        };
        assert_eq!(read(&[key, key], 2), Ok(2));
        assert_eq!(read(&[], 0), Ok(0));
        for (wrong, count) in [
            (CK_DERIVED_KEY { phKey: null_mut(), ..key }, 1),
            (CK_DERIVED_KEY { ulAttributeCount: 1, ..key }, 1),
            (CK_DERIVED_KEY { ulAttributeCount: HUGE, ..key }, 1),
            (key, 65),
            (key, HUGE),
        ] {
            assert_eq!(read(&[wrong], count).err(), INVALID);
        }
        let mut other: CK_OBJECT_HANDLE = 1;
        let wrong = CK_DERIVED_KEY { ulAttributeCount: 1, phKey: &raw mut other, ..key };
        handle = 1;
        assert_eq!(read(&[key, wrong], 2).err(), INVALID);
        assert_eq!((handle, other), (1, CK_INVALID_HANDLE));
    }
}
