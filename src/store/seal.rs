//! The stored form of objects and of the token key.
//!
//! A record is `format (1) | kind (1) | nonce | body`. The [format](Format) determines the
//! algorithms. The cipher under the token key authenticates the whole record, together with the
//! token's serial number and the record's number. So a record cannot be changed, and cannot replace
//! another record.
//!
//! The body of a private object is encrypted. The body of a public object is readable without a
//! login, and the next login verifies its tag. (So a token object can only be written while the
//! user or the SO is logged in.) Some public objects are private or secret keys. Their secret
//! attributes are encrypted and the others are readable, so that no key is stored in clear.
//!
//! The token key is wrapped under the SO PIN and, if it is set, under the user PIN. Each wrapping
//! uses a KDF with its own salt and parameters.

pub mod algorithms;
pub(crate) mod index;
pub(in crate::store) mod inspection;
pub mod pin_record;
pub mod record;
pub(crate) mod sealing_key;
pub mod summary;

use jeton_secret::Secret;
use subtle::ConstantTimeEq;
use tracing::error;

use self::algorithms::{AEAD_KEY, KdfRun, PinCost, TAG};
use self::index::{INDEXER_KEY, Indexer};
use self::pin_record::{PinRecord, role_byte};
use self::record::{
    Kind, LONGEST_RECORD, PublicKeyRecord, decode, decode_into, encode, head_len, is_sealed, tag,
};
use self::sealing_key::SealingKey;
use self::summary::{ROW_HASH_KEY, RowHasher, Summary};
use crate::backend::Provider;
use crate::config::{Format, PinRules};
use crate::error::{Error, Result, require};
use crate::object::Attributes;
use crate::store::{Change, Role, Row};

/// The token key consists of the AEAD key, the key of the indexer and the key of row hashes.
const KEY: usize = AEAD_KEY + INDEXER_KEY + ROW_HASH_KEY;

/// Returns random bytes from the operating system, or from the validated module.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    fill_random(&mut bytes)?;
    Ok(bytes)
}

/// Like [`random`], for a secret.
pub(crate) fn fill_random(bytes: &mut [u8]) -> Result<()> {
    if cfg!(feature = "fips") {
        return Provider::ALL[0].random.fill(bytes);
    }
    getrandom::fill(bytes).map_err(|reason| {
        error!("no random bytes: {reason}");
        Error::DeviceError
    })
}

pub(crate) struct TokenKey {
    format: Format,
    bytes: Secret,
    indexer: Indexer,
    row_hasher: RowHasher,
}

impl TokenKey {
    /// Generates a token key.
    pub(crate) fn generate(format: Format) -> Result<Self> {
        let mut key = Secret::zeroed(KEY);
        fill_random(&mut key)?;
        Self::new(format, key).ok_or(Error::GeneralError)
    }

    fn new(format: Format, bytes: Secret) -> Option<Self> {
        let (indexer, row_hasher) = bytes.get(AEAD_KEY..)?.split_at_checked(INDEXER_KEY)?;
        let indexer = Indexer::new(format, indexer.try_into().ok()?);
        let row_hasher = RowHasher::new(format, row_hasher.try_into().ok()?);
        Some(Self { format, bytes, indexer, row_hasher })
    }

    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Fails with `DeviceError` if the other PIN record of the token contains another key, because
    /// an older record was put back.
    pub(crate) fn expect_same(&self, serial: &str, other: &Self) -> Result<()> {
        require(self.bytes[..].ct_eq(&other.bytes).into(), Error::DeviceError).inspect_err(|_| {
            error!(token = serial, "the PIN records were altered on disk: they contain different keys");
        })
    }

