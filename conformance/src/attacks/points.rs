//! Public values of the attacker that can reveal the private key: points off the curve (Biehl,
//! Meyer, Müller 2000; Jager, Schwenk, Somorovsky 2015), and points and numbers of small order
//! (Lim, Lee 1997).

use cryptoki_sys::*;
use jeton_client::{Attribute, ObjectHandle};

use super::tools::{Guarded, ecdh, hidden_of, readable_of, said};
use super::{Attack, Attacker, Setup, Stop, attack, flag, mechanism};
use crate::fixture::{P256, X25519};

const INVALID: &str = "Jager, Schwenk, Somorovsky 2015";
const SMALL: &str = "Lim, Lee 1997";
/// The curves: name, object identifier, number of bytes in a coordinate.
const CURVES: [(&str, &[u8], usize); 8] = [
    ("P-224", &[6, 5, 0x2b, 0x81, 4, 0, 0x21], 28),
    ("P-256", &P256, 32),
    ("P-384", &[6, 5, 0x2b, 0x81, 4, 0, 0x22], 48),
    ("P-521", &[6, 5, 0x2b, 0x81, 4, 0, 0x23], 66),
    ("secp256k1", &[6, 5, 0x2b, 0x81, 4, 0, 0x0a], 32),
    ("brainpoolP256r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 7], 32),
    ("brainpoolP384r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 11], 48),
    ("brainpoolP512r1", &[6, 9, 0x2b, 0x24, 3, 3, 2, 8, 1, 1, 13], 64),
];

pub fn attacks() -> Vec<Attack> {
    let mut all = Vec::new();
    for (name, oid, size) in CURVES {
        let points: [(&str, Vec<u8>); 6] = [
            ("a point off the curve", [&[4][..], &vec![1; 2 * size]].concat()),
            ("the point (0, 0)", [&[4][..], &vec![0; 2 * size]].concat()),
            ("the point at infinity", vec![0]),
            ("a hybrid point off the curve", [&[6][..], &vec![1; 2 * size]].concat()),
            ("half a point", [&[4][..], &vec![1; size]].concat()),
            ("coordinates beyond the field", [&[4][..], &vec![0xff; 2 * size]].concat()),
        ];
        for (what, point) in points {
            all.push(attack(INVALID, format!("ECDH on {name} with {what}"), &[CKM_ECDH1_DERIVE], move |a| {
                let key = pair(a, CKM_EC_KEY_PAIR_GEN, oid)?;
                let template = hidden_of(CKK_GENERIC_SECRET, 16, &[CKA_SIGN]);
                a.derive_key(&ecdh(&point), key, &template)?;
                Ok(true)
            }));
        }
    }
    all.extend(montgomery());
    all.extend(numbers());
    all
}

/// Creates a key pair for derivation. Returns the private key.
fn pair(a: &Attacker<'_>, generate: CK_MECHANISM_TYPE, oid: &[u8]) -> Result<ObjectHandle, Stop> {
    let public = [flag(CKA_TOKEN, false), Attribute::bytes(CKA_EC_PARAMS, oid)];
    let mut private = vec![flag(CKA_TOKEN, false)];
    private.extend(Guarded::Kept.attributes());
    private.extend(said(&[CKA_SIGN, CKA_DERIVE], &[CKA_DERIVE]));
    if generate == CKM_EC_MONTGOMERY_KEY_PAIR_GEN {
        private.retain(|one| one.kind != CKA_SIGN);
    }
    a.generate_key_pair(&mechanism(generate), &public, &private).map(|(_, key)| key).setup()
}

/// Attacks with points of small order, which give a shared secret of zeros (RFC 7748, 6.1 and 6.2).
fn montgomery() -> Vec<Attack> {
    const X448: [u8; 5] = [6, 3, 0x2b, 0x65, 0x6f];
    let hex = |text: &str| -> Vec<u8> {
        let digits: Vec<u8> = text.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
        digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect()
    };
    let mut minus_one = vec![0xff; 32];
    (minus_one[0], minus_one[31]) = (0xec, 0x7f);
    let mut prime = minus_one.clone();
    prime[0] = 0xed;
    let mut prime_and_one = minus_one.clone();
    prime_and_one[0] = 0xee;
    let mut one = vec![0; 32];
    one[0] = 1;
    let mut one_448 = vec![0; 56];
    one_448[0] = 1;
    let mut minus_one_448 = vec![0xff; 56];
    (minus_one_448[0], minus_one_448[28]) = (0xfe, 0xfe);
    let points: [(&'static str, &'static [u8], Vec<u8>); 10] = [
        ("X25519", &X25519, vec![0; 32]),
        ("X25519", &X25519, one),
        ("X25519", &X25519, hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")),
        ("X25519", &X25519, hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157")),
        ("X25519", &X25519, minus_one),
        ("X25519", &X25519, prime),
        ("X25519", &X25519, prime_and_one),
        ("X448", &X448, vec![0; 56]),
        ("X448", &X448, one_448),
        ("X448", &X448, minus_one_448),
    ];
    let make = |(at, (name, oid, point)): (usize, (&'static str, &'static [u8], Vec<u8>))| {
        let title = format!("{name} with a point of small order ({})", at + 1);
        attack(SMALL, title, &[CKM_ECDH1_DERIVE, CKM_EC_MONTGOMERY_KEY_PAIR_GEN], move |a| {
            let key = pair(a, CKM_EC_MONTGOMERY_KEY_PAIR_GEN, oid)?;
            let template = hidden_of(CKK_GENERIC_SECRET, point.len(), &[CKA_SIGN]);
            a.derive_key(&ecdh(&point), key, &template)?;
            Ok(true)
        })
    };
    points.into_iter().enumerate().map(make).collect()
}

/// Attacks on Diffie-Hellman with the public values 0, 1, p - 1, p and p + 1, in group 14 of RFC
/// 3526.
fn numbers() -> Vec<Attack> {
    let group = || {
        let text = "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD\
            EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED\
            EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F\
            83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B\
            E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510\
            15728E5A8AACAA68FFFFFFFFFFFFFFFF";
        let digits: Vec<u8> = text.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
        digits.chunks_exact(2).map(|two| two[0] << 4 | two[1]).collect::<Vec<_>>()
    };
    let moved = move |by: i16| {
        let mut number = group();
        let last = number.len() - 1;
        if by == 1 {
            // The prime ends with eight bytes of 255, but not all its bytes are 255. So the sum has
            // the same length.
            for byte in number.iter_mut().rev() {
                *byte = byte.wrapping_add(1);
                if *byte != 0 {
                    break;
                }
            }
        } else {
            number[last] = number[last].wrapping_add(by as u8);
        }
        number
    };
    let values: [(&str, Vec<u8>); 5] =
        [("0", vec![0]), ("1", vec![1]), ("p - 1", moved(-1)), ("p", moved(0)), ("p + 1", moved(1))];
    let make = |(name, value): (&'static str, Vec<u8>)| {
        attack(
            SMALL,
            format!("Diffie-Hellman with the public value {name}"),
            &[CKM_DH_PKCS_DERIVE],
            move |a| {
                let public = [
                    flag(CKA_TOKEN, false),
                    Attribute::bytes(CKA_PRIME, group()),
                    Attribute::bytes(CKA_BASE, [2]),
                ];
                let private = [flag(CKA_TOKEN, false), flag(CKA_DERIVE, true)];
                let made = a.generate_key_pair(&mechanism(CKM_DH_PKCS_KEY_PAIR_GEN), &public, &private);
                let (_, key) = made.setup()?;
                let with = jeton_client::Mechanism::with_bytes(CKM_DH_PKCS_DERIVE, &value);
                a.derive_key(&with, key, &readable_of(CKK_GENERIC_SECRET, 16))?;
                Ok(true)
            },
        )
    };
    values.into_iter().map(make).collect()
}
