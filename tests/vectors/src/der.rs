//! The DER around the numbers of a signature and around the point of a public key. No interface of
//! PKCS#11 reads it, so these functions read it strictly.

use crate::{Curve, integer};

/// Returns `r || s` of equal lengths from `SEQUENCE { r INTEGER, s INTEGER }`.
pub fn halves(der: &[u8]) -> Option<Vec<u8>> {
    let (sequence, rest) = element(0x30, der)?;
    let (r, s) = element(0x02, sequence)?;
    let (s, more) = element(0x02, s)?;
    let positive = |number: &[u8]| !number.is_empty() && number[0] & 0x80 == 0;
    let minimal = |number: &[u8]| number[0] != 0 || number.len() == 1 || number[1] & 0x80 != 0;
    if !rest.is_empty() || !more.is_empty() || ![r, s].iter().all(|n| positive(n) && minimal(n)) {
        return None;
    }
    let (r, s) = (integer(r), integer(s));
    let half = r.len().max(s.len()).max(1);
    Some([vec![0; half - r.len()], r.clone(), vec![0; half - s.len()], s].concat())
}

/// Returns the uncompressed point of a `SubjectPublicKeyInfo`. Returns `None` if another algorithm,
/// another length or another encoding is before the point.
pub fn point<'a>(curve: &Curve, der: &'a [u8]) -> Option<&'a [u8]> {
    let (info, rest) = element(0x30, der)?;
    let (algorithm, key) = element(0x30, info)?;
    let parameters = algorithm.strip_prefix(b"\x06\x07\x2a\x86\x48\xce\x3d\x02\x01")?;
    let (key, more) = element(0x03, key)?;
    let point = key.strip_prefix(&[0])?;
    let fits = parameters == curve.oid && point.len() == 1 + 2 * curve.len;
    if fits && rest.is_empty() && more.is_empty() { Some(point) } else { None }
}

/// Returns the content of the element with this tag, and the bytes after it.
fn element(tag: u8, der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (found, der) = der.split_first()?;
    let (&len, der) = der.split_first()?;
    let (len, der) = match len {
        0..=0x7f => (len, der),
        0x81 => der.split_first().filter(|(len, _)| **len >= 0x80).map(|(len, der)| (*len, der))?,
        _ => return None,
    };
    if *found != tag { None } else { der.split_at_checked(usize::from(len)) }
}
