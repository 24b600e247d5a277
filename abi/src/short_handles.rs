//! Numbers of 32 bits that stand for longer ones, such as object handles, in a process whose
//! `CK_ULONG` is that short.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// The numbers that stand for others.
const STAND_INS: Range<u32> = 0x7e00_0000..0x7e40_0000;

/// The numbers that have stand-ins, and those by their stand-ins.
static KNOWN: Mutex<(BTreeMap<u64, u32>, Vec<u64>)> = Mutex::new((BTreeMap::new(), Vec::new()));

/// Returns the number that the application passed.
pub(crate) fn wide(number: u32) -> u64 {
    match number {
        // Such as `CK_UNAVAILABLE_INFORMATION`.
        u32::MAX => u64::MAX,
        short if STAND_INS.contains(&short) => {
            let known = &KNOWN.lock().unwrap_or_else(PoisonError::into_inner).1;
            known.get((short - STAND_INS.start) as usize).copied().unwrap_or(short.into())
        }
        short => short.into(),
    }
}

/// Returns a number for the application: 0, which is no handle, if there are too many long ones.
pub(crate) fn narrow(number: u64) -> u32 {
    match u32::try_from(number) {
        _ if number == u64::MAX => u32::MAX,
        Ok(short) if short != u32::MAX && !STAND_INS.contains(&short) => short,
        _ => {
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            let (short, long) = &mut *known;
            if short.len() == STAND_INS.len() && !short.contains_key(&number) {
                return 0;
            }
            *short.entry(number).or_insert_with(|| {
                long.push(number);
                STAND_INS.start + long.len() as u32 - 1
            })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_long_number_has_one_short_number() {
        let handles = [1 << 60 | 5, 1 << 60 | 6, u64::from(u32::MAX), u64::from(STAND_INS.start)];
        let short = handles.map(narrow);
        assert_eq!((short.map(wide), handles.map(narrow)), (handles, short));
        for number in [0, 7, u64::from(u32::MAX) - 1] {
            assert_eq!((u64::from(narrow(number)), wide(narrow(number))), (number, number));
        }
        assert_eq!((narrow(u64::MAX), wide(u32::MAX)), (u32::MAX, u64::MAX));
    }
}
