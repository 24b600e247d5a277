//! The installer, and a token directory that a service account and its administrators share through
//! a group.
//!
//! The tests of the directory run the tool as other users, so they need root. Without root they
//! print that they are skipped. `tool/packaging/check` tests the Debian package.

mod common;

use common::*;

/// Numbers that no user or group of the machine has.
const GROUP: u32 = 60_400;
const ADMINISTRATOR: (u32, u32) = (60_401, GROUP);
const SERVICE: (u32, u32) = (60_402, GROUP);
const STRANGER: (u32, u32) = (60_403, 60_403);

/// A shared directory, with the tool and the module where every user can read them.
struct Shared {
    scratch: Scratch,
}

impl Shared {
    /// Returns `None` if the module is not built, or without root.
    fn new() -> Option<Self> {
        let module = peer(Known::Jeton)?;
        let shared = Self { scratch: Scratch::new() };
        if chown(shared.scratch.path(), Some(0), Some(GROUP)).is_err() {
            skip("only root can run programs as other users");
            return None;
        }
        let mode = |path: PathBuf, mode| {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
        };
        mode(shared.scratch.path().into(), 0o755);
        fs::copy(module, shared.scratch.file("module.so")).expect("a copy");
        copy_tool(shared.scratch.file("jeton"));
        let tokens = shared.scratch.path().join("tokens");
        fs::create_dir(&tokens).expect("a directory");
        chown(&tokens, Some(0), Some(GROUP)).expect("root");
        mode(tokens.clone(), 0o2770);
        let text = format!("token-dir = '{}'\npin = {{ memory-kib = 8, passes = 1 }}\n", tokens.display());
        fs::write(shared.scratch.file("jeton.toml"), text).expect("a file");
        mode(shared.scratch.path().join("jeton.toml"), 0o644);
        Some(shared)
    }

    fn command(&self, (user, group): (u32, u32), arguments: &[&str]) -> Command {
        // The usual umask, which removes the write permission of groups.
        let mut command = Command::new("sh");
        command.args(["-c", "umask 022; exec ./jeton \"$@\"", "sh"]).args(arguments);
        command.uid(user).gid(group).current_dir(self.scratch.path()).stdin(Stdio::null());
        command.env_clear().env("JETON_CONF", self.scratch.file("jeton.toml"));
        command.env("JETON_MODULE", self.scratch.file("module.so"));
        command.env("JETON_PIN", "87654321").env("JETON_SO_PIN", "12345678");
        command
    }

    fn ok(&self, user: (u32, u32), arguments: &[&str]) -> String {
        let (code, text) = run(&mut self.command(user, arguments));
        assert_eq!(code, 0, "{user:?} {arguments:?}\n{text}");
        text
    }
}

#[test]
fn a_service_and_its_administrator_use_one_token() {
    let Some(shared) = Shared::new() else { return };
    fs::write(shared.scratch.file("message"), "a message").expect("a file");
    shared.ok(ADMINISTRATOR, &["token", "init", "--label", "shared"]);
    let key = |label| ["key", "generate", "--type", "ec:prime256v1", "--label", label];
    shared.ok(ADMINISTRATOR, &key("made by the administrator"));
    shared.ok(SERVICE, &key("made by the service"));
    for user in [ADMINISTRATOR, SERVICE, (0, 0)] {
        for label in ["made by the administrator", "made by the service"] {
            shared.ok(user, &["sign", "message", "--label", label]);
        }
    }
    let entries = |path: &Path| fs::read_dir(path).expect("a directory").flatten().collect::<Vec<_>>();
    for own in entries(&shared.scratch.path().join("tokens")) {
        let data = own.metadata().expect("a directory");
        assert_eq!((data.gid(), data.mode() & 0o7777), (GROUP, 0o2770), "{own:?}");
        for file in entries(&own.path()) {
            let data = file.metadata().expect("a file");
            assert_eq!((data.gid(), data.mode() & 0o777), (GROUP, 0o660), "{file:?}");
        }
    }
    // Wrong PINs of one user count for the other.
    for _ in 0..2 {
        let mut wrong = shared.command(SERVICE, &["object", "list", "--login"]);
        assert_eq!(run(wrong.env("JETON_PIN", "wrong pin")).0, 5);
    }
    let info = shared.ok(ADMINISTRATOR, &["token", "info"]);
    assert!(info.contains("; 2 of 10 wrong PINs"), "{info}");
}

