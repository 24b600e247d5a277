//! The form of an object and of the token key at rest.
//!
//! A record is `format (1) | kind (1) | nonce (24) | body`. XChaCha20-Poly1305 under the token key authenticates
//! all of it together with the token's serial and the record's number, so that no record can be changed or take
//! another's place. A private object's body is encrypted; a public one's is readable without a login, its tag is
//! verified at the next one. (So a token object is made only while somebody is logged in.)
//!
//! The token key is wrapped once under the SO PIN and once under the user PIN, each through Argon2id with its own
//! salt and parameters.

use argon2::{Algorithm, Argon2, Params, Version};
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use serde::{Deserialize, Serialize};
use tracing::error;

use super::index::{NAMER_KEY, Namer};
use super::summary::{MARK_KEY, Marker, Summary};
use super::{Change, Role, Row, Tag};
use crate::config::PinRules;
use crate::error::{Error, Result};
use crate::id::AttributeType;
use crate::object::Attributes;
use crate::object::value::Value;
use crate::secret::{CIPHER_DEPTH, Secret, wipe_stack};

const FORMAT: u8 = 1;
const NONCE: usize = 24;
/// The key of the AEAD, that of names and that of marks.
const KEY: usize = AEAD_KEY + NAMER_KEY + MARK_KEY;
const AEAD_KEY: usize = 32;
const SALT: usize = 16;
const TAG: usize = 16;

/// How a record is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Encrypted.
    Private,
    /// Readable, authenticated.
    Public,
}

impl Kind {
    const ALL: [(u8, Kind); 2] = [(1, Kind::Private), (2, Kind::Public)];

    /// The kind of a record; `None` where it is none of this version.
    pub fn of(record: &[u8]) -> Option<Self> {
        let [FORMAT, kind, ..] = record else { return None };
        Self::ALL.iter().find(|(byte, _)| byte == kind).map(|(_, kind)| *kind)
    }

    fn byte(self) -> u8 {
        match self {
            Self::Private => 1,
            Self::Public => 2,
        }
    }
}

/// Fresh random bytes of the operating system.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

fn fill_random(bytes: &mut [u8]) -> Result<()> {
    getrandom::fill(bytes).map_err(|reason| {
        error!("no random bytes: {reason}");
        Error::DeviceError
    })
}

/// The key of a token.
pub struct TokenKey {
    bytes: Secret,
    namer: Namer,
    marker: Marker,
}

impl TokenKey {
    /// A new one.
    pub fn generate() -> Result<Self> {
        let mut key = Secret::zeroed(KEY);
        fill_random(&mut key)?;
        Self::new(key).ok_or(Error::GeneralError)
    }

    fn new(bytes: Secret) -> Option<Self> {
        let (namer, marker) = bytes.get(AEAD_KEY..)?.split_at_checked(NAMER_KEY)?;
        let (namer, marker) = (Namer::new(namer.try_into().ok()?), Marker::new(marker.try_into().ok()?));
        Some(Self { bytes, namer, marker })
    }

    fn aead(&self) -> &[u8] {
        &self.bytes[..AEAD_KEY]
    }

    /// The names of private objects.
    pub fn namer(&self) -> &Namer {
        &self.namer
    }

    /// The marks of rows.
    pub fn marker(&self) -> &Marker {
        &self.marker
    }

    /// Seals the summary of a token's rows.
    pub fn seal_summary(&self, serial: &str, summary: &Summary) -> Result<Vec<u8>> {
        seal(self.aead(), SUMMARY, &[], serial.as_bytes(), &summary.encode()?)
    }

    /// Opens the summary that is of this change; `None` where it was altered.
    pub fn open_summary(&self, serial: &str, change: Change, sealed: &[u8]) -> Option<Summary> {
        let opened = open(self.aead(), &[], serial.as_bytes(), sealed)?;
        let right = sealed.get(1) == Some(&SUMMARY);
        Summary::decode(&opened).filter(|summary| right && summary.change == change.0)
    }

