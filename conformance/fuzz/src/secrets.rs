//! The guarded keys, whose values no output may contain, and the search for parts of them.

use cryptoki_sys::*;

/// An output is a leak if it contains this number of consecutive bytes of a secret.
const WINDOW: usize = 8;

/// The values of the guarded keys: the keys whose values no output may contain. They are random, so
/// that the fuzzer's bytes do not contain parts of them by chance.
pub(crate) const SECRETS: [&[u8]; 5] = [
    &[
        0x0b, 0x97, 0x79, 0x02, 0x6e, 0x75, 0xd7, 0x8f, 0x12, 0x16, 0x0d, 0x19, 0xac, 0x37, 0x97, 0x42, 0xc8,
        0x71, 0x36, 0xff, 0xa7, 0xcd, 0x39, 0x3f, 0xbd, 0x27, 0x5c, 0xd7, 0x7b, 0x32, 0x28, 0x9a,
    ],
    &[
        0x15, 0x84, 0xd3, 0x82, 0xa4, 0x7b, 0xa4, 0x29, 0xa5, 0x2a, 0xcb, 0xc4, 0x41, 0x6b, 0xd8, 0xe0, 0x91,
        0xb3, 0x46, 0x52, 0x04, 0xea, 0x96, 0x8f, 0x31, 0x12, 0x73, 0x0d, 0xd6, 0x6f, 0x32, 0xad, 0xc8, 0xed,
        0x35, 0x7a, 0xd1, 0x1c, 0xc0, 0xf3, 0x1c, 0x56, 0xec, 0x9c, 0x93, 0xac, 0xd0, 0x9c,
    ],
    &[
        0x0d, 0xc1, 0xde, 0x33, 0x69, 0x21, 0x78, 0x10, 0x5f, 0xef, 0x8c, 0x0c, 0x0a, 0xe2, 0xf7, 0xde, 0x3a,
        0x29, 0xde, 0x9a, 0x2f, 0x54, 0x83, 0x4d, 0xb3, 0x07, 0x00, 0x43, 0xee, 0x4b, 0x68, 0x36,
    ],
    &[
        0x8a, 0x1e, 0x71, 0xcb, 0xaf, 0x5a, 0xc5, 0x24, 0x22, 0x70, 0xea, 0xe5, 0x17, 0xa0, 0xa8, 0x2f, 0x58,
        0x21, 0x78, 0x56, 0x9b, 0xa2, 0xaf, 0xde, 0xf2, 0x29, 0xc5, 0xba, 0xaf, 0x25, 0x29, 0xf6,
    ],
    &[
        0x6c, 0x71, 0x7b, 0x08, 0x34, 0xeb, 0x65, 0x42, 0x97, 0xf5, 0x14, 0x40, 0x1f, 0x47, 0x46, 0x4b, 0xc9,
        0x39, 0xcb, 0xee, 0xd2, 0x7a, 0x45, 0x4a, 0x77, 0xc5, 0xba, 0x9d, 0x84, 0xc7, 0xd5, 0xe4,
    ],
];

/// Hides the secrets in comparisons. The fuzzer sees the operands of comparisons and puts them into
/// its inputs. If an input has a part of a secret, the run does not check for leaks.
const MASK: u64 = 0x5f3c_a1b7_0e92_d846;

/// Finds parts of the secrets in memory.
pub(crate) struct Watch {
    windows: Vec<u64>,
    /// For each pair of bytes, whether a window begins with it.
    beginnings: Box<[bool]>,
}

impl Watch {
    pub(crate) fn new() -> Self {
        let all = || SECRETS.iter().flat_map(|secret| secret.windows(WINDOW));
        let mut windows: Vec<u64> = all().map(masked).collect();
        windows.sort_unstable();
        let mut beginnings = vec![false; 1 << 16].into_boxed_slice();
        for window in all() {
            beginnings[beginning(window)] = true;
        }
        Self { windows, beginnings }
    }

    /// Whether a part of a secret is in these bytes.
    pub(crate) fn sees(&self, bytes: &[u8]) -> bool {
        bytes
            .windows(WINDOW)
            .any(|part| self.beginnings[beginning(part)] && self.windows.binary_search(&masked(part)).is_ok())
    }
}

fn beginning(bytes: &[u8]) -> usize {
    usize::from(u16::from_le_bytes([bytes[0], bytes[1]]))
}

fn masked(window: &[u8]) -> u64 {
    window.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)) ^ MASK
}

/// Makes the guarded keys in the token.
pub(crate) fn make(list: &CK_FUNCTION_LIST_3_2, session: CK_SESSION_HANDLE) {
    const P256: &[u8] = &[0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x03, 0x01, 0x07];
    const ED25519: &[u8] = &[0x06, 0x03, 0x2b, 0x65, 0x70];
    let crypt = &[CKA_ENCRYPT, CKA_DECRYPT, CKA_WRAP, CKA_UNWRAP, CKA_SIGN, CKA_VERIFY, CKA_DERIVE][..];
    let code = &[CKA_SIGN, CKA_VERIFY, CKA_DERIVE][..];
    type Kind<'a> = (CK_OBJECT_CLASS, CK_KEY_TYPE, &'a [u8], &'a [CK_ATTRIBUTE_TYPE], bool);
    let kinds: [Kind<'_>; 5] = [
        (CKO_SECRET_KEY, CKK_AES, &[], crypt, false),
        (CKO_SECRET_KEY, CKK_GENERIC_SECRET, &[], code, false),
        (CKO_PRIVATE_KEY, CKK_EC, P256, &[CKA_SIGN, CKA_DERIVE], false),
        (CKO_PRIVATE_KEY, CKK_EC_EDWARDS, ED25519, &[CKA_SIGN], false),
        // Only a trusted key may wrap this key, and the token has no trusted key.
        (CKO_SECRET_KEY, CKK_AES, &[], crypt, true),
    ];
    for ((class, key_type, curve, uses, leaves), secret) in kinds.into_iter().zip(SECRETS) {
        let mut values = vec![
            (CKA_CLASS, class.to_ne_bytes().to_vec()),
            (CKA_KEY_TYPE, key_type.to_ne_bytes().to_vec()),
            (CKA_VALUE, secret.to_vec()),
            (CKA_TOKEN, vec![CK_TRUE]),
            (CKA_SENSITIVE, vec![CK_TRUE]),
            (CKA_EXTRACTABLE, vec![CK_BBOOL::from(leaves)]),
            (CKA_WRAP_WITH_TRUSTED, vec![CK_BBOOL::from(leaves)]),
        ];
        values.extend(uses.iter().map(|id| (*id, vec![CK_TRUE])));
        if !curve.is_empty() {
            values.push((CKA_EC_PARAMS, curve.to_vec()));
        }
        let mut template: Vec<CK_ATTRIBUTE> = values
            .iter_mut()
            .map(|(type_, value)| CK_ATTRIBUTE {
                type_: *type_,
                pValue: value.as_mut_ptr().cast(),
                ulValueLen: value.len() as CK_ULONG,
            })
            .collect();
        let (mut handle, create) = (0, list.C_CreateObject.expect("an entry"));
        // SAFETY: attributes with their values, and memory for the handle.
        let rv =
            unsafe { create(session, template.as_mut_ptr(), template.len() as CK_ULONG, &raw mut handle) };
        assert_eq!(rv, CKR_OK, "a guarded key");
    }
}