#[test]
fn a_user_outside_the_group_cannot_read_a_shared_token() {
    let Some(shared) = Shared::new() else { return };
    shared.ok(ADMINISTRATOR, &["token", "init", "--label", "shared"]);
    for command in [
        &["token", "list"][..],
        &["token", "info"],
        &["token", "rename", "--label", "other"],
        &["token", "init", "--test"],
        &["object", "list"],
        &["pin", "reset", "--failures"],
    ] {
        let (code, text) = run(&mut shared.command(STRANGER, command));
        let is_quiet = text.contains("Permission denied") && !text.contains("ERROR");
        assert!(code == 9 && is_quiet, "exit {code}\n{text}");
    }
}

#[test]
fn the_installer_removes_all_installed_files_except_the_configuration() {
    let Some(module) = peer(Known::Jeton) else { return };
    let scratch = Scratch::new();
    let binaries = scratch.path().join("binaries");
    fs::create_dir(&binaries).expect("a directory");
    // The installer reads no module, so the same file takes the place of the client modules.
    for name in ["libjeton_pkcs11.so", "libjeton_client.so", "libjeton_client_tls.so"] {
        fs::copy(&module, binaries.join(name)).expect("a copy");
    }
    copy_tool(binaries.join("jeton"));
    // The installer runs neither the driver nor the agent, so any program takes their places.
    copy_tool(binaries.join("jeton-driver"));
    copy_tool(binaries.join("jeton-agent"));
    let root = scratch.path().join("root");
    let install = |options: &[&str]| {
        let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/install"));
        command.args(options).arg("--destdir").arg(&root).arg("--binaries").arg(&binaries);
        succeed(&mut command)
    };
    let installed = || {
        let listed = succeed(Command::new("find").arg(&root).args(["-type", "f", "-printf", "%P %m\n"]));
        let mut files: Vec<_> = listed.lines().map(str::to_owned).collect();
        files.retain(|file| !file.contains("man1/jeton-"));
        files.sort();
        files
    };
    install(&["--prefix", "/usr", "--libdir", "lib/x86_64-linux-gnu"]);
    let expected = [
        "etc/jeton/jeton.toml 644",
        "etc/logrotate.d/jeton 644",
        "usr/bin/jeton 755",
        "usr/bin/jeton-agent 755",
        "usr/bin/jeton-driver 755",
        "usr/lib/systemd/system/jeton-agent-admin.socket 644",
        "usr/lib/systemd/system/jeton-agent-admin@.socket 644",
        "usr/lib/systemd/system/jeton-agent-metrics.socket 644",
        "usr/lib/systemd/system/jeton-agent.service 644",
        "usr/lib/systemd/system/jeton-agent.socket 644",
        "usr/lib/systemd/system/jeton-agent@.service 644",
        "usr/lib/systemd/system/jeton-agent@.socket 644",
        "usr/lib/systemd/system/jeton-backup@.service 644",
        "usr/lib/systemd/system/jeton-backup@.timer 644",
        "usr/lib/systemd/system/jeton-crl@.service 644",
        "usr/lib/systemd/system/jeton-crl@.timer 644",
        "usr/lib/tmpfiles.d/jeton.conf 644",
        "usr/lib/x86_64-linux-gnu/pkcs11/libjeton_client.so 644",
        "usr/lib/x86_64-linux-gnu/pkcs11/libjeton_client_tls.so 644",
        "usr/lib/x86_64-linux-gnu/pkcs11/libjeton_pkcs11.so 644",
        "usr/share/bash-completion/completions/jeton 644",
        "usr/share/fish/vendor_completions.d/jeton.fish 644",
        "usr/share/jeton/monitor/dashboard.json 644",
        "usr/share/jeton/monitor/jeton.rules.yml 644",
        "usr/share/jeton/roles/application.toml 644",
        "usr/share/jeton/roles/auditor.toml 644",
        "usr/share/jeton/roles/operator.toml 644",
        "usr/share/man/man1/jeton.1 644",
        "usr/share/man/man8/jeton-agent.8 644",
        "usr/share/p11-kit/modules/jeton.module 644",
        "usr/share/zsh/site-functions/_jeton 644",
    ];
    assert_eq!(installed(), expected);
    assert!(root.join("usr/share/man/man1/jeton-token.1").exists());
    install(&["--uninstall", "--prefix", "/usr", "--libdir", "lib/x86_64-linux-gnu"]);
    assert_eq!(installed(), expected[..2]);
    // A clone may have been built without the client module with TLS.
    fs::remove_file(binaries.join("libjeton_client_tls.so")).expect("a file");
    // The configuration that an administrator changed stays.
    fs::write(root.join("etc/jeton/jeton.toml"), "[pin]\nretries = 3\n").expect("a file");
    let before = installed();
    install(&["--prefix", "/opt/jeton"]);
    let new: Vec<_> = installed().into_iter().filter(|file| !before.contains(file)).collect();
    assert!(new.iter().all(|file| file.starts_with("opt/jeton/")), "{new:?}");
    install(&["--uninstall", "--prefix", "/opt/jeton"]);
    assert_eq!(installed(), before);
    install(&["--prefix", "/usr/local", "--system"]);
    for file in ["etc/pkcs11/modules/jeton.module 644", "usr/local/lib/libjeton_pkcs11.so 644"] {
        assert!(installed().contains(&file.to_owned()), "{file}");
    }
    assert!(!installed().iter().any(|file| file.contains("client_tls")));
    let kept = fs::read_to_string(root.join("etc/jeton/jeton.toml")).expect("a file");
    assert_eq!(kept, "[pin]\nretries = 3\n");
}