    /// Seals an object as the record of that number, with the row that goes with it. Names of public objects are by
    /// `open`.
    pub fn seal(
        &self,
        serial: &str,
        id: i64,
        attributes: &Attributes,
        open: &Namer,
    ) -> Result<(Row, Vec<u8>)> {
        let private = attributes.flag(AttributeType::PRIVATE) == Some(true);
        let body = encode(attributes)?;
        let record = if private {
            seal(self.aead(), Kind::Private.byte(), &[], &context(serial, id), &body)?
        } else {
            let tag = seal(self.aead(), Kind::Public.byte(), &body, &context(serial, id), &[])?;
            [&tag[..], &body[..]].concat()
        };
        let names = if private { &self.namer } else { open }.names(attributes);
        let tag = tag(&record).ok_or(Error::GeneralError)?;
        Ok((Row { id, private, tag, names }, record))
    }

    /// Opens and verifies a record; `None` where it was altered.
    pub fn open(&self, serial: &str, id: i64, record: &[u8]) -> Option<Attributes> {
        match Kind::of(record)? {
            Kind::Private => decode(&open(self.aead(), &[], &context(serial, id), record)?),
            Kind::Public => {
                let (tag, body) = record.split_at_checked(2 + NONCE + TAG)?;
                open(self.aead(), body, &context(serial, id), tag)?;
                decode(body)
            }
        }
    }

    /// Wraps the key under a PIN.
    pub fn wrap(&self, serial: &str, role: Role, pin: &[u8], rules: &PinRules) -> Result<Vec<u8>> {
        let mut record = PinRecord {
            memory_kib: rules.memory_kib,
            passes: rules.passes,
            salt: random::<SALT>()?,
            wrapped: Vec::new(),
        };
        let key = record.derive(pin)?;
        record.wrapped = seal(&key, role_byte(role), &[], &record.context(serial), &self.bytes)?;
        postcard::to_allocvec(&record).map_err(|_| Error::GeneralError)
    }

    /// Unwraps the key; `PinIncorrect` where the PIN is wrong (or the record was altered, which looks the same).
    pub fn unwrap(serial: &str, role: Role, pin: &[u8], record: &[u8]) -> Result<Self> {
        let record = PinRecord::decode(record).ok_or_else(|| {
            error!(?role, "the PIN record is damaged");
            Error::TokenNotRecognized
        })?;
        let key = record.derive(pin)?;
        let byte = record.wrapped.get(1).copied();
        let opened = open(&key, &[], &record.context(serial), &record.wrapped);
        let opened = opened.filter(|key| key.len() == KEY && byte == Some(role_byte(role)));
        opened.and_then(Self::new).ok_or(Error::PinIncorrect)
    }
}

/// What a PIN's record is to be made anew with: the greater of its own parameters and the rules'. `None` where it is as strong
/// as they want.
pub fn stronger(record: &[u8], rules: &PinRules) -> Option<PinRules> {
    let PinRecord { memory_kib, passes, .. } = postcard::from_bytes(record).ok()?;
    let weak = memory_kib < rules.memory_kib || passes < rules.passes;
    weak.then(|| PinRules {
        memory_kib: memory_kib.max(rules.memory_kib),
        passes: passes.max(rules.passes),
        ..*rules
    })
}

/// The tag of a record.
pub fn tag(record: &[u8]) -> Option<Tag> {
    match Kind::of(record)? {
        Kind::Private => record.last_chunk().copied(),
        Kind::Public => record.get(2 + NONCE..)?.first_chunk().copied(),
    }
}

/// Reads a record that is no secret, without verifying it; `None` where it is private or malformed.
pub fn peek(record: &[u8]) -> Option<Attributes> {
    match Kind::of(record)? {
        Kind::Private => None,
        Kind::Public => decode(record.get(2 + NONCE + TAG..)?),
    }
}

/// A wrapped token key with what is needed to unwrap it.
#[derive(Serialize, Deserialize)]
struct PinRecord {
    memory_kib: u32,
    passes: u32,
    salt: [u8; SALT],
    wrapped: Vec<u8>,
}

