//! The tool in scripts: commands that are run again, JSON, exit statuses, manual pages and
//! completions.

mod common;

use std::os::unix::net::UnixListener;

use common::*;
use jeton_agent_wire::channel::Channel;
use jeton_agent_wire::status::{
    Bucket, OfClient, OfDirectory, OfFunction, OfMechanism, OfToken, PinState, Quantile,
};
use jeton_agent_wire::{MAX_FIRST, Reply, Request, Status, append, decode, finish, start};
use jeton_peers::Sandbox;

/// Makes a token, keys, a CA, certificates, a data object and a backup. Each line may be repeated.
const PROVISION: &str = r#"
jeton token init --label web --if-absent --json > token.json
jeton key generate --token web --type ec:p256 --label ca --id 01 --if-absent --json > ca.json
jeton key generate --token web --type rsa:2048 --label www --id 02 --if-absent > /dev/null
jeton key generate --token web --type aes:256 --label wrap --if-absent > /dev/null
jeton cert self-sign --token web --label ca --subject CN=CA --ca --import --out ca.pem --if-absent
jeton ca init --token web --label ca > /dev/null
jeton csr --token web --label www --subject CN=www --san dns:www.example.org --out www.csr --if-absent
jeton cert issue www.csr --token web --label ca --profile tls-server --out www.pem --if-absent
jeton cert import www.pem --token web --label www --id 02 --if-absent > /dev/null
test -f file.pem || openssl genpkey -algorithm ed25519 -out file.pem
jeton key import file.pem --token web --label imported --if-absent > /dev/null
jeton object import www.csr --token web --label request --if-absent > /dev/null
jeton backup new-key backup.key --if-absent --json | jq -r .recipient > recipients
jeton backup create web.backup --token web --recipients-file recipients --if-absent > /dev/null
jeton backup verify web.backup --identity backup.key --json | jq -e '.label == "web"' > /dev/null
jq -r '.token.serial' token.json
jq -r '.[] | select(.class == "private").uri' ca.json
jeton object list --token web --json | jq -r '.[] | "\(.class) \(.label) \(.id)"'
jeton cert issued --json | jq -r '.[] | "\(.serial) \(.status)"'
"#;

#[test]
fn a_provisioning_script_runs_twice_with_the_same_result() {
    let Some(tool) = Tool::empty() else { return };
    if !has("jq") || !has("openssl") {
        return;
    }
    let provision = || {
        let jeton = format!("jeton() {{ {} \"$@\"; }}\n", env!("CARGO_BIN_EXE_jeton"));
        let mut shell = Command::new("bash");
        shell.args(["-euo", "pipefail", "-c", &[&jeton, PROVISION].concat()]).current_dir(tool.path());
        shell.env("JETON_DIR", tool.file("tokens")).env("JETON_CONF", tool.file("conf"));
        run(shell.env("JETON_PIN", PIN).env("JETON_SO_PIN", SO_PIN))
    };
    let (status, first) = provision();
    assert_eq!(status, 0, "{first}");
    assert!(first.lines().count() > 10 && first.contains("pkcs11:"), "{first}");
    assert_eq!(provision(), (0, first));
}

#[test]
fn a_second_token_or_key_with_one_label_needs_the_option_that_allows_it() {
    let Some(tool) = Tool::new() else { return };
    tool.fails(4, "token init --label mine");
    tool.ok("token init --label mine --allow-duplicate");
    tool.ok("token init --label third");
    tool.fails(4, "token rename --token third --label mine");
    tool.ok("token delete --token third --yes");
    let serial =
        |at: usize| tool.json("token list --json")[at]["token"]["serial"].as_str().map(str::to_owned);
    tool.ok(&format!("token delete --serial {} --yes", serial(1).expect("a second token")));
    tool.ok("key generate --type ec:p256 --label key --id 01");
    tool.fails(4, "key generate --type ec:p256 --label key");
    tool.fails(4, "key generate --type ec:p256 --label other --id 01");
    // The key that is kept must be of the type that the script wants.
    tool.fails(4, "key generate --type ec:p384 --label key --if-absent");
    assert_eq!(tool.rows("object list --json").len(), 2);
    tool.ok("key generate --type ec:p256 --label key --allow-duplicate");
    assert_eq!(tool.rows("object list --json").len(), 4);
}