    fn aead(&self) -> Cipher<'_> {
        Cipher { format: self.format, key: &self.bytes[..AEAD_KEY] }
    }

    /// Returns the indexer for private objects.
    pub(crate) fn indexer(&self) -> &Indexer {
        &self.indexer
    }

    pub(crate) fn row_hasher(&self) -> &RowHasher {
        &self.row_hasher
    }

    pub(crate) fn seal_summary(&self, serial: &str, summary: &Summary) -> Result<Vec<u8>> {
        if self.format == Format::Fips && summary.sealed > MOST_SEALED {
            error!(token = serial, "the token key has encrypted as much as it may: jeton rekey");
            return Err(Error::DeviceError);
        }
        self.aead().seal(SUMMARY, &[], serial.as_bytes(), &summary.encode()?)
    }

    /// Opens the summary with this change number; `None` if it was altered or has another number.
    pub(crate) fn open_summary(&self, serial: &str, change: Change, sealed: &[u8]) -> Option<Summary> {
        let opened = self.aead().open(&[], serial.as_bytes(), sealed)?;
        let right = sealed.get(1) == Some(&SUMMARY);
        Summary::decode(&opened).filter(|summary| right && summary.change == change.0)
    }

    /// Seals an object as the record with this number. Returns the record and its row. `open`
    /// computes the index keys of public objects.
    pub(crate) fn seal(
        &self,
        serial: &str,
        id: i64,
        attributes: &Attributes,
        open: &Indexer,
    ) -> Result<(Row, Vec<u8>)> {
        let kind = Kind::for_object(attributes);
        let private = kind == Kind::Private;
        let context = context(serial, id);
        let record = match kind {
            Kind::Private => self.aead().seal(kind.byte(), &[], &context, &encode(attributes, |_| true)?)?,
            Kind::Public => {
                let body = encode(attributes, |_| true)?;
                let tag = self.aead().seal(kind.byte(), &body, &context, &[])?;
                [&tag[..], &body[..]].concat()
            }
            Kind::PublicKey => {
                let body = encode(attributes, |id| !is_sealed(id, attributes.object_type()))?;
                let len = u32::try_from(body.len()).map_err(|_| Error::GeneralError)?;
                let readable = [&len.to_le_bytes(), &body[..]].concat();
                let secret = encode(attributes, |id| is_sealed(id, attributes.object_type()))?;
                let sealed = self.aead().seal(kind.byte(), &readable, &context, &secret)?;
                let (head, sealed) = sealed.split_at(head_len(self.format));
                [head, &readable, sealed].concat()
            }
        };
        if record.len() > LONGEST_RECORD {
            error!(
                token = serial,
                bytes = record.len(),
                most = LONGEST_RECORD,
                "an object is too large to store"
            );
            return Err(Error::DeviceMemory);
        }
        let index_keys = if private { &self.indexer } else { open }.index_keys(attributes);
        let tag = tag(&record).ok_or(Error::GeneralError)?;
        Ok((Row { id, private, tag, index_keys }, record))
    }

    /// Opens and verifies a record; `None` if it was altered.
    pub(crate) fn open(&self, serial: &str, id: i64, record: &[u8]) -> Option<Attributes> {
        let context = context(serial, id);
        match Kind::of(record)? {
            Kind::Private => decode(&self.aead().open(&[], &context, record)?),
            Kind::Public => {
                let (tag, body) = record.split_at_checked(head_len(self.format) + TAG)?;
                self.aead().open(body, &context, tag)?;
                decode(body)
            }
            Kind::PublicKey => {
                let PublicKeyRecord { head, readable, body, sealed } = PublicKeyRecord::of(record)?;
                let secret = self.aead().open(readable, &context, &[head, sealed].concat())?;
                let mut attributes = decode(body)?;
                decode_into(&mut attributes, &secret)?;
                Some(attributes)
            }
        }
    }

    /// Wraps the key under a PIN, and also under a sealing key if there is one. `old` is a record
    /// with the same PIN: its salt stays, and with it the [mark](pin_mark). A salt has to differ
    /// between PINs only.
    pub(crate) fn wrap(
        &self,
        serial: &str,
        role: Role,
        pin: &[u8],
        rules: &PinRules,
        sealing: Option<&SealingKey>,
        old: Option<&[u8]>,
    ) -> Result<Vec<u8>> {
        let salt = match old {
            Some(old) => PinRecord::decode(old).ok_or(Error::TokenNotRecognized)?.salt,
            None => random()?,
        };
        let cost = PinCost::of_new(self.format, rules)?;
        let sealing_id = sealing.map(SealingKey::id);
        let mut record = PinRecord { cost, salt, wrapped: Vec::new(), sealing: sealing_id };
        let key = KdfRun::start(cost)?.derive(pin, sealing, &salt)?;
        let cipher = Cipher { format: self.format, key: &key };
        record.wrapped = cipher.seal(role_byte(role), &[], &record.context(serial), &self.bytes)?;
        record.encode()
    }

    /// Reads a PIN record and allocates the memory for one attempt. A damaged record and a lack of
    /// memory are detected here. So the caller counts a failure after this call and before
    /// [`Unwrapping::open`].
    pub(crate) fn prepare(role: Role, record: &[u8], sealing: Option<SealingKey>) -> Result<Unwrapping> {
        let record = PinRecord::decode(record).ok_or_else(|| {
            error!(?role, "the PIN record is damaged");
            Error::TokenNotRecognized
        })?;
        let kdf = KdfRun::start(record.cost)?;
        Ok(Unwrapping { role, record, sealing, kdf })
    }
}

