//! `cert p12`: a private key of a file and its certificates in one file, for devices that cannot
//! use a token.

use std::path::PathBuf;

use clap::Args;
use jeton_ca::file;
use jeton_tool::formats::{self, Item, Password, Random, Wanted, certificate, identity};
use jeton_tool::{Cause, Error, token_file};
use zeroize::Zeroizing;

use super::out::{self, Output};
use super::pin::{self, FilePin, warn};

/// Put a private key and its certificates into a PKCS#12 file, for a phone or a VPN client.
///
/// The key comes from a file, for example of `openssl genpkey`: the keys of a token do not leave
/// it. Everyone who has the new file and its password has the key.
#[derive(Args)]
pub struct P12 {
    /// The file with the certificate of the key, and after it perhaps those of CAs, as `cert issue
    /// --chain` writes them.
    certificates: PathBuf,
    /// The file with the private key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The password of the new file, and of the file with the key if it is encrypted.
    #[command(flatten)]
    file_pin: FilePin,
    /// The name that devices show. The default is the common name.
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl P12 {
    pub fn run(self) -> Result<(), Error> {
        if self.output.keep()? {
            return Ok(());
        }
        self.output.expect_writable()?;
        let certificates = file::certificates(&self.certificates)?;
        let none = || Cause::NotFound.error(format!("{} has no certificate", self.certificates.display()));
        let own = certificates.first().ok_or_else(none)?;
        let password = match self.file_pin.given()? {
            Some(password) => password,
            None => pin::prompt_twice("the password of the new file", "passwords")?,
        };
        if password.is_empty() {
            return Err(Error::Usage("a file with a private key needs a password".to_owned()));
        }
        let key = self.key(&password)?;
        let pair = token_file::read_private_key(&key)?;
        if identity(&pair.public_key_info) != identity(&certificate::public_key_of(own)?) {
            let file = self.key.display();
            return Err(
                Cause::Refused.error(format!("the key of {file} is not that of the first certificate"))
            );
        }
        let name = self.name.map_or_else(|| Ok::<_, Error>(certificate::names(own)?.title), Ok)?;
        let mut random = Random::default();
        for part in &mut random {
            aws_lc_rs::rand::fill(part).map_err(|_| Error::Failed("no random bytes".to_owned()))?;
        }
        let file = formats::pkcs12(&key, &certificates, &name, &password, &random)?;
        self.output.binary(&file)?;
        warn("the file has a private key that is in no token: delete it when the device has it");
        Ok(())
    }

    /// Reads the only private key of the file.
    fn key(&self, password: &Zeroizing<String>) -> Result<Zeroizing<Vec<u8>>, Error> {
        let file = Zeroizing::new(out::input(&self.key, formats::MAX_FILE)?);
        let mut ask = || Some(password.clone());
        let refused = |source| Error::KeyFile { path: self.key.clone(), source };
        let entries = formats::read(&file, Wanted::All, &mut Password::new(&mut ask)).map_err(refused)?;
        let mut keys = entries.into_iter().filter_map(|entry| match entry.item {
            Item::PrivateKey(key) => Some(key),
            _ => None,
        });
        match (keys.next(), keys.next()) {
            (Some(key), None) => Ok(key),
            _ => Err(Error::Failed(format!("{} needs one private key", out::shown_path(&self.key)))),
        }
    }
}