/// The pages of a package link to files beside its docs.
#[test]
fn a_package_has_the_files_that_its_pages_link_to() {
    let scratch = Scratch::new();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/linked");
    succeed(Command::new(script).arg(scratch.path()));
    for file in ["SECURITY.md", "tool/packaging/windows.md", "conformance/fuzz/differences.tsv"] {
        assert!(scratch.path().join(file).exists(), "{file}");
    }
    assert!(!scratch.path().join("docs").exists());
}

#[test]
fn systemd_understands_the_units_and_an_agent_for_one_client_is_as_confined_as_the_other() {
    let text = |unit: &str| {
        let path = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/packaging")).join(unit);
        fs::read_to_string(path).expect("a unit")
    };
    let protection = |unit: &str| {
        let text = text(unit);
        let at = text.find("LimitMEMLOCK=").expect("the first line of what both have");
        text[at..].to_owned()
    };
    assert_eq!(protection("jeton-agent@.service"), protection("jeton-agent.service"));
    if !has("systemd-analyze") {
        return;
    }
    let scratch = Scratch::new();
    let units = [
        "jeton-agent.service",
        "jeton-agent.socket",
        "jeton-agent-admin.socket",
        "jeton-agent@.service",
        "jeton-agent@.socket",
        "jeton-agent-admin@.socket",
    ];
    let mut verify = Command::new("systemd-analyze");
    verify.arg("verify");
    for unit in units {
        // systemd looks for the programs on this machine.
        let text = text(unit).replace("/usr/bin/jeton-agent", "/bin/true");
        let path = scratch.file(&unit.replace('@', "@web"));
        fs::write(&path, text).expect("a unit");
        verify.arg(path);
    }
    assert_eq!(succeed(&mut verify), "");
}

#[test]
fn each_line_of_the_installed_configuration_is_valid() {
    let scratch = Scratch::new();
    let text = include_str!("../packaging/jeton.toml");
    // `#key` is a disabled key, and `# Text` is a comment.
    let enabled: String = text
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') => format!("{rest}\n"),
            _ => format!("{line}\n"),
        })
        .collect();
    for configuration in [text, &enabled] {
        fs::write(scratch.file("jeton.toml"), configuration).expect("a file");
        let mut check = jeton(["config", "check"]);
        succeed(check.env_clear().env("HOME", scratch.path()).env("JETON_CONF", scratch.file("jeton.toml")));
    }
    assert!(enabled.contains("\ntoken-dir = "), "{enabled}");
}
