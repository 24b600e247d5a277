//! The roles of the packages: what each may do, and what it may not.

mod common;

use common::*;
use jeton_peers::Sandbox;

/// A token with keys, and an agent with the rules of a role for this user.
struct Role {
    tool: Tool,
    sandbox: Sandbox,
}

impl Role {
    /// Returns `None` if the agent or its client is not built.
    fn new(rules: &str, group: &str) -> Option<Self> {
        let (tool, _) = (Tool::new()?, peer(Known::JetonAgent)?);
        tool.ok("key generate --type ec:p256 --label www --id 01");
        tool.ok("key generate --type aes:256 --label aes --id 02 --extractable");
        tool.write("message", "hello");
        tool.ok("sign message --label www --out signature");
        let group = format!("group = \"{group}\"");
        assert!(rules.contains(&group), "{rules}");
        let user = format!("uid = {}", rustix::process::geteuid().as_raw());
        tool.write("rules.toml", rules.replace(&group, &user));
        let sandbox = Sandbox::fresh(Known::JetonAgent, tool.path(), None).expect("a directory");
        sandbox.start_agent(tool.path()).expect("an agent");
        Some(Self { tool, sandbox })
    }

    fn run(&self, line: &str) -> (i32, String) {
        let mut command = self.tool.command(line);
        run(command.args(["--module", "jeton-agent"]).envs(self.sandbox.environment.clone()))
    }

    fn may(&self, line: &str) -> String {
        let (code, text) = self.run(line);
        assert_eq!(code, 0, "{line}\n{text}");
        text
    }

    fn may_not(&self, lines: &[&str]) {
        for line in lines {
            let (code, text) = self.run(line);
            assert_eq!(code, 7, "{line}\n{text}");
            says(text, "CKR_FUNCTION_NOT_SUPPORTED");
        }
    }
}

const USES: [&str; 4] = [
    "sign message --label www --out other",
    "encrypt message --label aes --out sealed",
    "key wrap --label aes --with aes --out wrapped",
    "csr --label www --subject CN=a --out a.csr",
];

#[test]
fn an_auditor_sees_everything_and_uses_and_changes_nothing() {
    let rules = include_str!("../packaging/roles/auditor.toml");
    let Some(role) = Role::new(rules, "jeton-auditor") else { return };
    says(role.may("object list --login"), "aes");
    says(role.may("inventory --login"), "www");
    role.may("verify message --label www --signature signature");
    role.may("key export --label www --out public.pem");
    role.may("hash message");
    role.may_not(&USES);
    role.may_not(&[
        "key generate --type ec:p256 --label new",
        "object delete --label www --yes",
        "object set --label aes --set-label other",
        "key dates --label www --end 30d",
        "object import message --label note",
        "pin change --new-pin another-one",
    ]);
}

#[test]
fn an_operator_makes_and_removes_keys_and_uses_none() {
    let rules = include_str!("../packaging/roles/operator.toml");
    let Some(role) = Role::new(rules, "jeton-operator") else { return };
    role.may("key generate --type ec:p256 --label new --id 0a --end 90d");
    role.may("key dates --label new --end 30d");
    role.may("object set --label aes --set-label renamed");
    role.may("object set --label renamed --set-label aes");
    role.may("object delete --label new --yes");
    role.may("object import message --label note");
    role.may("pin change --new-pin 87654321");
    says(role.may("pin unblock --new-pin 87654321"), "at the agent");
    says(role.may("inventory --login"), "www");
    role.may_not(&USES);
    role.may_not(&["token init --token mine --label erased --yes"]);
}

#[test]
fn an_application_uses_keys_and_changes_none() {
    let rules = include_str!("../packaging/roles/application.toml");
    let Some(role) = Role::new(rules, "jeton-application") else { return };
    role.may("sign message --label www --out other");
    role.may("verify message --label www --signature other");
    role.may("encrypt message --label aes --out sealed");
    role.may("decrypt sealed --label aes --out opened");
    role.may("csr --label www --subject CN=a --out a.csr");
    role.may_not(&[
        "key generate --type ec:p256 --label new",
        "object delete --label www --yes",
        "object set --label aes --set-label other",
        "key wrap --label aes --with aes --out wrapped",
        "pin change --new-pin another-one",
        "pin unblock --new-pin another-one",
        "token init --token mine --label erased --yes",
    ]);
}

/// `pin reset` and others work on files. The user of the client has other tokens than the agent.
#[test]
fn a_command_for_files_is_refused_for_the_tokens_of_the_agent() {
    let (Some(tool), Some(client)) = (Tool::new(), peer(Known::JetonAgent)) else { return };
    let refused = |command: &mut Command| {
        let text = fails(9, command.env_remove("JETON_DIR"));
        says(text, "runuser -u jeton -- env -u JETON_MODULE JETON_DIR=/var/lib/jeton/agent jeton");
    };
    for line in ["pin reset --failures", "token rename --label other", "token info", "backup create backup"] {
        refused(tool.command(line).env("JETON_MODULE", &client));
    }
    refused(&mut tool.command("token delete --token mine --yes --module jeton-agent"));
    // The files that the variable names are those of the caller's choice.
    succeed(tool.command("token info").env("JETON_MODULE", &client));
}

/// The command of the service makes a backup without a PIN, which only the key of the recipients
/// opens.
#[test]
fn a_backup_needs_no_pin_and_its_service_cannot_open_it() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("key generate --type ec:p256 --label www --id 01");
    let recipient = tool.ok("backup new-key backup.key");
    tool.write("recipients", recipient.trim().strip_prefix("Recipient: ").expect("a recipient"));
    let unit = include_str!("../packaging/jeton-backup@.service");
    let line =
        unit.lines().find_map(|line| line.strip_prefix("ExecStart=/usr/bin/jeton ")).expect("a command");
    let line = line.replace("/var/backups/jeton/", "").replace("/etc/jeton/backup-recipients", "recipients");
    let line = line.replace("%i", "mine");
    for _ in 0..2 {
        succeed(&mut tool.without_pins(&line));
    }
    let mut verify = tool.without_pins("backup verify mine.backup --identity backup.key");
    succeed(&mut verify);
    let (code, text) = run(&mut tool.without_pins("backup verify mine.backup"));
    assert_ne!(code, 0, "{text}");
    assert!(!tool.read("mine.backup").windows(3).any(|part| part == b"www"), "a label in the backup");
}