impl PinRecord {
    /// `None` where it is none, or asks for what none is made with.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let record: Self = postcard::from_bytes(bytes).ok()?;
        let fits =
            PinRules::MEMORY_KIB.contains(&record.memory_kib) && PinRules::PASSES.contains(&record.passes);
        fits.then_some(record)
    }

    fn derive(&self, pin: &[u8]) -> Result<Secret> {
        let mut key = Secret::zeroed(AEAD_KEY);
        let params = Params::new(self.memory_kib, self.passes, 1, Some(AEAD_KEY));
        params
            .and_then(|params| {
                Argon2::new(Algorithm::Argon2id, Version::V0x13, params)
                    .hash_password_into(pin, &self.salt, &mut key)
            })
            .map_err(|reason| {
                error!("Argon2id: {reason}");
                Error::DeviceError
            })?;
        Ok(key)
    }

    fn context(&self, serial: &str) -> Vec<u8> {
        [&self.memory_kib.to_le_bytes(), &self.passes.to_le_bytes(), &self.salt[..], serial.as_bytes()]
            .concat()
    }
}

/// What a sealed summary begins with, after the format.
const SUMMARY: u8 = 32;

const fn role_byte(role: Role) -> u8 {
    match role {
        Role::Officer => 16,
        Role::User => 17,
    }
}

fn context(serial: &str, id: i64) -> Vec<u8> {
    [&id.to_le_bytes(), serial.as_bytes()].concat()
}

/// `format | kind | nonce | ciphertext and tag`; the first two, the context and `open` are authenticated with it.
fn seal(key: &[u8], kind: u8, open: &[u8], context: &[u8], hidden: &[u8]) -> Result<Vec<u8>> {
    let nonce: [u8; NONCE] = random()?;
    let aad = [&[FORMAT, kind], context, open].concat();
    let sealed = cipher(key)
        .ok_or(Error::GeneralError)?
        .encrypt(&XNonce::from(nonce), Payload { msg: hidden, aad: &aad })
        .map_err(|_| Error::GeneralError);
    wipe_stack::<CIPHER_DEPTH>();
    let sealed = sealed?;
    Ok([&[FORMAT, kind], &nonce[..], &sealed].concat())
}

fn open(key: &[u8], open: &[u8], context: &[u8], sealed: &[u8]) -> Option<Secret> {
    let (head, rest) = sealed.split_at_checked(2)?;
    let (nonce, body) = rest.split_at_checked(NONCE)?;
    let nonce: [u8; NONCE] = nonce.try_into().ok()?;
    let aad = [head, context, open].concat();
    // The cipher leaves blocks of what it opens there.
    let opened = cipher(key)?.decrypt(&XNonce::from(nonce), Payload { msg: body, aad: &aad });
    wipe_stack::<CIPHER_DEPTH>();
    opened.ok().map(Secret::new)
}

fn cipher(key: &[u8]) -> Option<XChaCha20Poly1305> {
    XChaCha20Poly1305::new_from_slice(key).ok()
}

/// A value as it is written: numbers of 64 bits whatever the platform. `T` is the same one level deeper: the type says
/// how deep templates may lie in templates, for a reader without such a limit comes to the end of its stack.
#[derive(Serialize, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
enum Written<'a, T> {
    Flag(bool),
    Number(u64),
    #[serde(borrow)]
    Bytes(&'a [u8]),
    Numbers(Vec<u64>),
    Template(Vec<(u64, T)>),
}

/// No value: below the deepest template there is none.
#[derive(Serialize, Deserialize)]
enum Nothing {}

/// The value of an attribute: with templates in it, four levels of them.
type Whole<'a> = Written<'a, Written<'a, Written<'a, Written<'a, Written<'a, Nothing>>>>>;

/// A level of templates.
trait Level<'a>: Sized {
    /// `None` where a value has more levels.
    fn write(value: &'a Value) -> Option<Self>;

    fn revive(self) -> Value;
}

