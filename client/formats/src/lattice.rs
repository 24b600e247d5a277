//! The forms of private keys of ML-DSA and ML-KEM in PKCS #8. RFC 9881 and RFC 9935 have three: a
//! seed, an expanded key, or both. OpenSSL 3.5 and later, wolfSSL and oqs-provider also wrote
//! others, which this file converts: a seed or an expanded key without the choice, and an expanded
//! key with the public key behind it. The length of a key tells its form.

use jeton_client::key_types;
use zeroize::Zeroizing;

use super::{Error, ber};
use crate::ber::OCTET_STRING;

/// The implicit tag \[0\] of a seed.
const SEED: u8 = 0x80;

/// The lengths of the keys of a parameter set.
struct Lengths {
    id: &'static str,
    seed: usize,
    expanded: usize,
    public: usize,
}

const fn lengths(id: &'static str, seed: usize, expanded: usize, public: usize) -> Lengths {
    Lengths { id, seed, expanded, public }
}

/// FIPS 204, table 2, and FIPS 203, table 3.
const SETS: [Lengths; 6] = [
    lengths("ml-dsa-44", 32, 2560, 1312),
    lengths("ml-dsa-65", 32, 4032, 1952),
    lengths("ml-dsa-87", 32, 4896, 2592),
    lengths("ml-kem-512", 64, 1632, 800),
    lengths("ml-kem-768", 64, 2400, 1184),
    lengths("ml-kem-1024", 64, 3168, 1568),
];

/// The private key in its normal form, and its public key if the file has it.
type Plain = (Zeroizing<Vec<u8>>, Option<Vec<u8>>);

/// Returns a private key in a form of the RFCs, and the public key behind it. `oid` is the object
/// identifier in DER. A key of another algorithm, or in another form, is returned as it is.
pub(crate) fn plain(oid: &[u8], key: &[u8]) -> Result<Plain, Error> {
    let row = key_types::of_oid(oid);
    let Some(set) = row.and_then(|row| SETS.iter().find(|set| set.id == row.id)) else {
        return Ok((key.to_vec().into(), None));
    };
    // oqs-provider and OpenSSL wrote the two keys in an octet string.
    let octets = ber::only(key).filter(|inner| inner.tag == OCTET_STRING).map(|inner| inner.content);
    let both = octets.unwrap_or(key);
    Ok(match key.len() {
        length if length == set.seed => (ber::encode(SEED, &[key]), None),
        length if length == set.expanded => (ber::encode(OCTET_STRING, &[key]), None),
        _ if both.len() == set.expanded + set.public => {
            let (expanded, public) = both.split_at(set.expanded);
            (ber::encode(OCTET_STRING, &[expanded]), Some(public.to_vec()))
        }
        _ => (key.to_vec().into(), None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ber::SEQUENCE;

    #[test]
    fn each_form_of_each_set_becomes_one_of_the_rfcs() {
        for Lengths { id, seed, expanded, public } in SETS {
            let oid = key_types::named(id).expect(id).oid;
            let [seed, expanded, public] = [(seed, 0x04), (expanded, 0x30), (public, 0x80)]
                .map(|(length, first)| [&[first], &vec![7; length - 1][..]].concat());
            let octets = ber::encode(OCTET_STRING, &[&expanded]);
            let tagged = ber::encode(SEED, &[&seed]);
            let both = ber::encode(SEQUENCE, &[&ber::encode(OCTET_STRING, &[&seed]), &octets]);
            let pair = [&expanded[..], &public].concat();
            for (form, plain_form, behind) in [
                (&tagged[..], &tagged[..], None),
                (&octets, &octets, None),
                (&both, &both, None),
                (&seed, &tagged, None),
                (&expanded, &octets, None),
                (&ber::encode(OCTET_STRING, &[&pair]), &octets, Some(&public)),
                (&pair, &octets, Some(&public)),
            ] {
                let (key, found) = plain(oid, form).expect("a form");
                assert!(key[..] == *plain_form && found.as_ref() == behind, "{id} {}", form.len());
            }
        }
    }
}
