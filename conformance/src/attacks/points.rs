//! Public values of the attacker that can reveal the private key: points off the curve (Biehl,
//! Meyer, Müller 2000; Jager, Schwenk, Somorovsky 2015), and points and numbers of small order
//! (Lim, Lee 1997).

use cryptoki_sys::*;
use jeton_client::Mechanism;

use super::Table;
use super::keys::Guarded::Kept;
use super::keys::{Pair, bytes, flag, hidden_of, open_of};
use super::tools::ecdh;
use crate::fixture::{P256, X25519, hex};

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

pub fn attacks(t: &Table) {
    CURVES.into_iter().for_each(|curve| off_the_curve(t, curve));
    montgomery(t);
    numbers(t);
}

/// Attacks with values that are not points of a curve.
fn off_the_curve(t: &Table, (name, oid, size): (&str, &[u8], usize)) {
    let point = |form: u8, byte: u8, length: usize| [vec![form], vec![byte; length]].concat();
    for (what, point) in [
        ("a point off the curve", point(4, 1, 2 * size)),
        ("the point (0, 0)", point(4, 0, 2 * size)),
        ("the point at infinity", vec![0]),
        ("a hybrid point off the curve", point(6, 1, 2 * size)),
        ("half a point", point(4, 1, size)),
        ("coordinates beyond the field", point(4, 0xff, 2 * size)),
    ] {
        let key = deriving(CKM_EC_KEY_PAIR_GEN, oid).and([flag(CKA_SIGN, false)]);
        let made = hidden_of(CKK_GENERIC_SECRET, 16, &[CKA_SIGN]);
        t.row(INVALID, format!("ECDH on {name} with {what}"), &[CKM_ECDH1_DERIVE], key)
            .accepted(move |a, (_, key)| a.derived(ecdh(&point), key, &made));
    }
}

/// Describes a pair on a curve. The private key may derive.
fn deriving(generate: CK_MECHANISM_TYPE, oid: &[u8]) -> Pair {
    let pair = Pair::of(generate, [bytes(CKA_EC_PARAMS, oid)], []);
    Pair { private: pair.private.guarded(Kept).able(&[CKA_DERIVE]), ..pair }
}

/// Attacks with points of small order, which give a shared secret of zeros (RFC 7748, 6.1 and 6.2).
fn montgomery(t: &Table) {
    const X448: &[u8] = &[6, 3, 0x2b, 0x65, 0x6f];
    // A little-endian number: its first byte, the bytes in the middle, and the last byte.
    let number = |length, first, middle, last| {
        let mut number = vec![middle; length];
        (number[0], number[length - 1]) = (first, last);
        number
    };
    let mut minus_one_448 = number(56, 0xfe, 0xff, 0xff);
    minus_one_448[28] = 0xfe;
    let points: [(&str, &[u8], Vec<u8>); 10] = [
        ("X25519", &X25519, number(32, 0, 0, 0)),
        ("X25519", &X25519, number(32, 1, 0, 0)),
        ("X25519", &X25519, hex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800")),
        ("X25519", &X25519, hex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157")),
        // p - 1, p and p + 1.
        ("X25519", &X25519, number(32, 0xec, 0xff, 0x7f)),
        ("X25519", &X25519, number(32, 0xed, 0xff, 0x7f)),
        ("X25519", &X25519, number(32, 0xee, 0xff, 0x7f)),
        ("X448", X448, number(56, 0, 0, 0)),
        ("X448", X448, number(56, 1, 0, 0)),
        ("X448", X448, minus_one_448),
    ];
    for (at, (name, oid, point)) in points.into_iter().enumerate() {
        let name = format!("{name} with a point of small order ({})", at + 1);
        let key = deriving(CKM_EC_MONTGOMERY_KEY_PAIR_GEN, oid);
        let made = hidden_of(CKK_GENERIC_SECRET, point.len(), &[CKA_SIGN]);
        t.row(SMALL, name, &[CKM_ECDH1_DERIVE, CKM_EC_MONTGOMERY_KEY_PAIR_GEN], key)
            .accepted(move |a, (_, key)| a.derived(ecdh(&point), key, &made));
    }
}

/// Attacks on Diffie-Hellman with the public values 0, 1, p - 1, p and p + 1, in group 14 of RFC
/// 3526.
fn numbers(t: &Table) {
    // The prime without its last nine bytes.
    const PRIME: &str = "FFFFFFFFFFFFFFFFC90FDAA22168C234C4C6628B80DC1CD129024E088A67CC74020BBEA63B139B22514A08798E3404DD\
        EF9519B3CD3A431B302B0A6DF25F14374FE1356D6D51C245E485B576625E7EC6F44C42E9A637ED6B0BFF5CB6F406B7ED\
        EE386BFB5A899FA5AE9F24117C4B1FE649286651ECE45B3DC2007CB8A163BF0598DA48361C55D39A69163FA8FD24CF5F\
        83655D23DCA3AD961C62F356208552BB9ED529077096966D670C354E4ABC9804F1746C08CA18217C32905E462E36CE3B\
        E39E772C180E86039B2783A2EC07A28FB5C55DF06F4C52C9DE2BCBF6955817183995497CEA956AE515D2261898FA0510\
        15728E5A8AACAA";
    let number = |end: &str| hex(&format!("{PRIME}{end}"));
    let prime = number("68FFFFFFFFFFFFFFFF");
    for (name, value) in [
        ("0", vec![0]),
        ("1", vec![1]),
        ("p - 1", number("68FFFFFFFFFFFFFFFE")),
        ("p", prime.clone()),
        ("p + 1", number("690000000000000000")),
    ] {
        let group = [bytes(CKA_PRIME, prime.clone()), bytes(CKA_BASE, [2])];
        let key = Pair::of(CKM_DH_PKCS_KEY_PAIR_GEN, group, [flag(CKA_DERIVE, true)]);
        let with = Mechanism::with_bytes(CKM_DH_PKCS_DERIVE, &value);
        t.row(SMALL, format!("Diffie-Hellman with the public value {name}"), &[CKM_DH_PKCS_DERIVE], key)
            .accepted(move |a, (_, key)| a.derived(&with, key, open_of(CKK_GENERIC_SECRET, 16)));
    }
}