impl<'a> Level<'a> for Nothing {
    fn write(_: &'a Value) -> Option<Self> {
        None
    }

    fn revive(self) -> Value {
        match self {}
    }
}

impl<'a, T: Level<'a>> Level<'a> for Written<'a, T> {
    fn write(value: &'a Value) -> Option<Self> {
        Some(match value {
            Value::Flag(flag) => Self::Flag(*flag),
            Value::Number(number) => Self::Number(*number),
            Value::Bytes(bytes) => Self::Bytes(bytes),
            Value::Numbers(numbers) => Self::Numbers(numbers.clone()),
            Value::Template(inner) => {
                let inner = inner.iter().map(|(id, value)| Some((id.0, T::write(value)?)));
                Self::Template(inner.collect::<Option<_>>()?)
            }
        })
    }

    fn revive(self) -> Value {
        match self {
            Self::Flag(flag) => Value::Flag(flag),
            Self::Number(number) => Value::Number(number),
            Self::Bytes(bytes) => Value::Bytes(bytes.into()),
            Self::Numbers(numbers) => Value::Numbers(numbers),
            Self::Template(inner) => Value::Template(
                inner.into_iter().map(|(id, value)| (AttributeType(id), value.revive())).collect(),
            ),
        }
    }
}

fn encode(attributes: &Attributes) -> Result<Secret> {
    let flags = attributes.flags().map(|(id, flag)| Some((id.0, Whole::Flag(flag))));
    let values = attributes.iter().map(|(id, value)| Some((id.0, Whole::write(value)?)));
    let written: Vec<_> = flags.chain(values).collect::<Option<_>>().ok_or(Error::GeneralError)?;
    let size = postcard::experimental::serialized_size(&written).map_err(|_| Error::GeneralError)?;
    let mut out = Secret::zeroed(size);
    postcard::to_slice(&written, &mut out).map_err(|_| Error::GeneralError)?;
    Ok(out)
}