/// A PIN record and a run of its KDF, ready for one attempt.
pub(crate) struct Unwrapping {
    role: Role,
    record: PinRecord,
    sealing: Option<SealingKey>,
    kdf: KdfRun,
}

impl Unwrapping {
    /// Tries a PIN. Fails with `PinIncorrect` if it is wrong or the record was altered, which
    /// cannot be distinguished.
    pub(crate) fn open(self, serial: &str, pin: &[u8]) -> Result<TokenKey> {
        let Self { role, record, sealing, kdf } = self;
        let key = kdf.derive(pin, sealing.as_ref(), &record.salt)?;
        let wrapped = &record.wrapped;
        let byte = wrapped.get(1).copied();
        let format = record.cost.format();
        let opened = Cipher { format, key: &key }.open(&[], &record.context(serial), wrapped);
        let opened = opened.filter(|key| key.len() == KEY && byte == Some(role_byte(role)));
        opened.and_then(|key| TokenKey::new(format, key)).ok_or(Error::PinIncorrect)
    }
}

/// The largest number of records and summaries that a token key of [`Format::Fips`] encrypts. SP
/// 800-38D, 8.3, permits 2^32 random nonces. The others are for commits that were not completed.
const MOST_SEALED: u64 = 1 << 31;

/// The kind byte of a sealed summary.
const SUMMARY: u8 = 32;

fn context(serial: &str, id: i64) -> Vec<u8> {
    [&id.to_le_bytes(), serial.as_bytes()].concat()
}

/// A key, and the format that determines its cipher.
struct Cipher<'a> {
    format: Format,
    key: &'a [u8],
}

impl Cipher<'_> {
    /// Returns `format | kind | nonce | ciphertext and tag`. The tag also authenticates the format,
    /// the kind, the context and `open`.
    fn seal(&self, kind: u8, open: &[u8], context: &[u8], hidden: &[u8]) -> Result<Vec<u8>> {
        let head = [self.format as u8, kind];
        let sealed = self.format.seal(self.key, &[&head, context, open].concat(), hidden)?;
        Ok([&head[..], &sealed].concat())
    }

    fn open(&self, open: &[u8], context: &[u8], sealed: &[u8]) -> Option<Secret> {
        let (head, sealed) = sealed.split_at_checked(2)?;
        self.format.open(self.key, &[head, context, open].concat(), sealed)
    }
}

#[cfg(test)]
mod tests {
    use super::pin_record::SALT;
    use super::record::{is_clear_key, peek};
    use super::*;
    use crate::id::{AttributeType, KeyType, ObjectClass};
    use crate::object::attribute::{ObjectRules, ObjectTypes};
    use crate::object::value::Value;

    const RULES: PinRules =
        PinRules { min_length: 4, max_length: 64, retries: 3, memory_kib: 8, passes: 1, uncounted_delay: 0 };

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

    const FORMATS: [Format; 2] = [Format::Standard, Format::Fips];

    fn public_indexer() -> Indexer {
        Indexer::new(Format::Standard, b"0123456789abcdef")
    }

    fn unwrap(
        serial: &str,
        role: Role,
        pin: &[u8],
        record: &[u8],
        sealing: Option<SealingKey>,
    ) -> Result<TokenKey> {
        TokenKey::prepare(role, record, sealing)?.open(serial, pin)
    }

