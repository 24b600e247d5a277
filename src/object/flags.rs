//! The flags of an object as two bit masks: which flags it has, and which are true.

use crate::id::AttributeType as A;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag(u8);

macro_rules! flags {
    ($($name:ident)*) => {
        /// The flags in the order of their bits. The bits are never stored: this order may change.
        const FLAGS: [A; 25] = [$(A::$name),*];

        #[allow(dead_code, missing_docs, reason = "the names are the specification's")]
        impl Flag {
            $(pub(crate) const $name: Self = Self::at(A::$name);)*
        }
    };
}

flags! {
    TOKEN PRIVATE MODIFIABLE COPYABLE DESTROYABLE TRUSTED SENSITIVE ENCRYPT DECRYPT WRAP UNWRAP SIGN
    SIGN_RECOVER VERIFY VERIFY_RECOVER DERIVE EXTRACTABLE LOCAL NEVER_EXTRACTABLE ALWAYS_SENSITIVE
    ALWAYS_AUTHENTICATE WRAP_WITH_TRUSTED ENCAPSULATE DECAPSULATE OTP_USER_FRIENDLY_MODE
}

/// Attribute numbers are below this, except those of arrays and of vendors.
pub(super) const NUMBERS: usize = 0x640;
/// Maps an attribute number to its bit.
static PLACES: [u8; NUMBERS] = {
    let mut places = [NO_FLAG; NUMBERS];
    let mut place = 0;
    while place < FLAGS.len() {
        places[FLAGS[place].0 as usize] = place as u8;
        place += 1;
    }
    places
};
const NO_FLAG: u8 = u8::MAX;

impl Flag {
    /// Returns the bit of an attribute; `None` if it is not a flag.
    pub(crate) fn of(id: A) -> Option<Self> {
        let place = *PLACES.get(usize::try_from(id.0).ok()?)?;
        (place != NO_FLAG).then_some(Self(place))
    }

    const fn at(id: A) -> Self {
        let mut place = 0;
        while FLAGS[place as usize].0 != id.0 {
            place += 1;
        }
        Self(place)
    }
}

/// The flags of one object with their values.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Bits {
    present: u32,
    set: u32,
}

impl Bits {
    /// Returns the flag's value; `None` if the flag is absent.
    pub(crate) fn get(self, flag: Flag) -> Option<bool> {
        (self.present >> flag.0 & 1 != 0).then_some(self.set >> flag.0 & 1 != 0)
    }

    pub(crate) fn put(&mut self, flag: Flag, value: bool) {
        self.present |= 1 << flag.0;
        self.set = self.set & !(1 << flag.0) | u32::from(value) << flag.0;
    }

    /// Sets each flag that is absent to its value in `defaults`.
    pub(crate) fn complete(&mut self, defaults: Self) {
        self.set |= defaults.set & !self.present;
        self.present |= defaults.present;
    }

    /// Returns the flags that are present, with their values.
    pub(crate) fn iter(self) -> impl Iterator<Item = (A, bool)> {
        (0u8..).zip(FLAGS).filter_map(move |(place, id)| self.get(Flag(place)).map(|value| (id, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_is_absent_until_it_is_set() {
        let mut bits = Bits::default();
        assert_eq!(bits.get(Flag::SIGN), None);
        bits.put(Flag::SIGN, true);
        bits.put(Flag::TOKEN, false);
        assert_eq!((bits.get(Flag::SIGN), bits.get(Flag::TOKEN)), (Some(true), Some(false)));
        bits.put(Flag::SIGN, false);
        let mut defaults = Bits::default();
        defaults.put(Flag::SIGN, true);
        bits.complete(defaults);
        assert_eq!(bits.iter().collect::<Vec<_>>(), [(A::TOKEN, false), (A::SIGN, false)]);
        defaults.complete(bits);
        assert_eq!(defaults.iter().collect::<Vec<_>>(), [(A::TOKEN, false), (A::SIGN, true)]);
    }
}
