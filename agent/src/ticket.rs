//! Tickets: what an application presents after the agent was started again, so that its login goes
//! on. A ticket is the PIN, sealed with a key of the client. The application cannot open it, and it
//! is valid for the same client of the agent and the same token only.
//!
//! The keys of all clients are derived from one that only the front reads (HKDF, RFC 5869). A
//! worker has the key of its client.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{XChaCha20Poly1305, XNonce};
use hkdf::Hkdf;
use jeton::functions::{PinMark, User};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;
use sha2::Sha256;
use zeroize::Zeroizing;

/// The length of a nonce in bytes.
const NONCE: usize = 24;
/// The length of a key in bytes.
const KEY: usize = 32;
/// What the derived keys are for.
const USE: &[u8] = b"jeton-agent ticket 1";
/// What follows a PIN in a ticket.
const ZEROS: [u8; 64] = [0; 64];

/// The key of all tickets, and which of them are void.
pub struct Tickets {
    key: Hkdf<Sha256>,
    /// The file of `locked`.
    path: PathBuf,
    /// The clients that an administrator locked, and how often; `None` for all clients. Their
    /// tickets of before are void.
    locked: Mutex<BTreeMap<Option<String>, u64>>,
}

/// What a ticket contains.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub struct Login<'a> {
    /// The user type.
    pub user: User,
    /// The number of logins that the application had ended before.
    pub logouts: u64,
    /// The mark of the PIN. A ticket for a PIN that was replaced is not tried.
    pub mark: PinMark,
    /// The PIN.
    #[serde(with = "serde_bytes")]
    pub pin: &'a [u8],
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Sealed<'a> {
    #[serde(borrow)]
    login: Login<'a>,
    padding: &'a Bytes,
}

/// The key of the tickets of a client.
pub struct Key(XChaCha20Poly1305);

/// A ticket that was not made with the key of this client for this token, or that is void: the
/// client was locked since.
#[derive(Debug, PartialEq, Eq)]
pub struct Unfit;

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("not a ticket of this client for this token, or the client was locked")
    }
}

impl Tickets {
    /// Reads the key from this file, or makes the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let key = match Self::read(path) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path)?,
            Err(error) => return Err(error),
        };
        if key.len() != KEY {
            return Err(io::Error::other("no key of tickets"));
        }
        let path = path.with_extension("locked");
        let locked = match fs::read(&path) {
            Ok(bytes) => postcard::from_bytes(&bytes).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { key: Hkdf::new(None, &key), path, locked: Mutex::new(locked) })
    }

    /// Makes the tickets void that a client has now; those of all clients without a name.
    pub fn lock(&self, peer: Option<&str>) -> io::Result<()> {
        let mut locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        *locked.entry(peer.map(str::to_owned)).or_default() += 1;
        let bytes = postcard::to_stdvec(&*locked).map_err(io::Error::other)?;
        let new = self.path.with_extension("new");
        let mut file = fs::File::create(&new)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(new, &self.path)
    }

    /// Returns the key of the tickets of a client. It changes when the client, or everyone, is
    /// locked.
    pub fn key_of(&self, client: &str) -> [u8; KEY] {
        let locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        let locks = [Some(client.to_owned()), None].map(|client| locked.get(&client).copied().unwrap_or(0));
        let locks = locks.map(u64::to_be_bytes).concat();
        let mut key = [0; KEY];
        // The length of the key is one that HKDF has.
        let _ = self.key.expand_multi_info(&[USE, &locks, client.as_bytes()], &mut key);
        key
    }

    /// Reads the key. Who could have written the file could open tickets, so it must be the
    /// agent's.
    fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
        let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK).bits();
        let file = fs::OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)?;
        let found = file.metadata()?;
        let is_ours = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o077 == 0;
        if !found.is_file() || !is_ours {
            return Err(io::Error::other("the key of tickets belongs to another user, or others may use it"));
        }
        let mut key = Zeroizing::new(Vec::with_capacity(KEY));
        file.take(KEY as u64 + 1).read_to_end(&mut key)?;
        Ok(key)
    }

    fn make(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
        let mut key = Zeroizing::new(vec![0; KEY]);
        getrandom::fill(&mut key).map_err(io::Error::other)?;
        // A full disk or a crash leaves no key that is not whole.
        let new = path.with_extension(std::process::id().to_string());
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        let made =
            file.write_all(&key).and_then(|()| file.sync_all()).and_then(|()| fs::hard_link(&new, path));
        fs::remove_file(new)?;
        match made {
            // Another agent made it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Self::read(path),
            made => made.map(|()| key),
        }
    }
}

