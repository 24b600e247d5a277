//! Files in the format of age (<https://c2sp.org/age>), for X25519 recipients or a passphrase.
//!
//! Not here: plugins, SSH keys, hybrid keys, and the armor.

use std::fmt::{self, Display, Formatter};
use std::io::{self, BufRead, ErrorKind, Read, Write};
use std::str::FromStr;

use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{hkdf, hmac, rand};
use base64ct::{Base64Unpadded, Encoding};
use bech32::primitives::decode::CheckedHrpstring;
use bech32::{Bech32, ByteIterExt, Fe32IterExt, Hrp};
use scrypt::{Params, scrypt};
use zeroize::{Zeroize, Zeroizing};

/// The cost of a passphrase: 2^18 blocks of scrypt, 256 MiB, about a second. The program `age` uses
/// the same cost.
const WORK: u8 = 18;
/// The largest cost of a passphrase that is accepted: 1 GiB.
pub const MOST_WORK: u8 = 20;
/// The longest header in bytes. Each recipient needs 98 of them.
pub const LONGEST_HEADER: u64 = 256 << 10;
/// The largest number of lines in a header. Each recipient needs two.
pub const MOST_LINES: usize = 4096;
/// The first line of a file.
const VERSION: &str = "age-encryption.org/v1";
/// The length of an encrypted part of the content, without its tag.
const CHUNK: usize = 64 << 10;
const TAG: usize = 16;
/// The columns of the base64 in a header. The last line of a stanza is shorter.
const COLUMNS: usize = 64;
const X25519_INFO: &str = "age-encryption.org/v1/X25519";
const SCRYPT_SALT: &[u8] = b"age-encryption.org/v1/scrypt";

/// The human-readable parts of the texts of keys.
const RECIPIENT: Hrp = Hrp::parse_unchecked("age");
const IDENTITY: Hrp = Hrp::parse_unchecked("age-secret-key-");

type Secret = Zeroizing<[u8; 32]>;
pub struct FileKey(Zeroizing<[u8; 16]>);

/// Why a file could not be encrypted or decrypted.
#[derive(Debug)]
pub enum Failure {
    NotAge,
    /// The header exceeds [`LONGEST_HEADER`] or [`MOST_LINES`].
    TooLong,
    /// The passphrase costs 2^n blocks of scrypt, which is more than [`MOST_WORK`] allows.
    Work(u8),
    /// The file has no recipient with one of these keys.
    NoMatch,
    /// The MAC of the header is wrong.
    Altered,
    Io(io::Error),
    /// AWS-LC failed.
    Crypto,
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Unspecified> for Failure {
    fn from(_: Unspecified) -> Self {
        Self::Crypto
    }
}

/// The public key of a person who can decrypt a file (`age1...`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Recipient([u8; 32]);

impl FromStr for Recipient {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        unbech32(RECIPIENT, text).map(|key| Self(*key)).ok_or("invalid X25519 recipient of age")
    }
}

impl Display for Recipient {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&bech32(RECIPIENT, &self.0))
    }
}

/// The private key of a recipient.
pub struct Identity {
    key: PrivateKey,
    pub public: Recipient,
}

impl FromStr for Identity {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let key = Self::bytes(text).ok_or("invalid X25519 identity of age")?;
        Self::new(&key).map_err(|_| "invalid X25519 key")
    }
}

impl Identity {
    pub fn new(key: &[u8; 32]) -> Result<Self, Unspecified> {
        let key = PrivateKey::from_private_key(&X25519, key).map_err(|_| Unspecified)?;
        let public = key.compute_public_key()?.as_ref().try_into().map_err(|_| Unspecified)?;
        Ok(Self { key, public: Recipient(public) })
    }

    /// Makes a new key. Returns it, and its bytes.
    pub fn generate() -> Result<(Self, Secret), Unspecified> {
        let key = random()?;
        Ok((Self::new(&key)?, key))
    }

    /// Returns the bytes of a text (`AGE-SECRET-KEY-1...`). `None` if it is malformed.
    pub fn bytes(text: &str) -> Option<Secret> {
        unbech32(IDENTITY, text)
    }

    /// Returns the text of a key.
    pub fn text(key: &[u8; 32]) -> Zeroizing<String> {
        let mut text = Zeroizing::new(bech32(IDENTITY, key));
        text.make_ascii_uppercase();
        text
    }

    /// The key that encrypts the file key. `None` if the other key is of low order, so that their
    /// common secret is zero.
    fn wrapping_key(&self, other: [u8; 32], share: [u8; 32], recipient: [u8; 32]) -> Option<Secret> {
        let salt = [share, recipient].concat();
        let other = UnparsedPublicKey::new(&X25519, other);
        agree(&self.key, other, Unspecified, |secret| hkdf(secret, &salt, X25519_INFO)).ok()
    }
}

