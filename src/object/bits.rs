//! The flags of an object as two bit masks: which flags it has, and which are true.

use crate::id::AttributeType as A;

/// The bit number of a flag.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Flag(u8);

/// The flags in the order of their bits. The bits are never stored, so this order may change.
const FLAGS: [A; 25] = [
    A::TOKEN,
    A::PRIVATE,
    A::MODIFIABLE,
    A::COPYABLE,
    A::DESTROYABLE,
    A::TRUSTED,
    A::SENSITIVE,
    A::ENCRYPT,
    A::DECRYPT,
    A::WRAP,
    A::UNWRAP,
    A::SIGN,
    A::SIGN_RECOVER,
    A::VERIFY,
    A::VERIFY_RECOVER,
    A::DERIVE,
    A::EXTRACTABLE,
    A::LOCAL,
    A::NEVER_EXTRACTABLE,
    A::ALWAYS_SENSITIVE,
    A::ALWAYS_AUTHENTICATE,
    A::WRAP_WITH_TRUSTED,
    A::ENCAPSULATE,
    A::DECAPSULATE,
    A::OTP_USER_FRIENDLY_MODE,
];

/// Maps an attribute number to its bit. All attributes that are flags have numbers below the length
/// of the table.
static PLACES: [u8; 0x640] = {
    let mut places = [NO_FLAG; 0x640];
    let mut place = 0;
    while place < FLAGS.len() {
        places[FLAGS[place].0 as usize] = place as u8;
        place += 1;
    }
    places
};
const NO_FLAG: u8 = u8::MAX;

impl Flag {
    /// `CKA_TOKEN`
    pub(crate) const TOKEN: Self = Self::at(A::TOKEN);
    /// `CKA_PRIVATE`
    pub(crate) const PRIVATE: Self = Self::at(A::PRIVATE);
    /// `CKA_MODIFIABLE`
    pub(crate) const MODIFIABLE: Self = Self::at(A::MODIFIABLE);
    /// `CKA_COPYABLE`
    pub(crate) const COPYABLE: Self = Self::at(A::COPYABLE);
    /// `CKA_DESTROYABLE`
    pub(crate) const DESTROYABLE: Self = Self::at(A::DESTROYABLE);
    /// `CKA_SENSITIVE`
    pub(crate) const SENSITIVE: Self = Self::at(A::SENSITIVE);
    /// `CKA_EXTRACTABLE`
    pub(crate) const EXTRACTABLE: Self = Self::at(A::EXTRACTABLE);
    /// `CKA_SIGN`
    pub(crate) const SIGN: Self = Self::at(A::SIGN);
    /// `CKA_VERIFY`
    pub(crate) const VERIFY: Self = Self::at(A::VERIFY);
    /// `CKA_ENCRYPT`
    pub(crate) const ENCRYPT: Self = Self::at(A::ENCRYPT);
    /// `CKA_DECRYPT`
    pub(crate) const DECRYPT: Self = Self::at(A::DECRYPT);
    /// `CKA_WRAP`
    pub(crate) const WRAP: Self = Self::at(A::WRAP);
    /// `CKA_UNWRAP`
    pub(crate) const UNWRAP: Self = Self::at(A::UNWRAP);
    /// `CKA_DERIVE`
    pub(crate) const DERIVE: Self = Self::at(A::DERIVE);
    /// `CKA_SIGN_RECOVER`
    pub(crate) const SIGN_RECOVER: Self = Self::at(A::SIGN_RECOVER);
    /// `CKA_VERIFY_RECOVER`
    pub(crate) const VERIFY_RECOVER: Self = Self::at(A::VERIFY_RECOVER);
    /// `CKA_ENCAPSULATE`
    pub(crate) const ENCAPSULATE: Self = Self::at(A::ENCAPSULATE);
    /// `CKA_DECAPSULATE`
    pub(crate) const DECAPSULATE: Self = Self::at(A::DECAPSULATE);
    /// `CKA_WRAP_WITH_TRUSTED`
    pub(crate) const WRAP_WITH_TRUSTED: Self = Self::at(A::WRAP_WITH_TRUSTED);
    /// `CKA_TRUSTED`
    pub(crate) const TRUSTED: Self = Self::at(A::TRUSTED);
    /// `CKA_ALWAYS_SENSITIVE`
    pub(crate) const ALWAYS_SENSITIVE: Self = Self::at(A::ALWAYS_SENSITIVE);
    /// `CKA_NEVER_EXTRACTABLE`
    pub(crate) const NEVER_EXTRACTABLE: Self = Self::at(A::NEVER_EXTRACTABLE);
    /// `CKA_OTP_USER_FRIENDLY_MODE`
    pub(crate) const OTP_USER_FRIENDLY_MODE: Self = Self::at(A::OTP_USER_FRIENDLY_MODE);
    /// `CKA_ALWAYS_AUTHENTICATE`
    pub(crate) const ALWAYS_AUTHENTICATE: Self = Self::at(A::ALWAYS_AUTHENTICATE);

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

    /// Sets a flag.
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
