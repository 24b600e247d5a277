//! The configuration files: their order, and how they combine with the library parameters.
//!
//! A later source replaces whole sections and top-level keys of an earlier source. The order is:
//! the file of the machine, the file of the user, the file that `JETON_CONF` names, the library
//! parameters.

use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{File, environment, refuse, token_dir};
use crate::error::Result;
use crate::file;

/// The configuration file of the machine.
const MACHINE: &str = "/etc/jeton/jeton.toml";

/// Returns the configuration files that the module reads, in their order. A process with raised
/// privileges ignores the environment.
pub(crate) fn files() -> Vec<PathBuf> {
    existing(Path::new(MACHINE), user_file(), environment::path("JETON_CONF"))
}

/// Returns the path of the user's file: below `XDG_CONFIG_HOME`, or below `.config` in the home
/// directory.
fn user_file() -> Option<PathBuf> {
    let configured = environment::path("XDG_CONFIG_HOME").filter(|dir| dir.is_absolute());
    let below = configured.or_else(|| environment::home().map(|home| home.join(".config")))?;
    Some(below.join("jeton/jeton.toml")).filter(|path| path.is_absolute())
}

/// Leaves out a file of the machine that does not exist, and a file of the user that does not exist
/// or that this process may not reach. A server that gave up root may still have root's `HOME`, in
/// which it may not search. Any other failure is one of reading the file. The file of `JETON_CONF`
/// is never left out.
fn existing(machine: &Path, user: Option<PathBuf>, named: Option<PathBuf>) -> Vec<PathBuf> {
    let is_missing = machine.metadata().is_err_and(|reason| reason.kind() == ErrorKind::NotFound);
    let machine = (!is_missing).then(|| machine.to_owned());
    let user = user.filter(|path| {
        let absent = [ErrorKind::NotFound, ErrorKind::NotADirectory, ErrorKind::PermissionDenied];
        path.metadata().err().is_none_or(|reason| !absent.contains(&reason.kind()))
    });
    [machine, user, named].into_iter().flatten().collect()
}

/// Returns the configuration files as one text, which [`Settings::parse`](super::Settings::parse)
/// reads in another process. The text has the token directory, also if only `JETON_DIR` names it.
pub fn text() -> Result<String> {
    let mut all = combined(&files(), user_file().as_deref())?;
    let directory = token_dir(File::of(all.clone())?.token_dir)?;
    let directory = directory.into_os_string().into_string();
    let directory = directory.map_err(|_| refuse("token-dir", &"this path is not UTF-8"))?;
    all.insert("token-dir".to_owned(), directory.into());
    Ok(all.to_string())
}

impl File {
    /// Reads the files and the parameters. Each is checked separately, so that the log names the
    /// source of a mistake.
    pub(super) fn gather(parameters: Option<&str>) -> Result<Self> {
        let mut all = combined(&files(), user_file().as_deref())?;
        if let Some(text) = parameters.filter(|text| !text.trim().is_empty()) {
            let source = "library parameters";
            let mut wrapped = plain_table(source, &format!("parameters = {{ {text} }}"))?;
            let Some(toml::Value::Table(inner)) = wrapped.remove("parameters") else {
                return Err(refuse(source, &"not the inside of an inline table"));
            };
            all.extend(table(source, &inner.to_string())?);
        }
        Self::of(all)
    }

    /// Reads a text that another process took from its configuration.
    pub(super) fn parse(text: &str) -> Result<Self> {
        Self::of(table("the text of the configuration", text)?)
    }

    fn of(all: toml::Table) -> Result<Self> {
        all.try_into().map_err(|reason| refuse("configuration", &described("", &reason)))
    }
}

/// Combines the texts of the files. Later ones override earlier ones. `user` is the file of the
/// user, which must belong to this user or to root.
fn combined(files: &[PathBuf], user: Option<&Path>) -> Result<toml::Table> {
    let mut all = toml::Table::new();
    for path in files {
        let source = path.display().to_string();
        let text = read(path, user == Some(path)).map_err(|reason| refuse(&source, &reason))?;
        all.extend(table(&source, &text)?);
    }
    Ok(all)
}

/// Reads a file. With `HOME` of another user, that user would otherwise decide where this process
/// writes its logs. ssh(1) refuses its configuration for the same reason.
fn read(path: &Path, is_of_user: bool) -> std::io::Result<String> {
    let mut file = file::open_chosen(path)?;
    if is_of_user && !file::is_trusted(file.metadata()?.uid()) {
        return Err(std::io::Error::other("this file belongs to another user; JETON_CONF can name it"));
    }
    let mut text = String::new();
    file.read_to_string(&mut text)?;
    Ok(text)
}

/// Parses a TOML text and checks that it is a configuration.
fn table(source: &str, text: &str) -> Result<toml::Table> {
    toml::from_str::<File>(text).map_err(|reason| refuse(source, &described(text, &reason)))?;
    plain_table(source, text)
}

fn plain_table(source: &str, text: &str) -> Result<toml::Table> {
    toml::from_str(text).map_err(|reason| refuse(source, &described(text, &reason)))
}

