//! A copy of an old store, and a directory for tokens of Jeton.

use super::*;

/// The user's PIN of every old store that has one.
pub use super::PIN;

/// A copy of the store, and a directory for tokens of Jeton.
pub struct Migration {
    pub scratch: Scratch,
    /// The path that the tool gets: the directory of the old store, or a file in it.
    pub from: PathBuf,
}

impl Migration {
    /// Copies the directory `store`.
    pub fn of(store: &Path) -> Self {
        let scratch = Scratch::new();
        copy(store, &scratch.path().join("old"));
        fs::write(scratch.file("conf"), CHEAP).expect("a file");
        let from = scratch.path().join("old");
        Self { scratch, from }
    }

    /// Copies the directory `store`. The tool gets the path of `file` in the copy.
    pub fn of_file(store: &Path, file: &str) -> Self {
        let mut migration = Self::of(store);
        migration.from.push(file);
        migration
    }

    pub fn old(&self) -> String {
        self.scratch.file("old")
    }

    pub fn tokens(&self) -> PathBuf {
        self.scratch.path().join("tokens")
    }

    pub fn old_token(&self) -> PathBuf {
        let mut entries = fs::read_dir(self.old()).expect("a directory");
        entries.next().expect("a token").expect("an entry").path()
    }

    pub fn old_object(&self) -> PathBuf {
        let mut entries =
            fs::read_dir(self.old_token()).expect("a directory").map(|entry| entry.expect("an entry").path());
        let object = |path: &PathBuf| {
            path.extension().is_some_and(|extension| extension == "object") && !path.ends_with("token.object")
        };
        entries.find(object).expect("an object")
    }

    /// Returns a `jeton migrate` command with the PINs in the environment.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = jeton(["migrate".as_ref(), self.from.as_os_str()]);
        command.env("JETON_DIR", self.tokens()).env("JETON_CONF", self.scratch.file("conf"));
        command.env("JETON_PIN", PIN).env("JETON_SO_PIN", "the officer's").args(arguments);
        command
    }

    pub fn listed(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.tokens()) else { return Vec::new() };
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("UTF-8")).collect()
    }

    /// Kills the tool at later and later times, until a migration is complete. No killed run may
    /// leave a part of a token or change the old store.
    pub fn leaves_no_half_token_when_it_is_killed(&self, arguments: &[&str], objects: usize) {
        let before = fingerprint(Path::new(&self.old()));
        let (mut killed, mut wait) = (0, Duration::ZERO);
        loop {
            let mut command = self.command(arguments);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the tool");
            sleep(wait);
            // The process may already have ended.
            let _ = child.kill();
            let status = child.wait().expect("the tool");
            let tokens = self.listed().iter().filter(|name| name.len() == SERIAL).count();
            assert!(tokens == 1 || !status.success());
            if tokens == 1 {
                // If the tool was killed after the rename, the token must be complete.
                break;
            }
            killed += 1;
            wait = wait * 5 / 4 + Duration::from_millis(10);
        }
        assert!(killed > 0);
        says(succeed(&mut self.command(arguments)), format!("all {objects} objects already"));
        // A later migration removes the temporary directories of killed migrations.
        sleep(Duration::from_millis(500));
        succeed(&mut self.command(&[arguments, &["--label", "another"]].concat()));
        assert!(self.listed().iter().all(|name| !name.starts_with(".jeton-migrate")), "{:?}", self.listed());
        assert_eq!(fingerprint(Path::new(&self.old())), before);
    }

    /// Migrates to a file system that is too small for the token.
    pub fn leaves_no_half_token_on_a_full_disk(&self, size: &str, arguments: &[&str]) {
        let before = fingerprint(Path::new(&self.old()));
        fs::create_dir_all(self.tokens()).expect("a directory");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={size},mode=700"), "tmpfs"]).arg(self.tokens());
        if !mount.output().is_ok_and(|output| output.status.success()) {
            return skip("only root can mount a small file system");
        }
        let (code, text) = run(&mut self.command(arguments));
        let left = self.listed();
        succeed(Command::new("umount").arg(self.tokens()));
        assert!(code > 0 && text.contains("disk is full"), "exit {code}\n{text}");
        assert_eq!(left, Vec::<String>::new());
        assert_eq!(fingerprint(Path::new(&self.old())), before);
    }

    /// Migrates all objects, proves all private keys, and finds nothing to do the next time. Leaves
    /// the old store as it is. Returns the output of the first run.
    pub fn migrates_once(&self, arguments: &[&str], objects: usize, pairs: usize) -> String {
        let before = fingerprint(Path::new(&self.old()));
        let text = succeed(&mut self.command(arguments));
        let wanted = format!(
            "{objects} of {objects} objects are migrated; {pairs} of {pairs} private keys are proved"
        );
        says(&text, wanted);
        says(succeed(&mut self.command(arguments)), format!("all {objects} objects already"));
        assert_eq!(fingerprint(Path::new(&self.old())), before);
        text
    }

    /// Migrates with a PIN from a file, in the option `option`. The migration must fail with this
    /// text.
    pub fn refuses_pin(&self, option: &str, pin: &str, text: &str) {
        let file = self.scratch.file("pin");
        fs::write(&file, pin).expect("a file");
        self.refused(&[option, &file], text);
    }

    /// Runs a migration that must fail with this text, change nothing and leave nothing.
    pub fn refused(&self, arguments: &[&str], text: &str) {
        let before = fingerprint(Path::new(&self.old()));
        refused(&mut self.command(arguments), text);
        assert_eq!(self.listed(), Vec::<String>::new());
        assert_eq!(fingerprint(Path::new(&self.old())), before);
    }
}

/// Reads a store whose file at `path` has flipped bits, and truncated ones: a panic fails the test.
/// Flips a bit in the first 100 bytes and in each `flips`-th byte that is not zero, and cuts the
/// file at each multiple of `cuts`. Most pages of a database are empty.
pub fn survives_damage(path: &Path, flips: usize, cuts: usize, read: impl Fn() -> bool) {
    assert!(read(), "a sound store");
    let content = fs::read(path).expect("a file");
    for at in (0..content.len()).filter(|at| *at < 100 || content[*at] != 0).step_by(flips) {
        let mut flipped = content.clone();
        flipped[at] ^= 1 << (at % 8);
        fs::write(path, &flipped).expect("a file");
        read();
    }
    for length in (0..content.len()).step_by(cuts) {
        fs::write(path, &content[..length]).expect("a file");
        read();
    }
    fs::write(path, &content).expect("a file");
    assert!(read(), "a sound store");
}

pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a directory");
    for entry in fs::read_dir(from).expect("a directory") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a file");
        }
    }
}

/// Returns the content and the times of all files and directories.
pub fn fingerprint(directory: &Path) -> BTreeMap<PathBuf, (Vec<u8>, i64, i64)> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let metadata = fs::metadata(&path).expect("metadata");
        if metadata.is_dir() {
            all.extend(fingerprint(&path));
        }
        let content = if metadata.is_file() { fs::read(&path).expect("a file") } else { Vec::new() };
        all.insert(path, (content, metadata.mtime(), metadata.mtime_nsec()));
    }
    all
}
