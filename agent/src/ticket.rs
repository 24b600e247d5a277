//! Tickets: what an application presents after the agent was started again, so that its login goes
//! on. A ticket is the PIN, sealed with a key that only the agent's user can read. The application
//! cannot open it, and it is valid for the same client of the agent and the same token only.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use jeton::functions::{PinMark, User};
use serde::{Deserialize, Serialize};
use serde_bytes::Bytes;
use zeroize::Zeroizing;

/// The length of a nonce in bytes.
const NONCE: usize = 24;
/// The length of the key in bytes.
const KEY: usize = 32;
/// What follows a PIN in a ticket.
const ZEROS: [u8; 64] = [0; 64];

/// The key of the tickets, and which of them are void.
pub struct Tickets {
    key: XChaCha20Poly1305,
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
    peer: &'a str,
    /// How often that client was locked, and how often everyone.
    locks: [u64; 2],
    #[serde(borrow)]
    login: Login<'a>,
    padding: &'a Bytes,
}

/// Why a ticket does not log in.
#[derive(Debug, PartialEq, Eq)]
pub enum Unfit {
    /// It was not made with this key for this token.
    Unknown,
    /// It is a ticket of another client.
    Of(String),
    /// An administrator locked its client.
    Void,
}

impl fmt::Display for Unfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => formatter.write_str("not a ticket of this agent for this token"),
            Self::Of(peer) => write!(formatter, "a ticket of {peer}"),
            Self::Void => formatter.write_str("its client was locked"),
        }
    }
}

/// What a ticket is valid for: the client and the serial number of the token.
#[derive(Clone, Copy)]
pub struct Holder<'a> {
    /// The client at the other end of the connection.
    pub peer: &'a str,
    /// The serial number of the token.
    pub token: &'a [u8],
}

impl Tickets {
    /// Reads the key from this file, or makes the file.
    pub fn open(path: &Path) -> io::Result<Self> {
        let key = match Self::read(path) {
            Ok(key) => key,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::make(path)?,
            Err(error) => return Err(error),
        };
        let key: &Key = key[..].try_into().map_err(|_| io::Error::other("no key of tickets"))?;
        let path = path.with_extension("locked");
        let locked = match fs::read(&path) {
            Ok(bytes) => postcard::from_bytes(&bytes).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error),
        };
        Ok(Self { key: XChaCha20Poly1305::new(key), path, locked: Mutex::new(locked) })
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

    /// Returns how often a client was locked, and how often everyone.
    fn locks(&self, peer: &str) -> [u64; 2] {
        let locked = self.locked.lock().unwrap_or_else(PoisonError::into_inner);
        [Some(peer.to_owned()), None].map(|client| locked.get(&client).copied().unwrap_or(0))
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

    /// Makes a ticket.
    pub fn seal(&self, holder: &Holder<'_>, login: &Login<'_>) -> Option<Vec<u8>> {
        let mut nonce = XNonce::default();
        getrandom::fill(&mut nonce).ok()?;
        // The length of a ticket does not tell that of the PIN.
        let padding = Bytes::new(&ZEROS[login.pin.len() % ZEROS.len()..]);
        let sealed = Sealed { peer: holder.peer, locks: self.locks(holder.peer), login: *login, padding };
        let plain = Zeroizing::new(postcard::to_stdvec(&sealed).ok()?);
        let sealed = self.key.encrypt(&nonce, Payload { msg: &plain, aad: holder.token }).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// Opens a ticket of this holder, or of the client that it was before. `work` gets the client
    /// of the ticket, and the login.
    pub fn open_for<T>(
        &self,
        holder: &Holder<'_>,
        before: Option<&str>,
        ticket: &[u8],
        work: impl FnOnce(&str, &Login<'_>) -> T,
    ) -> Result<T, Unfit> {
        let (nonce, sealed) = ticket.split_at_checked(NONCE).ok_or(Unfit::Unknown)?;
        let nonce: &XNonce = nonce.try_into().map_err(|_| Unfit::Unknown)?;
        let sealed = self.key.decrypt(nonce, Payload { msg: sealed, aad: holder.token });
        let plain = Zeroizing::new(sealed.map_err(|_| Unfit::Unknown)?);
        let sealed: Sealed<'_> = postcard::from_bytes(&plain).map_err(|_| Unfit::Unknown)?;
        if ![Some(holder.peer), before].contains(&Some(sealed.peer)) {
            return Err(Unfit::Of(sealed.peer.to_owned()));
        }
        if sealed.locks != self.locks(sealed.peer) {
            return Err(Unfit::Void);
        }
        Ok(work(sealed.peer, &sealed.login))
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
        let holder = Holder { peer: "uid 1000", token: b"0123456789abcdef" };
        let login = Login { user: User::User, logouts: 0, mark: [7; 16], pin: b"1234" };
        let ticket = Tickets::open(&path).expect("a key").seal(&holder, &login).expect("a ticket");
        assert!(!ticket.windows(4).any(|bytes| bytes == b"1234"));
        let again = Tickets::open(&path).expect("the key");
        let pin = |holder: &Holder<'_>, before, ticket: &[u8]| {
            again.open_for(holder, before, ticket, |peer, login| {
                (peer.to_owned(), login.user, login.pin.to_vec())
            })
        };
        let opened = || Ok((holder.peer.to_owned(), User::User, b"1234".to_vec()));
        assert_eq!(pin(&holder, None, &ticket), opened());
        let other = Holder { peer: "uid 1001", ..holder };
        assert_eq!(pin(&other, None, &ticket), Err(Unfit::Of("uid 1000".to_owned())));
        assert_eq!(pin(&other, Some("uid 1002"), &ticket), Err(Unfit::Of("uid 1000".to_owned())));
        assert_eq!(pin(&other, Some("uid 1000"), &ticket), opened());
        let other = Holder { token: b"0123456789abcdee", ..holder };
        assert_eq!(pin(&other, None, &ticket), Err(Unfit::Unknown));
        for at in 0..ticket.len() {
            let mut altered = ticket.clone();
            altered[at] ^= 1;
            assert_eq!(pin(&holder, None, &altered), Err(Unfit::Unknown));
        }
        assert_eq!(pin(&holder, None, &ticket[..NONCE - 1]), Err(Unfit::Unknown));
        let long = again.seal(&holder, &Login { pin: b"123456789012", ..login }).expect("a ticket");
        assert_eq!(long.len(), ticket.len());
        // A client without a name is not all clients.
        again.lock(Some("")).expect("a file");
        assert!(pin(&holder, None, &ticket).is_ok());
        // The tickets of a locked client stay void; later ones are good.
        again.lock(Some("uid 1001")).expect("a file");
        assert!(pin(&holder, None, &ticket).is_ok());
        again.lock(Some("uid 1000")).expect("a file");
        let restarted = Tickets::open(&path).expect("the key");
        let open = |ticket: &[u8]| restarted.open_for(&holder, None, ticket, |_, _| ());
        assert_eq!(open(&long), Err(Unfit::Void));
        let later = restarted.seal(&holder, &login).expect("a ticket");
        assert_eq!(open(&later), Ok(()));
        restarted.lock(None).expect("a file");
        assert_eq!(open(&later), Err(Unfit::Void));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a file");
        assert!(Tickets::open(&path).is_err());
        fs::remove_dir_all(&directory).expect("the directory");
    }
}