/// A part of a header, with the file key for one recipient.
struct Stanza {
    arguments: Vec<String>,
    body: Vec<u8>,
}

impl Stanza {
    fn for_recipient(recipient: &Recipient, file_key: &FileKey) -> Result<Self, Unspecified> {
        let (sender, _) = Identity::generate()?;
        let share = sender.public.0;
        let key = sender.wrapping_key(recipient.0, share, recipient.0).ok_or(Unspecified)?;
        Self::new(vec!["X25519".to_owned(), base64(&share)], &key, file_key)
    }

    fn for_passphrase(passphrase: &str, file_key: &FileKey) -> Result<Self, Unspecified> {
        let salt: Zeroizing<[u8; 16]> = random()?;
        let arguments = vec!["scrypt".to_owned(), base64(&*salt), WORK.to_string()];
        Self::new(arguments, &stretch(passphrase, &salt, WORK)?, file_key)
    }

    fn new(arguments: Vec<String>, key: &Secret, file_key: &FileKey) -> Result<Self, Unspecified> {
        let mut body = file_key.0.to_vec();
        // Each key encrypts one file key.
        cipher(key)?.seal_in_place_append_tag(nonce(0, false), Aad::empty(), &mut body)?;
        Ok(Self { arguments, body })
    }

    fn is_scrypt(&self) -> bool {
        self.arguments[0] == "scrypt"
    }

    /// Returns the file key, or `None` if the stanza is for another key.
    fn open_with(&self, identity: &Identity) -> Result<Option<FileKey>, Failure> {
        if self.arguments[0] != "X25519" {
            return Ok(None);
        }
        let [_, share] = &self.arguments[..] else { return Err(Failure::NotAge) };
        let share = unbase64(share).ok_or(Failure::NotAge)?;
        let key = identity.wrapping_key(share, share, identity.public.0).ok_or(Failure::NotAge)?;
        self.open(&key)
    }

    fn open_with_passphrase(&self, passphrase: &str) -> Result<Option<FileKey>, Failure> {
        let [_, salt, work] = &self.arguments[..] else { return Err(Failure::NotAge) };
        let salt = unbase64(salt).ok_or(Failure::NotAge)?;
        // `parse` accepts a sign and leading zeros.
        let is_canonical = work.starts_with(|first| matches!(first, '1'..='9'));
        match work.parse() {
            Ok(work) if is_canonical && work <= MOST_WORK => self.open(&stretch(passphrase, &salt, work)?),
            Ok(work) if is_canonical => Err(Failure::Work(work)),
            _ => Err(Failure::NotAge),
        }
    }

    fn open(&self, key: &Secret) -> Result<Option<FileKey>, Failure> {
        let mut body: Secret = Zeroizing::new(self.body.as_slice().try_into().map_err(|_| Failure::NotAge)?);
        let opened = cipher(key)?.open_in_place(nonce(0, false), Aad::empty(), &mut *body).ok();
        Ok(opened.and_then(|key| Some(FileKey(Zeroizing::new((&*key).try_into().ok()?)))))
    }
}

/// The header of a file, which was not authenticated yet.
pub struct Header {
    stanzas: Vec<Stanza>,
    /// The bytes that the MAC covers.
    signed: Vec<u8>,
    mac: [u8; 32],
}

impl Header {
    /// Reads a header, and leaves the input at its end.
    pub fn read(input: &mut impl BufRead) -> Result<Self, Failure> {
        let (mut text, mut input) = (Vec::new(), input.take(LONGEST_HEADER));
        for _ in 0..MOST_LINES {
            let start = text.len();
            let len = input.read_until(b'\n', &mut text)?;
            if start == 0 && text.strip_suffix(b"\n") != Some(VERSION.as_bytes()) {
                return Err(Failure::NotAge);
            }
            if input.limit() == 0 {
                break;
            }
            if len == 0 || text[start..].starts_with(b"---") {
                return Self::parse(text, start).ok_or(Failure::NotAge);
            }
        }
        Err(Failure::TooLong)
    }

    /// `end` is the start of the last line.
    fn parse(mut text: Vec<u8>, end: usize) -> Option<Self> {
        let mac = str::from_utf8(&text[end..]).ok()?.strip_prefix("--- ")?.strip_suffix('\n')?;
        let mac = unbase64(mac)?;
        let mut lines = str::from_utf8(&text[..end]).ok()?.split_terminator('\n').skip(1);
        let mut stanzas = Vec::new();
        while let Some(line) = lines.next() {
            let arguments: Vec<_> = line.strip_prefix("-> ")?.split(' ').map(str::to_owned).collect();
            let is_valid =
                |text: &String| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
            if !arguments.iter().all(is_valid) {
                return None;
            }
            let mut body = Vec::new();
            loop {
                let line = lines.next().filter(|line| line.len() <= COLUMNS)?;
                body.extend(Base64Unpadded::decode_vec(line).ok()?);
                if line.len() < COLUMNS {
                    break;
                }
            }
            stanzas.push(Stanza { arguments, body });
        }
        // A passphrase authenticates the file, so it is the only recipient.
        let is_valid = stanzas.len() == 1 || !stanzas.iter().any(Stanza::is_scrypt);
        text.truncate(end + "---".len());
        is_valid.then_some(Self { stanzas, signed: text, mac })
    }

