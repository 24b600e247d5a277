//! The list of issued certificates, as backups and `doctor` see it. Without the feature `ca`, this
//! tool cannot read it, and so makes no backup that would lack it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::{Error, token_file};

#[cfg(feature = "ca")]
pub use with_ca::{RULES, copy, expect_readable, mark_restored, with_ended_crl};
#[cfg(not(feature = "ca"))]
pub use without_ca::{copy, expect_readable, mark_restored, with_ended_crl};

/// Returns the default path of the list.
pub fn path() -> Result<PathBuf, Error> {
    Ok(token_file::directory()?.with_file_name("issued.sqlite"))
}

/// Returns whether there is no list. A list that this process cannot look at is not missing:
/// opening it fails.
pub fn is_missing(path: &Path) -> bool {
    path.symlink_metadata().is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

#[cfg(feature = "ca")]
mod with_ca {
    use std::path::Path;

    use jeton_ca::Rules;
    use jeton_ca::register::{Register, now};
    use rustix::fs::OFlags;

    use crate::{Error, token_file};

    /// What the CA accepts as a list, and as a key of a stranger.
    pub const RULES: Rules = Rules {
        open: |path| token_file::open_file(path, OFlags::RDWR | OFlags::CLOEXEC, 0),
        check_key: |template| token_file::check_public_key(template).map_err(|flaw| flaw.to_string()),
        have_one_secret: token_file::have_one_secret,
        is_signed: token_file::is_signed,
    };

    /// Fails if this tool cannot read a list.
    pub fn expect_readable() -> Result<(), Error> {
        Ok(())
    }

    /// Copies the list into a new file, as one moment shows it.
    pub fn copy(path: &Path, to: &Path) -> Result<(), Error> {
        Ok(Register::open(path, RULES)?.copy(to)?)
    }

    /// Marks a copy as old: the CAs may have signed CRLs since then.
    pub fn mark_restored(path: &Path) -> Result<(), Error> {
        Ok(Register::open(path, RULES)?.mark_restored()?)
    }

    /// Returns the subjects of the CAs whose last CRL has ended.
    pub fn with_ended_crl(path: &Path) -> Result<Vec<String>, Error> {
        let cas = Register::open(path, RULES)?.authorities()?;
        let ended = cas.into_iter().filter(|ca| ca.crl_end.is_some_and(|end| end < now()));
        Ok(ended.map(|ca| ca.subject).collect())
    }
}

#[cfg(not(feature = "ca"))]
mod without_ca {
    use std::path::Path;

    use crate::{Cause, Error};

    pub fn expect_readable() -> Result<(), Error> {
        let text =
            "this jeton was built without the feature `ca`, and cannot read the list of issued certificates";
        Err(Cause::Refused.error(text))
    }

    pub fn copy(_: &Path, _: &Path) -> Result<(), Error> {
        expect_readable()
    }

    pub fn mark_restored(_: &Path) -> Result<(), Error> {
        expect_readable()
    }

    pub fn with_ended_crl(_: &Path) -> Result<Vec<String>, Error> {
        Ok(Vec::new())
    }
}