#[test]
fn each_failure_has_its_exit_status_and_json_names_it() {
    let Some(tool) = Tool::new() else { return };
    tool.ok("key generate --type ec:p256 --label key");
    tool.write("message", "text");
    tool.ok("backup new-key identity");
    let recipient = tool.json("backup new-key identity --if-absent --json")["recipient"].clone();
    tool.ok(&format!("backup create web.backup --recipient {}", recipient.as_str().expect("text")));
    let cases = [
        (2, "usage", "key generate --type nothing --label x"),
        (3, "not-found", "sign message --label other"),
        (3, "not-found", "sign missing --label key"),
        (3, "not-found", "object list --token other"),
        (4, "exists", "token init --label mine"),
        (5, "wrong-pin", "object list --pin wrongwrong"),
        (5, "wrong-pin", "backup verify web.backup --identity identity --pin wrongwrong"),
        (7, "refused", "pin change --new-pin 1"),
        (8, "damaged", "backup verify message --passphrase 123456789012"),
        (10, "device", "object list --module /etc/passwd"),
    ];
    for (status, name, line) in cases {
        let text = tool.fails(status, &format!("{line} --json"));
        let error: Value = serde_json::from_str(text.lines().last().expect("a line")).expect("JSON");
        assert_eq!((&error["status"], &error["error"]), (&status.into(), &name.into()), "{line}: {text}");
    }
    // The login of `pin change` set the count back to 0.
    for _ in 0..10 {
        tool.fails(5, "object list --pin wrongwrong");
    }
    tool.fails(6, "object list");
}

#[test]
fn a_listing_has_a_line_for_each_object_in_a_stable_order() {
    let Some(tool) = Tool::new() else { return };
    for label in ["b", "a", "c"] {
        tool.ok(&format!("key generate --type ed25519 --label {label}"));
    }
    let list = tool.ok("object list");
    let labels: Vec<_> = list.lines().filter_map(|line| line.split_whitespace().last()).collect();
    assert_eq!(labels, ["a", "a", "b", "b", "c", "c"], "{list}");
    assert!(list.lines().all(|line| line.len() <= 80), "{list}");
    let (_, text) = run(&mut tool.without_pins("object list"));
    assert!(text.lines().count() == 4 && text.contains("private objects are hidden"), "{text}");
}

#[test]
fn both_sides_of_ecdh_derive_one_key_and_data_objects_are_exported() {
    let Some(tool) = Tool::new() else { return };
    for label in ["one", "two"] {
        tool.ok(&format!("key generate --type ec:p256 --label {label} --usage derive"));
        tool.ok(&format!("key export --label {label} --out {label}.pem"));
    }
    tool.ok("key derive two.pem --with one --label ours");
    tool.ok("key derive one.pem --with two --label theirs");
    tool.write("message", "attack at dawn");
    tool.ok("encrypt message --label ours --out sealed");
    assert_eq!(tool.ok("decrypt sealed --label theirs"), "attack at dawn");
    if has("openssl") {
        // The first bytes of the secret are those that OpenSSL derives.
        tool.shell("openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out peer && openssl pkey -in peer -pubout -out peer.pem && openssl pkeyutl -derive -inkey peer -peerkey one.pem -out secret");
        tool.ok("key derive peer.pem --with one --kdf none --label raw");
        tool.ok("key import secret --type aes --label secret");
        tool.ok("encrypt message --label raw --out sealed --force");
        assert_eq!(tool.ok("decrypt sealed --label secret"), "attack at dawn");
    }
    tool.ok("object import message --label note --application mine");
    tool.fails(4, "object import message --label note --application mine");
    assert_eq!(tool.ok("object export --label note"), "attack at dawn");
    assert_eq!(tool.rows("object list --class data --json").len(), 1);
}

