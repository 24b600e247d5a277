//! Tickets: what an application presents after the agent was started again, so that its login goes
//! on. A ticket is the PIN, sealed with a key that only the agent's user can read. The application
//! cannot open it, and it is valid for the same user of the system and the same token only.

use std::collections::BTreeMap;
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
#[derive(Serialize, Deserialize)]
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

/// What a ticket is valid for: the client and the serial number of the token.
#[derive(Serialize)]
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
        let plain = Zeroizing::new(postcard::to_stdvec(&(self.locks(holder.peer), login, padding)).ok()?);
        let aad = postcard::to_stdvec(holder).ok()?;
        let sealed = self.key.encrypt(&nonce, Payload { msg: &plain, aad: &aad }).ok()?;
        Some([&nonce[..], &sealed].concat())
    }

    /// Opens a ticket and passes the login to `work`. Returns `None` if the ticket is not this
    /// holder's.
    pub fn open_for<T>(
        &self,
        holder: &Holder<'_>,
        ticket: &[u8],
        work: impl FnOnce(&Login<'_>) -> T,
    ) -> Option<T> {
        let (nonce, sealed) = ticket.split_at_checked(NONCE)?;
        let nonce: &XNonce = nonce.try_into().ok()?;
        let aad = postcard::to_stdvec(holder).ok()?;
        let plain = Zeroizing::new(self.key.decrypt(nonce, Payload { msg: sealed, aad: &aad }).ok()?);
        let (locks, login, _): ([u64; 2], Login<'_>, &Bytes) = postcard::from_bytes(&plain).ok()?;
        (locks == self.locks(holder.peer)).then(|| work(&login))
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
        let pin = |holder: &Holder<'_>, ticket: &[u8]| {
            again.open_for(holder, ticket, |login| (login.user, login.pin.to_vec()))
        };
        assert_eq!(pin(&holder, &ticket), Some((User::User, b"1234".to_vec())));
        assert_eq!(pin(&Holder { peer: "uid 1001", ..holder }, &ticket), None);
        assert_eq!(pin(&Holder { token: b"0123456789abcdee", ..holder }, &ticket), None);
        for at in 0..ticket.len() {
            let mut altered = ticket.clone();
            altered[at] ^= 1;
            assert_eq!(pin(&holder, &altered), None);
        }
        assert_eq!(pin(&holder, &ticket[..NONCE - 1]), None);
        let long = again.seal(&holder, &Login { pin: b"123456789012", ..login }).expect("a ticket");
        assert_eq!(long.len(), ticket.len());
        // A client without a name is not all clients.
        again.lock(Some("")).expect("a file");
        assert!(pin(&holder, &ticket).is_some());
        // The tickets of a locked client stay void; later ones are good.
        again.lock(Some("uid 1001")).expect("a file");
        assert!(pin(&holder, &ticket).is_some());
        again.lock(Some("uid 1000")).expect("a file");
        let restarted = Tickets::open(&path).expect("the key");
        assert!(restarted.open_for(&holder, &long, |_| ()).is_none());
        let later = restarted.seal(&holder, &login).expect("a ticket");
        assert!(restarted.open_for(&holder, &later, |_| ()).is_some());
        restarted.lock(None).expect("a file");
        assert!(restarted.open_for(&holder, &later, |_| ()).is_none());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("a file");
        assert!(Tickets::open(&path).is_err());
        fs::remove_dir_all(&directory).expect("the directory");
    }
}