    pub fn has_passphrase(&self) -> bool {
        self.stanzas.iter().any(Stanza::is_scrypt)
    }

    pub fn open_with(&self, identities: &[Identity]) -> Result<FileKey, Failure> {
        for stanza in &self.stanzas {
            for identity in identities {
                if let Some(key) = stanza.open_with(identity)? {
                    return self.verified(key);
                }
            }
        }
        Err(Failure::NoMatch)
    }

    pub fn open_with_passphrase(&self, passphrase: &str) -> Result<FileKey, Failure> {
        let stanza = self.stanzas.iter().find(|stanza| stanza.is_scrypt()).ok_or(Failure::NoMatch)?;
        self.verified(stanza.open_with_passphrase(passphrase)?.ok_or(Failure::NoMatch)?)
    }

    fn verified(&self, key: FileKey) -> Result<FileKey, Failure> {
        hmac::verify(&key.for_header()?, &self.signed, &self.mac).map_err(|_| Failure::Altered)?;
        Ok(key)
    }
}

impl FileKey {
    pub fn for_passphrase(output: &mut dyn Write, passphrase: &str) -> Result<Self, Failure> {
        let key = Self(random()?);
        key.write_header(output, [Stanza::for_passphrase(passphrase, &key)])?;
        Ok(key)
    }

    /// Writes a header for these recipients, of whom each can decrypt the file.
    pub fn for_recipients<'a>(
        output: &mut dyn Write,
        recipients: impl Iterator<Item = &'a Recipient>,
    ) -> Result<Self, Failure> {
        let key = Self(random()?);
        key.write_header(output, recipients.map(|recipient| Stanza::for_recipient(recipient, &key)))?;
        Ok(key)
    }

    fn write_header(
        &self,
        output: &mut dyn Write,
        stanzas: impl IntoIterator<Item = Result<Stanza, Unspecified>>,
    ) -> Result<(), Failure> {
        let mut text = format!("{VERSION}\n");
        for stanza in stanzas {
            let stanza = stanza?;
            // The body of 32 bytes fits one line.
            text += &format!("-> {}\n{}\n", stanza.arguments.join(" "), base64(&stanza.body));
        }
        text += "---";
        let mac = hmac::sign(&self.for_header()?, text.as_bytes());
        Ok(writeln!(output, "{text} {}", base64(mac.as_ref()))?)
    }

    fn for_header(&self) -> Result<hmac::Key, Unspecified> {
        Ok(hmac::Key::new(hmac::HMAC_SHA256, &*hkdf(&*self.0, &[], "header")?))
    }

    fn for_content(&self, salt: &[u8; 16]) -> Result<LessSafeKey, Unspecified> {
        cipher(&*hkdf(&*self.0, salt, "payload")?)
    }
}

/// Encrypts the content. [`Writer::finish`] must end it.
pub struct Writer<W> {
    output: W,
    key: LessSafeKey,
    chunk: Zeroizing<Vec<u8>>,
    count: u64,
}

impl<W: Write> Writer<W> {
    pub fn new(mut output: W, key: &FileKey) -> Result<Self, Failure> {
        let salt: Zeroizing<[u8; 16]> = random()?;
        output.write_all(&*salt)?;
        Ok(Self { output, key: key.for_content(&salt)?, chunk: buffer(), count: 0 })
    }

    fn seal(&mut self, is_last: bool) -> io::Result<()> {
        let sealed =
            self.key.seal_in_place_append_tag(nonce(self.count, is_last), Aad::empty(), &mut *self.chunk);
        sealed.map_err(io::Error::other)?;
        self.output.write_all(&self.chunk)?;
        self.chunk.clear();
        self.count += 1;
        Ok(())
    }

    pub fn finish(mut self) -> io::Result<()> {
        self.seal(true)?;
        self.output.flush()
    }
}

impl<W: Write> Write for Writer<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        // A full chunk waits for more data, because it may be the last one.
        if self.chunk.len() == CHUNK && !data.is_empty() {
            self.seal(false)?;
        }
        let len = data.len().min(CHUNK - self.chunk.len());
        self.chunk.extend_from_slice(&data[..len]);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Decrypts the content. Fails at the first chunk that was altered, and at the end if the file was