fn decode(bytes: &[u8]) -> Option<Attributes> {
    let (written, rest): (Vec<(u64, Whole<'_>)>, _) = postcard::take_from_bytes(bytes).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let mut attributes = Attributes::default();
    written.into_iter().for_each(|(id, value)| attributes.put(AttributeType(id), value.revive()));
    Some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: PinRules = PinRules { min_length: 4, max_length: 64, retries: 3, memory_kib: 8, passes: 1 };

    fn object(private: bool) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.put(AttributeType::PRIVATE, Value::Flag(private));
        attributes.put(AttributeType::CLASS, Value::Number(0));
        attributes.put(AttributeType::LABEL, Value::Bytes(b"a label".as_slice().into()));
        attributes.put(AttributeType::ALLOWED_MECHANISMS, Value::Numbers(vec![1, u64::MAX]));
        let inner = vec![(AttributeType::SENSITIVE, Value::Flag(true))];
        attributes.put(AttributeType::WRAP_TEMPLATE, Value::Template(inner));
        attributes
    }

    fn open_namer() -> Namer {
        Namer::new(b"0123456789abcdef")
    }

    fn same(a: &Attributes, b: &Attributes) -> bool {
        a.flags().eq(b.flags())
            && a.iter().count() == b.iter().count()
            && a.iter().zip(b.iter()).all(|((i, x), (j, y))| i == j && x.equals(y))
    }

    #[test]
    fn what_was_sealed_opens_again() {
        let key = TokenKey::generate().expect("random bytes");
        for private in [false, true] {
            let (row, record) = key.seal("serial", 7, &object(private), &open_namer()).expect("sealed");
            assert_eq!((row.id, row.private, Some(row.tag)), (7, private, tag(&record)));
            assert!(same(&key.open("serial", 7, &record).expect("opened"), &object(private)));
            assert_eq!(peek(&record).is_some(), !private);
            let label = record.windows(7).any(|window| window == b"a label");
            assert_eq!(label, !private);
        }
    }

    #[test]
    fn any_flipped_bit_is_seen() {
        let key = TokenKey::generate().expect("random bytes");
        for private in [false, true] {
            let (_, record) = key.seal("serial", 7, &object(private), &open_namer()).expect("sealed");
            for at in 0..record.len() * 8 {
                let mut altered = record.clone();
                altered[at / 8] ^= 1 << (at % 8);
                assert!(key.open("serial", 7, &altered).is_none(), "private {private}, bit {at}");
            }
        }
    }

    #[test]
    fn a_record_does_not_open_in_anothers_place() {
        let key = TokenKey::generate().expect("random bytes");
        let (_, record) = key.seal("serial", 7, &object(true), &open_namer()).expect("sealed");
        assert!(key.open("serial", 8, &record).is_none());
        assert!(key.open("other", 7, &record).is_none());
    }

    #[test]
    fn a_summary_is_of_its_token_and_its_change() {
        let key = TokenKey::generate().expect("random bytes");
        let sealed = key.seal_summary("serial", &Summary::empty(Change(3))).expect("sealed");
        assert!(key.open_summary("serial", Change(3), &sealed).is_some());
        assert!(key.open_summary("serial", Change(4), &sealed).is_none());
        assert!(key.open_summary("other", Change(3), &sealed).is_none());
        let other = TokenKey::generate().expect("random bytes");
        assert!(other.open_summary("serial", Change(3), &sealed).is_none());
    }

    /// A public record around these bytes, under no key.
    fn readable(body: &[u8]) -> Vec<u8> {
        [&[FORMAT, Kind::Public.byte()], &[0; NONCE + TAG][..], body].concat()
    }

    #[test]
    fn templates_lie_four_deep_and_no_deeper() {
        // One attribute that is a template of one attribute, and so on; the innermost has none.
        let nested = |depth: usize| readable(&[&[1, 17, 4].repeat(depth)[..], &[0]].concat());
        assert!(peek(&nested(4)).is_some());
        // A reader that went down with them would come to the end of its stack.
        for depth in [6, 1000, 1 << 20] {
            assert!(peek(&nested(depth)).is_none(), "{depth}");
        }
    }

    #[test]
    fn a_pin_record_that_asks_for_all_memory_is_damaged() {
        let asking = |memory_kib, passes| {
            let record = PinRecord { memory_kib, passes, salt: [0; SALT], wrapped: vec![0; 64] };
            let record = postcard::to_allocvec(&record).expect("encoded");
            TokenKey::unwrap("serial", Role::User, b"1234", &record).err()
        };
        assert_eq!(asking(8, 1), Some(Error::PinIncorrect));
        for (memory_kib, passes) in [(u32::MAX, 1), ((1 << 20) + 1, 1), (8, u32::MAX), (8, 0), (0, 1)] {
            assert_eq!(asking(memory_kib, passes), Some(Error::TokenNotRecognized));
        }
    }

    #[test]
    fn a_pin_opens_its_own_record_alone() {
        let key = TokenKey::generate().expect("random bytes");
        let record = key.wrap("serial", Role::User, b"1234", &RULES).expect("wrapped");
        let opened = TokenKey::unwrap("serial", Role::User, b"1234", &record).expect("unwrapped");
        assert_eq!(opened.bytes[..], key.bytes[..]);
        for (serial, role, pin) in [
            ("serial", Role::User, &b"1235"[..]),
            ("serial", Role::Officer, b"1234"),
            ("other", Role::User, b"1234"),
        ] {
            assert_eq!(TokenKey::unwrap(serial, role, pin, &record).err(), Some(Error::PinIncorrect));
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_key_of_a_token_is_locked_and_in_no_core_dump() {
        let key = TokenKey::generate().expect("a key");
        for bytes in [&key.bytes[..], key.namer.key(), key.marker.key()] {
            let (flags, refused) = crate::secret::flags_of(bytes);
            assert!(refused || [" lo ", " dd "].iter().all(|flag| flags.contains(flag)), "{flags}");
        }
    }
}