    /// The heap kept these blocks: one for each thread, and glibc keeps up to eight heaps for each
    /// processor.
    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_of_argon2id_goes_back_to_the_system() {
        const MIB: usize = 1 << 20;
        const ALONE: &str = "JETON_TEST_ALONE";
        // In a process of its own: other tests of this program have records of 64 MiB meanwhile.
        if std::env::var_os(ALONE).is_none() {
            let name = std::thread::current().name().expect("the name of the test").to_owned();
            let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
            let child = child.args([&*name, "--exact", "--nocapture"]).env(ALONE, "1");
            assert!(child.status().is_ok_and(|status| status.success()));
            return;
        }
        let resident = || {
            let pages = std::fs::read_to_string("/proc/self/statm").expect("a proc file system");
            let pages = pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok());
            pages.expect("a number of pages") * rustix::param::page_size()
        };
        let rules = PinRules { memory_kib: 19 * 1024, ..RULES };
        let key = TokenKey::generate(Format::Standard).expect("a key");
        let before = resident();
        let all_done = std::sync::Barrier::new(16);
        let left = std::thread::scope(|scope| {
            let log_in = || {
                for _ in 0..2 {
                    key.wrap("serial", Role::User, b"1234", &rules, None, None).expect("wrapped");
                }
                // A thread that has ended would leave its heap to the next one.
                all_done.wait();
                let left = resident().saturating_sub(before);
                all_done.wait();
                left
            };
            let threads: Vec<_> = (0..16).map(|_| scope.spawn(log_in)).collect();
            threads.into_iter().map(|thread| thread.join().expect("a thread")).min()
        });
        assert!(left.is_some_and(|left| left < 100 * MIB), "{} MiB are left", left.unwrap_or(0) / MIB);
    }

    /// An AES key with `CKA_PRIVATE` false.
    fn public_key() -> Attributes {
        let mut attributes = object(false);
        attributes.put(AttributeType::CLASS, Value::Number(ObjectClass::SECRET_KEY.0));
        attributes.put(AttributeType::KEY_TYPE, Value::Number(KeyType::AES.0));
        attributes.put(AttributeType::VALUE, Value::Bytes(b"sixteen secret b".as_slice().into()));
        attributes
    }

    #[test]
    fn an_object_with_a_longer_record_than_a_store_reads_is_refused() {
        let key = TokenKey::generate(Format::Standard).expect("random bytes");
        let mut attributes = object(false);
        attributes.put(AttributeType::VALUE, Value::Bytes(vec![0; LONGEST_RECORD].as_slice().into()));
        let sealed = key.seal("serial", 1, &attributes, &public_indexer());
        assert_eq!(sealed.err(), Some(Error::DeviceMemory));
    }

    #[test]
    fn a_clear_record_of_a_key_shows_no_secret_before_a_login() {
        let key = TokenKey::generate(Format::Standard).expect("random bytes");
        let body = encode(&public_key(), |_| true).expect("encoded");
        let head = key.aead().seal(Kind::Public.byte(), &body, &context("serial", 7), &[]).expect("sealed");
        let record = [&head[..], &body].concat();
        assert!(!peek(&record).expect("readable").has(AttributeType::VALUE));
        let opened = key.open("serial", 7, &record).expect("opened");
        assert!(opened.has(AttributeType::VALUE) && is_clear_key(&record, &opened));
        let (_, record) = key.seal("serial", 7, &opened, &public_indexer()).expect("sealed");
        assert!(!is_clear_key(&record, &opened));
    }

    #[test]
    fn secret_attributes_have_no_index_key() {
        for (_, _, object_type) in ObjectTypes::known() {
            for id in [AttributeType::CHECK_VALUE].iter().chain(&ObjectRules::of(object_type).secret) {
                let value = Value::Bytes(b"secret".as_slice().into());
                assert!(public_indexer().index_key(*id, &value).is_none(), "{id}");
            }
        }
    }

    #[test]
    fn any_flipped_bit_is_found() {
        for format in FORMATS {
            let key = TokenKey::generate(format).expect("random bytes");
            for object in [object(false), object(true), public_key()] {
                let (row, record) = key.seal("serial", 7, &object, &public_indexer()).expect("sealed");
                assert!(key.open("serial", 7, &record).is_some() && tag(&record) == Some(row.tag));
                let private = row.private;
                for at in 0..record.len() * 8 {
                    let mut altered = record.clone();
                    altered[at / 8] ^= 1 << (at % 8);
                    assert!(key.open("serial", 7, &altered).is_none(), "{format:?}, {private}, bit {at}");
                }
            }
        }
    }

    #[test]
    fn a_token_key_of_the_fips_format_encrypts_a_limited_number_of_records() {
        for (format, can_seal) in FORMATS.into_iter().zip([true, false]) {
            let key = TokenKey::generate(format).expect("random bytes");
            let mut summary = Summary::empty(Change(3));
            summary.sealed = MOST_SEALED;
            let sealed = key.seal_summary("serial", &summary).expect("sealed");
            summary = key.open_summary("serial", Change(3), &sealed).expect("opened");
            assert_eq!(key.seal_summary("serial", &summary).is_ok(), can_seal);
        }
    }

    #[test]
    fn a_summary_opens_only_for_its_token_and_change_number() {
        let key = TokenKey::generate(Format::Standard).expect("random bytes");
        let sealed = key.seal_summary("serial", &Summary::empty(Change(3))).expect("sealed");
        assert!(key.open_summary("serial", Change(3), &sealed).is_some());
        assert!(key.open_summary("serial", Change(4), &sealed).is_none());
        assert!(key.open_summary("other", Change(3), &sealed).is_none());
        let other = TokenKey::generate(Format::Standard).expect("random bytes");
        assert!(other.open_summary("serial", Change(3), &sealed).is_none());
    }

    /// Returns a public record with this body, which no key authenticates.
    fn readable(body: &[u8]) -> Vec<u8> {
        [&[1, Kind::Public.byte()], &[0; 24 + TAG][..], body].concat()
    }

    #[test]
    fn templates_nest_four_levels_deep_and_not_deeper() {
        // One attribute that is a template of one attribute, and so on. The innermost template is
        // empty.
        let nested = |depth: usize| readable(&[&[1, 17, 4].repeat(depth)[..], &[0]].concat());
        assert!(peek(&nested(4)).is_some());
        // A recursive reader without a limit would overflow the stack.
        for depth in [6, 1000, 1 << 20] {
            assert!(peek(&nested(depth)).is_none(), "{depth}");
        }
    }

    #[test]
    fn a_pin_record_that_requests_too_much_memory_is_damaged() {
        let asking = |memory_kib, passes| {
            let record = (memory_kib, passes, [0; SALT], vec![0; 64]);
            let record = postcard::to_allocvec(&record).expect("encoded");
            unwrap("serial", Role::User, b"1234", &record, None).err()
        };
        assert_eq!(asking(8, 1), Some(Error::PinIncorrect));
        for (memory_kib, passes) in [(u32::MAX, 1), ((1 << 20) + 1, 1), (8, u32::MAX), (8, 0), (0, 599_999)] {
            assert_eq!(asking(memory_kib, passes), Some(Error::TokenNotRecognized));
        }
    }

    #[test]
    fn a_pin_opens_only_its_own_record() {
        for format in FORMATS {
            let key = TokenKey::generate(format).expect("random bytes");
            let record = key.wrap("serial", Role::User, b"1234", &RULES, None, None).expect("wrapped");
            let opened = unwrap("serial", Role::User, b"1234", &record, None).expect("unwrapped");
            assert!(opened.bytes[..] == key.bytes[..] && opened.format == format);
            for (serial, role, pin) in [
                ("serial", Role::User, &b"1235"[..]),
                ("serial", Role::User, b"1234\0"),
                ("serial", Role::SecurityOfficer, b"1234"),
                ("other", Role::User, b"1234"),
            ] {
                assert_eq!(unwrap(serial, role, pin, &record, None).err(), Some(Error::PinIncorrect));
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_token_key_is_locked_and_excluded_from_core_dumps() {
        let key = TokenKey::generate(Format::Standard).expect("a key");
        for bytes in [&key.bytes[..], key.indexer.key(), key.row_hasher.key()] {
            jeton_secret::assert_protected(bytes);
        }
    }
}
