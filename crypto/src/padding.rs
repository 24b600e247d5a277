//! Padding checks in constant time: the time does not depend on the values of the bytes.

use subtle::{Choice, ConditionallySelectable, ConstantTimeEq, ConstantTimeGreater};

/// Half a block of AES, the unit of KWP.
const HALF: usize = 8;

/// Checks the PKCS #7 padding of `plain`, which is one or more blocks of `block` bytes.
///
/// Returns whether the padding is right, and the length of the data without it. If the padding is
/// wrong, the length is that of `plain`.
pub fn pkcs7(plain: &[u8], block: usize) -> (Choice, usize) {
    let Some(last) = plain.last() else { return (Choice::from(0), 0) };
    let mut good = !last.ct_eq(&0) & !last.ct_gt(&(block as u8));
    for (distance, byte) in (1u8..=block as u8).zip(plain.iter().rev()) {
        let within = !distance.ct_gt(last);
        good &= !within | byte.ct_eq(last);
    }
    let padding = u8::conditional_select(&0, last, good);
    (good, plain.len() - usize::from(padding))
}

/// Checks the initial value, the length and the zeros of unwrapped KWP data (RFC 5649, 3).
/// `message` has at least 16 bytes.
///
/// Returns whether all are right, and the length of the data. If one is wrong, the length may
/// exceed the data.
pub(crate) fn kwp(message: &[u8], iv: &[u8; HALF / 2]) -> (Choice, usize) {
    let (front, body) = message.split_at(HALF);
    let (given_iv, len) = front.split_at(HALF / 2);
    let len = len.iter().fold(0u32, |len, byte| len << 8 | u32::from(*byte));
    let most = body.len() as u32;
    // The last half block contains 1 to 8 bytes of data.
    let mut good = given_iv.ct_eq(iv) & !len.ct_gt(&most) & len.ct_gt(&(most - HALF as u32));
    for (index, byte) in (0u32..).zip(body).skip(body.len() - HALF) {
        good &= len.ct_gt(&index) | byte.ct_eq(&0);
    }
    (good, len as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wrong_byte_of_a_pkcs7_padding_is_found() {
        for block in [8, 16] {
            for padding in 0..=255 {
                let mut plain = vec![0xaa; 2 * block];
                let first = (2 * block).saturating_sub(padding).max(block);
                plain[first..].fill(padding as u8);
                *plain.last_mut().unwrap() = padding as u8;
                let right = (1..=block).contains(&padding);
                let (good, len) = pkcs7(&plain, block);
                assert_eq!(bool::from(good), right, "{padding}");
                assert_eq!(len, if right { 2 * block - padding } else { 2 * block });
                if !right {
                    continue;
                }
                // The byte before the padding may have any value.
                plain[2 * block - padding - 1] ^= 1;
                assert!(bool::from(pkcs7(&plain, block).0));
                for at in 2 * block - padding..2 * block - 1 {
                    plain[at] ^= 1;
                    let (good, len) = pkcs7(&plain, block);
                    assert!(!bool::from(good), "{padding}: {at}");
                    assert_eq!(len, 2 * block);
                    plain[at] ^= 1;
                }
            }
        }
    }
}
