//! `CK_OTP_SIGNATURE_INFO`: the one output that contains pointers. They point into the same buffer.
//! For an application of the agent they are offsets. The client replaces them by addresses of its
//! own buffer.

use cryptoki_sys::{CK_OTP_PARAM, CK_OTP_SIGNATURE_INFO};
use jeton_names::structs::{OTP_COUNT, OTP_FIRST, OTP_VALUE, OTP_VALUE_LEN};

/// Replaces each pointer `p` of the block by `p - from + to`. Returns `None`, and leaves a block
/// without any pointer, if it is not well formed.
pub fn move_pointers(block: &mut [u8], from: u64, to: u64) -> Option<()> {
    let moved = moved(block, from, to);
    if moved.is_none() {
        block.fill(0);
    }
    moved
}

fn moved(block: &mut [u8], from: u64, to: u64) -> Option<()> {
    let count = number(block, OTP_COUNT)?;
    let params = shift(block, OTP_FIRST, from, to)?;
    // The pointers of the parameters must not be the number of parameters.
    (params >= size_of::<CK_OTP_SIGNATURE_INFO>()).then_some(())?;
    for index in 0..usize::try_from(count).ok().filter(|count| *count < 16)? {
        let param = params.checked_add(index.checked_mul(size_of::<CK_OTP_PARAM>())?)?;
        let len = number(block, param.checked_add(OTP_VALUE_LEN)?)?;
        let value = shift(block, param + OTP_VALUE, from, to)?;
        (len <= block.len().checked_sub(value)? as u64).then_some(())?;
    }
    Some(())
}

/// Moves the pointer at an offset. Returns the offset that it points to.
fn shift(block: &mut [u8], at: usize, from: u64, to: u64) -> Option<usize> {
    let offset = number(block, at)?.checked_sub(from)?;
    let target = usize::try_from(offset).ok().filter(|offset| *offset <= block.len())?;
    block.get_mut(at..at + 8)?.copy_from_slice(&offset.checked_add(to)?.to_ne_bytes());
    Some(target)
}

fn number(block: &[u8], at: usize) -> Option<u64> {
    block.get(at..at.checked_add(8)?)?.try_into().ok().map(u64::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(base: u64, value: u64, len: u64) -> Vec<u8> {
        let numbers = [base + 16, 1, 7, base + value, len, 0x3132_3334];
        numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
    }

    #[test]
    fn pointers_move_with_the_block() {
        let mut moving = block(0x7000, 40, 8);
        move_pointers(&mut moving, 0x7000, 0);
        assert_eq!(moving, block(0, 40, 8));
        move_pointers(&mut moving, 0, 0x9000);
        assert_eq!(moving, block(0x9000, 40, 8));
    }

    #[test]
    fn a_block_with_foreign_pointers_loses_everything() {
        for (base, value, len) in
            [(0_u64, 40_u64, 9_u64), (0, 49, 0), (1 << 40, 40, 8), (0, u64::MAX - 20, 8)]
        {
            let mut hostile = block(base, 40, 8);
            hostile[24..32].copy_from_slice(&base.wrapping_add(value).to_ne_bytes());
            hostile[32..40].copy_from_slice(&len.to_ne_bytes());
            move_pointers(&mut hostile, 0, 0x9000);
            assert_eq!(hostile, [0; 48]);
        }
        for params in [0_u64, 8, 15] {
            let mut overlapping = block(0, 40, 8);
            overlapping[..8].copy_from_slice(&params.to_ne_bytes());
            move_pointers(&mut overlapping, 0, 0x9000);
            assert_eq!(overlapping, [0; 48]);
        }
        for len in 0..16 {
            let mut short = vec![1; len];
            move_pointers(&mut short, 0, 0);
            assert_eq!(short, vec![0; len]);
        }
    }
}