#[test]
fn the_help_fits_80_columns_and_the_manual_has_its_sections() {
    let Some(tool) = Tool::empty() else { return };
    for line in ["--help", "cert issue --help", "key import --help", "doctor --help"] {
        let text = tool.ok(line);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
    assert!(tool.ok("--help").contains("Keys and certificates:\n  key          Generate, import"));
    tool.ok("manual pages");
    let page = String::from_utf8(tool.read("pages/jeton-token-init.1")).expect("text");
    for section in ["EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"] {
        let headings = [format!(".SH \"{section}\""), format!(".SH {section}")];
        assert!(headings.iter().any(|heading| page.contains(heading)), "{page}");
    }
    let bash = String::from_utf8(tool.read("pages/jeton.bash")).expect("text");
    for value in ["secret-key", "ml-dsa-65", "tls-server", "key-compromise"] {
        assert!(bash.contains(value), "{value}");
    }
}

#[test]
fn the_figures_of_an_agent_are_text_json_or_for_prometheus() {
    let scratch = Scratch::new();
    let socket = scratch.file("socket");
    let answers = format!("{socket}.admin");
    let listener = UnixListener::bind(&answers).expect("a socket");
    let of_client = OfClient {
        client: "uid 33".to_owned(),
        user: Some("www-data".to_owned()),
        rule: Some(2),
        connections: 1,
        calls: 90,
        refused: 2,
        refused_connections: 3,
        wrong_pins: 4,
        failed_logins: 5,
    };
    // The same user, whom other rules refuse since.
    let refused = OfClient {
        rule: None,
        calls: 0,
        refused: 0,
        refused_connections: 4,
        wrong_pins: 0,
        failed_logins: 0,
        ..of_client.clone()
    };
    let (label, serial) = ("w\"e\\b".to_owned(), "0123456789abcdef".to_owned());
    let of_token = OfToken { label, serial, pin: PinState::Locked, so_pin: PinState::Good };
    let status = Status {
        seconds: 200_000,
        applications: 1,
        connections: 1,
        sessions: 4,
        clients: vec![of_client, refused],
        tokens: vec![of_token],
        requests: 100,
        times: [(0.5, 0.000_25), (0.9, 0.083_886_1), (0.99, 7.25)]
            .map(|(part, seconds)| Quantile { part, seconds: Some(seconds) })
            .into(),
        missing: vec!["files: this kernel has no Landlock".to_owned()],
        sum: 0.75,
        buckets: vec![Bucket { seconds: 0.000_016_384, requests: 7 }],
        functions: vec![OfFunction { function: "C_Sign".to_owned(), calls: 80, failed: 1 }],
        mechanisms: vec![OfMechanism { mechanism: "CKM_ECDSA".to_owned(), calls: 40 }],
        workers: [1, 256],
        most_connections: 7168,
        failed_workers: 6,
        directories: vec![OfDirectory { path: "/var/lib".to_owned(), free: 3 << 30, size: 64 << 30 }],
        backup: Some(("/backups".to_owned(), 1_800_000_000)),
    };
    let expected = serde_json::to_value(&status).expect("JSON");
    let agent = std::thread::spawn(move || {
        for stream in listener.incoming().take(5) {
            let mut channel = Channel::new(stream.expect("a client"), 1);
            channel.receive(MAX_FIRST, |_| true).expect("a request");
            assert!(matches!(decode(channel.parts().0), Ok(Request::Status)));
            start(&mut channel.frame);
            append(&Reply::Status, &mut channel.frame).expect("a reply");
            append(&status, &mut channel.frame).expect("a reply");
            finish(&mut channel.frame).expect("a reply");
            channel.send().expect("a client");
        }
    });
    let ask = |more: &str| {
        run(&mut jeton(["agent", "status", "--socket", &socket].into_iter().chain(more.split_whitespace())))
    };
    let (code, text) = ask("");
    assert_eq!(code, 0, "{text}");
    let start = "1 application, 1 connection, 4 sessions\n100 requests in 2.3 days, 0.0 in a second\n\
                 50 % took at most 250 µs\n90 % took at most 84 ms\n99 % took at most 7.2 s\n";
    assert!(text.starts_with(start), "{text}");
    assert!(text.contains("not in force for the processes of clients: files: this kernel has no Landlock"));
    assert!(
        ["uid 33", "www-data", "3.0 GiB of 64 GiB free at /var/lib", "locked"]
            .iter()
            .all(|part| text.contains(part)),
        "{text}"
    );
    let (code, text) = ask("--json");
    assert_eq!((code, serde_json::from_str::<Value>(&text).expect("JSON")), (0, expected));
    let (code, text) = ask("--prometheus");
    assert_eq!(code, 0, "{text}");
    for line in [
        "jeton_agent_sessions 4",
        "jeton_agent_refused_total{client=\"uid 33\"} 2",
        "jeton_agent_refused_connections_total{client=\"uid 33\"} 7",
        "jeton_agent_wrong_pins_total{client=\"uid 33\"} 4",
        "jeton_agent_failed_logins_total{client=\"uid 33\"} 5",
        "jeton_agent_function_calls_total{function=\"C_Sign\"} 80",
        "jeton_agent_function_failures_total{function=\"C_Sign\"} 1",
        "jeton_agent_mechanism_calls_total{mechanism=\"CKM_ECDSA\"} 40",
        "jeton_agent_locked{token=\"w\\\"e\\\\b\",serial=\"0123456789abcdef\",pin=\"user\"} 1",
        "jeton_agent_workers_limit 256",
        "jeton_agent_worker_failures_total 6",
        "jeton_agent_free_bytes{directory=\"/var/lib\"} 3221225472",
        "# TYPE jeton_agent_request_seconds histogram",
        "jeton_agent_request_seconds_bucket{le=\"0.000016384\"} 7",
        "jeton_agent_request_seconds_bucket{le=\"+Inf\"} 100",
        "jeton_agent_request_seconds_sum 0.75",
        "jeton_agent_request_seconds_count 100",
    ] {
        assert!(text.lines().any(|found| found == line), "{text}");
    }
    // Prometheus drops a second value with the same labels.
    assert_eq!(text.matches("jeton_agent_refused_connections_total{").count(), 1, "{text}");
    assert_eq!(ask("--prometheus --json").0, 2);
    // A file for the node exporter, which other users read.
    let file = scratch.file("jeton.prom");
    assert_eq!(ask(&format!("--prometheus --out {file}")).0, 0);
    assert_eq!(fs::read_to_string(file).expect("a file"), text);
    assert_eq!(ask("--out other").0, 2);
    // Without `--socket`, the tool asks the agent that a client would use.
    let ask_named = |named: &str| run(jeton(["agent", "status"]).env("JETON_AGENT", named));
    let (code, text) = ask_named(&format!("tls://keys.example.org:7512, unix:{socket}"));
    assert!(code == 0 && text.contains("4 sessions"), "{text}");
    let (code, text) = ask_named("tls://keys.example.org:7512");
    assert!(code == 2 && text.contains("JETON_AGENT names no socket of this host"), "{text}");
    agent.join().expect("five requests");
    fs::remove_file(&answers).expect("a socket");
    assert_eq!(ask("").0, 3);
}

#[test]
fn a_token_that_the_agent_unlocks_needs_no_pin() {
    let (Some(tool), Some(client)) = (Tool::new(), peer(Known::JetonAgent)) else { return };
    let directory = tool.path();
    tool.ok(&["key", "generate", "--type", "ec:p256", "--label", "key"]);
    tool.write("pin", PIN);
    let rules = "[[client]]\nlogin = { token = 'mine', pin-file = 'PIN' }\n";
    tool.write("rules.toml", rules.replace("PIN", &tool.file("pin")));
    // `Tool` and `Sandbox` name the directory of the tokens alike.
    let sandbox = Sandbox::fresh(Known::JetonAgent, directory, None).expect("a directory");
    sandbox.start_agent(directory).expect("an agent");
    let through = |line: &str| {
        let mut command = tool.without_pins(line);
        run(command.args(["--module", "jeton-agent"]).envs(sandbox.environment.clone()))
    };
    let (code, text) = through("sign conf --label key --out signature");
    assert_eq!(code, 0, "{text}");
    let (code, text) = through("verify conf --label key --signature signature");
    assert_eq!(code, 0, "{text}");
    // `JETON_MODULE` may name the client module. Then the tokens are not those of this user.
    let mut command = tool.without_pins("token list");
    let (code, text) = run(command.env("JETON_MODULE", client).envs(sandbox.environment.clone()));
    assert!(code == 0 && text.contains("mine") && !text.contains(".jeton"), "exit {code}\n{text}");
    // The administrator sees clients and locks them.
    let agent =
        |arguments: &[&str]| run(jeton(["agent"].iter().chain(arguments)).envs(sandbox.environment.clone()));
    let (code, text) = agent(&["list", "--json"]);
    assert_eq!((code, text.trim()), (0, "[]"), "{text}");
    let (code, text) = agent(&["status"]);
    assert!(code == 0 && text.contains("mine"), "{text}");
    let (code, text) = agent(&["list"]);
    assert_eq!((code, text.trim()), (0, "no application is connected"), "{text}");
    let (code, said) = agent(&["lock", "uid 4711"]);
    assert!(code == 2 && said.contains("no client has the name \"uid 4711\""), "{said}");
    for name in ["UID 0", "uid 0 "] {
        let (code, said) = agent(&["lock", name]);
        let known = format!("no client has the name {name:?}; known are: uid ");
        assert!(code != 0 && said.contains(&known), "exit {code}: {said}");
    }
    // A variable of a shell that is not set.
    let (code, said) = agent(&["lock", ""]);
    assert!(code == 2 && said.contains("a value is required for '[CLIENT]'"), "{said}");
    let (code, text) = agent(&["lock", "--all"]);
    assert!(code == 0 && text.contains("0 connections ended"), "{text}");
    // Another token, into which the agent does not log in, needs its PIN.
    tool.ok(&["token", "init", "--label", "other"]);
    let (code, text) = through("object list --token other --login");
    assert!(code != 0 && text.contains("PIN"), "exit {code}\n{text}");
}