/// cut.
pub struct Reader<R> {
    input: R,
    key: LessSafeKey,
    chunk: Zeroizing<Vec<u8>>,
    /// The start of the part of the chunk that was not read yet.
    start: usize,
    count: u64,
    is_last: bool,
}

impl<R: BufRead> Reader<R> {
    pub fn new(mut input: R, key: &FileKey) -> Result<Self, Failure> {
        let mut salt = [0; 16];
        input.read_exact(&mut salt).map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Failure::NotAge,
            _ => error.into(),
        })?;
        let key = key.for_content(&salt)?;
        Ok(Self { input, key, chunk: buffer(), start: 0, count: 0, is_last: false })
    }

    fn open(&mut self) -> io::Result<()> {
        (self.start, self.is_last) = (0, false);
        self.chunk.zeroize();
        self.input.by_ref().take((CHUNK + TAG) as u64).read_to_end(&mut self.chunk)?;
        let is_last = self.input.fill_buf()?.is_empty();
        let nonce = nonce(self.count, is_last);
        let opened = self.key.open_in_place(nonce, Aad::empty(), &mut self.chunk).map(|plain| plain.len());
        // Only the chunk of an empty content is empty.
        let len = opened.ok().filter(|len| *len > 0 || self.count == 0);
        self.chunk.truncate(len.unwrap_or(0));
        len.ok_or_else(|| io::Error::new(ErrorKind::InvalidData, "the file was altered or cut"))?;
        self.count += 1;
        self.is_last = is_last;
        Ok(())
    }
}

impl<R: BufRead> BufRead for Reader<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.chunk.len() && !self.is_last {
            self.open()?;
        }
        Ok(&self.chunk[self.start..])
    }

    fn consume(&mut self, len: usize) {
        self.start += len;
    }
}

impl<R: BufRead> Read for Reader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let len = self.fill_buf()?.read(buffer)?;
        self.consume(len);
        Ok(len)
    }
}

fn buffer() -> Zeroizing<Vec<u8>> {
    Zeroizing::new(Vec::with_capacity(CHUNK + TAG))
}

/// The nonce of a chunk: 11 bytes of its number, and a byte that marks the last one.
fn nonce(count: u64, is_last: bool) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[3..11].copy_from_slice(&count.to_be_bytes());
    nonce[11] = is_last.into();
    Nonce::assume_unique_for_key(nonce)
}

fn cipher(key: &[u8; 32]) -> Result<LessSafeKey, Unspecified> {
    UnboundKey::new(&CHACHA20_POLY1305, key).map(LessSafeKey::new)
}

fn hkdf(secret: &[u8], salt: &[u8], info: &str) -> Result<Secret, Unspecified> {
    let mut key = Zeroizing::new([0; 32]);
    let extracted = hkdf::Salt::new(hkdf::HKDF_SHA256, salt).extract(secret);
    extracted.expand(&[info.as_bytes()], hkdf::HKDF_SHA256)?.fill(&mut *key)?;
    Ok(key)
}

fn stretch(passphrase: &str, salt: &[u8; 16], work: u8) -> Result<Secret, Unspecified> {
    let mut key = Zeroizing::new([0; 32]);
    let params = Params::new(work, 8, 1).map_err(|_| Unspecified)?;
    scrypt(passphrase.as_bytes(), &[SCRYPT_SALT, salt].concat(), &params, &mut *key)
        .map_err(|_| Unspecified)?;
    Ok(key)
}

fn random<const N: usize>() -> Result<Zeroizing<[u8; N]>, Unspecified> {
    let mut bytes = Zeroizing::new([0; N]);
    rand::fill(&mut *bytes)?;
    Ok(bytes)
}

fn base64(bytes: &[u8]) -> String {
    Base64Unpadded::encode_string(bytes)
}

/// Decodes canonical base64 of exactly `N` bytes.
fn unbase64<const N: usize>(text: &str) -> Option<[u8; N]> {
    Base64Unpadded::decode_vec(text).ok()?.try_into().ok()
}

/// The key in Bech32 (BIP 173), with this human-readable part.
fn bech32(part: Hrp, key: &[u8; 32]) -> String {
    key.iter().copied().bytes_to_fes().with_checksum::<Bech32>(&part).chars().collect()
}

/// Returns the key of a text. There is only one text of a key, apart from capital letters.
fn unbech32(part: Hrp, text: &str) -> Option<Secret> {
    let checked = CheckedHrpstring::new::<Bech32>(text).ok()?;
    let bytes = Zeroizing::new(checked.byte_iter().collect::<Vec<_>>());
    let key = Zeroizing::new(bytes.as_slice().try_into().ok()?);
    (Zeroizing::new(bech32(part, &key)).eq_ignore_ascii_case(text)).then_some(key)
}