impl Key {
    /// Returns the key of these bytes.
    pub fn new(key: &[u8; KEY]) -> Self {
        Self(XChaCha20Poly1305::new(key.into()))
    }

    /// Makes a ticket for the token with this serial number.
    pub fn seal(&self, token: &[u8], login: &Login<'_>) -> Option<Vec<u8>> {
        let mut nonce = XNonce::default();
        getrandom::fill(&mut nonce).ok()?;
        // The length of a ticket does not tell that of the PIN.
        let padding = Bytes::new(&ZEROS[login.pin.len() % ZEROS.len()..]);
        let plain = Zeroizing::new(postcard::to_stdvec(&Sealed { login: *login, padding }).ok()?);
        let sealed = self.0.encrypt(&nonce, Payload { msg: &plain, aad: token }).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// Opens a ticket for the token with this serial number. `work` gets the login.
    pub fn open_for<T>(
        &self,
        token: &[u8],
        ticket: &[u8],
        work: impl FnOnce(&Login<'_>) -> T,
    ) -> Result<T, Unfit> {
        let (nonce, sealed) = ticket.split_at_checked(NONCE).ok_or(Unfit)?;
        let nonce: &XNonce = nonce.try_into().map_err(|_| Unfit)?;
        let sealed = self.0.decrypt(nonce, Payload { msg: sealed, aad: token });
        let plain = Zeroizing::new(sealed.map_err(|_| Unfit)?);
        let sealed: Sealed<'_> = postcard::from_bytes(&plain).map_err(|_| Unfit)?;
        Ok(work(&sealed.login))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_ticket_opens_for_its_holder_only_and_after_a_restart() {
        let directory = std::env::temp_dir().join(format!("jeton-tickets-{}", std::process::id()));
        fs::create_dir_all(&directory).expect("a directory");
        let path = directory.join("ticket.key");
        let token = b"0123456789abcdef";
        let login = Login { user: User::User, logouts: 0, mark: [7; 16], pin: b"1234" };
        let key = |tickets: &Tickets, client: &str| Key::new(&tickets.key_of(client));
        let first = Tickets::open(&path).expect("a key");
        let ticket = key(&first, "uid 1000").seal(token, &login).expect("a ticket");
        assert!(!ticket.windows(4).any(|bytes| bytes == b"1234"));
        let again = Tickets::open(&path).expect("the key");
        let pin = |client, token: &[u8], ticket: &[u8]| {
            key(&again, client).open_for(token, ticket, |login| (login.user, login.pin.to_vec()))
        };
        let opened = || Ok((User::User, b"1234".to_vec()));
        assert_eq!(pin("uid 1000", token, &ticket), opened());
        assert_eq!(pin("uid 1001", token, &ticket), Err(Unfit));
        assert_eq!(pin("uid 1000", b"0123456789abcdee", &ticket), Err(Unfit));
        for at in 0..ticket.len() {
            let mut altered = ticket.clone();
            altered[at] ^= 1;
            assert_eq!(pin("uid 1000", token, &altered), Err(Unfit));
        }
        assert_eq!(pin("uid 1000", token, &ticket[..NONCE - 1]), Err(Unfit));
        let long = Login { pin: b"123456789012", ..login };
        let long = key(&again, "uid 1000").seal(token, &long).expect("a ticket");
        assert_eq!(long.len(), ticket.len());
        // A client without a name is not all clients.
        again.lock(Some("")).expect("a file");
        assert_eq!(pin("uid 1000", token, &ticket), opened());
        // The tickets of a locked client stay void; later ones are good.
        again.lock(Some("uid 1001")).expect("a file");
        assert_eq!(pin("uid 1000", token, &ticket), opened());
        again.lock(Some("uid 1000")).expect("a file");
        let restarted = Tickets::open(&path).expect("the key");
        let open = |ticket: &[u8]| key(&restarted, "uid 1000").open_for(token, ticket, |_| ());
        assert_eq!(open(&long), Err(Unfit));
        let later = key(&restarted, "uid 1000").seal(token, &login).expect("a ticket");
        assert_eq!(open(&later), Ok(()));
        restarted.lock(None).expect("a file");
        assert_eq!(open(&later), Err(Unfit));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a file");
        assert!(Tickets::open(&path).is_err());
        fs::remove_dir_all(&directory).expect("the directory");
    }
}