/// Describes an error of a configuration without quoting the text. The text may contain
/// secrets, and others may read the log. Names the line, an unknown key, and the expected form.
fn described(text: &str, reason: &toml::de::Error) -> String {
    let message = reason.message();
    let safe = match message.rsplit_once(", expected ") {
        // serde writes here the name of the key and the keys that exist.
        _ if message.starts_with("unknown field ") => message.to_owned(),
        Some((_, expected)) => format!("expected {expected}"),
        None => "not valid TOML".to_owned(),
    };
    let before = reason.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {safe}", before.matches('\n').count() + 1),
        None => safe,
    }
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn scratch() -> TempDir {
        tempfile::tempdir().expect("a directory")
    }

    fn write(scratch: &TempDir, name: &str, text: &str) -> PathBuf {
        let path = scratch.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    }

    #[test]
    fn the_user_overrides_the_machine_and_the_named_file_overrides_both() {
        let scratch = scratch();
        let machine = write(
            &scratch,
            "machine",
            "token-dir = '/machine'\nbackend = 'x'\n[pin]\nretries = 3\npasses = 1\n",
        );
        let user = write(&scratch, "user", "backend = 'user'\n[pin]\nretries = 5\n");
        let named = write(&scratch, "named", "backend = 'named'\n");
        let read = |user: Option<&PathBuf>, named: Option<&PathBuf>| -> File {
            let all =
                combined(&existing(&machine, user.cloned(), named.cloned()), None).expect("valid files");
            all.try_into().expect("a configuration")
        };
        let all = read(Some(&user), Some(&named));
        assert_eq!(all.token_dir, Some("/machine".into()));
        assert_eq!(all.backend.as_deref(), Some("named"));
        // A section replaces the whole section of an earlier file.
        assert_eq!((all.pin.retries, all.pin.passes), (5, 2));
        assert_eq!(read(Some(&user), None).backend.as_deref(), Some("user"));
        let alone = read(None, None);
        assert_eq!((alone.backend.as_deref(), alone.pin.retries), (Some("x"), 3));
    }

    #[test]
    fn files_that_do_not_exist_are_left_out_except_a_named_one() {
        let scratch = scratch();
        let missing = |name: &str| scratch.path().join(name);
        assert!(existing(&missing("machine"), Some(missing("user")), None).is_empty());
        // A file in place of a directory: the user's file cannot be reached.
        let user = write(&scratch, "home", "").join(".config/jeton/jeton.toml");
        assert!(existing(&missing("machine"), Some(user), None).is_empty());
        // A file of the user that nothing says is absent: reading it fails.
        std::os::unix::fs::symlink(missing("loop"), missing("loop")).expect("a link");
        let user = missing("loop");
        assert_eq!(existing(&missing("machine"), Some(user.clone()), None), [user]);
        let named = existing(&missing("machine"), None, Some(missing("named")));
        assert_eq!(named, [missing("named")]);
        assert!(combined(&named, None).is_err());
    }

    #[test]
    fn the_file_of_the_user_belongs_to_the_user_or_to_root() {
        let scratch = scratch();
        let path = write(&scratch, "user", "[pin]\nretries = 3\n");
        assert!(combined(std::slice::from_ref(&path), Some(&path)).is_ok());
        if std::os::unix::fs::chown(&path, Some(60_410), None).is_err() {
            return jeton_programs::skip("only root can give files away");
        }
        assert!(combined(std::slice::from_ref(&path), Some(&path)).is_err());
        // The file that JETON_CONF names may have any owner.
        assert!(combined(std::slice::from_ref(&path), None).is_ok());
    }

    #[test]
    fn a_fifo_is_refused_and_a_device_is_not() {
        let fifo = scratch();
        let fifo = fifo.path().join("fifo");
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::from_raw_mode(0o600)).expect("a FIFO");
        assert!(combined(&[fifo], None).is_err());
        assert!(combined(&["/dev/null".into()], None).is_ok());
    }

    #[test]
    fn a_mistake_in_an_overridden_file_is_refused() {
        let scratch = scratch();
        let machine = write(&scratch, "machine", "[pin]\nretry = 3\n");
        let named = write(&scratch, "named", "[pin]\nretries = 3\n");
        assert!(combined(&existing(&machine, None, Some(named)), None).is_err());
    }

    #[test]
    fn a_refusal_names_the_line_and_never_quotes_a_value() {
        let refusal =
            |text: &str| described(text, &toml::from_str::<File>(text).err().expect("no configuration"));
        for text in [
            "root:$y$j9T$secret:19000:0:99999:7:::",
            "[pin]\nretries = 'a secret'",
            "backend = 'x'\nbackend = 'a secret'",
            "[policy]\nname = 'secret'",
            "log = 'secret'",
            "a = secret",
            "[store\nsecret",
            "backend = \"\\qsecret\"",
            "token-dir = 'secret",
        ] {
            assert!(!refusal(text).contains("secret"), "{text}: {}", refusal(text));
        }
        assert_eq!(refusal("[pin]\nretries = 'x'"), "line 2: expected u32");
        assert!(refusal("tokendir = '/a'").starts_with("line 1: unknown field `tokendir`, expected one of"));
        assert_eq!(refusal("\n\nroot:x"), "line 3: expected `=`");
    }
}
