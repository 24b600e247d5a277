//! `jeton inventory` and the dates of keys.

mod common;

use common::*;
use serde_json::json;

/// Two tokens with three keys, of which one has a certificate.
fn stocked() -> Option<Tool> {
    let tool = Tool::empty()?;
    tool.configure(&format!("[audit]\nfile = '{}'\n", tool.file("audit.jsonl")));
    tool.ok("token init --label web");
    tool.ok("token init --label vpn");
    tool.ok("key generate --token web --type ec:p256 --label www --id 01 --end 30d");
    tool.ok("key generate --token web --type aes:256 --label aes --id 02");
    tool.ok("key generate --token vpn --type ml-dsa-65 --label gate --id 01 --uses 7");
    tool.ok("cert self-sign --token vpn --label gate --subject CN=gate --days 60 --import --out gate.pem");
    Some(tool)
}

fn found(keys: &[Value]) -> Vec<[&str; 4]> {
    let fields = ["token", "class", "key_type", "label"];
    keys.iter().map(|key| fields.map(|name| key[name].as_str().expect("text"))).collect()
}

#[test]
fn all_tokens_are_listed_with_their_secret_keys_after_a_login() {
    let Some(tool) = stocked() else { return };
    let mut keys = tool.rows("inventory --login --json");
    keys.sort_by_key(|key| key["label"].to_string());
    let [aes, gate, www] = &keys[..] else { panic!("{keys:?}") };
    let expected = [
        ["web", "secret-key", "AES 256", "aes"],
        ["vpn", "private", "ML-DSA-65", "gate"],
        ["web", "private", "EC P-256", "www"],
    ];
    assert_eq!(found(&keys), expected);
    assert_eq!(
        (&aes["end"], &aes["uses_left"], &aes["certificate"]),
        (&json!(null), &json!(null), &json!(null))
    );
    assert_eq!((&gate["uses_left"], &gate["certificate"]), (&json!(6), &json!("CN=gate")));
    assert!(gate["certificate_end"].as_str().is_some_and(|end| end.ends_with('Z')), "{gate}");
    assert_eq!(www["id"], "01");

    // Without a login, the public halves. No PIN is tried, although the environment has one.
    let mut keys = tool.rows("inventory --json");
    keys.sort_by_key(|key| key["label"].to_string());
    let expected = [["vpn", "public", "ML-DSA-65", "gate"], ["web", "public", "EC P-256", "www"]];
    assert_eq!(found(&keys), expected);
    assert_eq!(keys[1]["end"], www["end"]);
    assert_eq!(keys[0]["certificate_end"], gate["certificate_end"]);
    let mut wrong = tool.command("inventory --json");
    succeed(wrong.env("JETON_PIN", "a wrong one"));
    let mut wrong = tool.command("inventory --json --login");
    says(fails(5, wrong.env("JETON_PIN", "a wrong one")), "9 tries left");
    assert_eq!(tool.rows("inventory --token vpn --login --json").len(), 1);
    says(tool.fails(3, "inventory --token absent"), "no token \"absent\"");
    let text = tool.ok("inventory --login");
    assert_eq!(text.lines().count(), 3, "{text}");
}

#[test]
fn keys_and_certificates_that_end_soon_give_an_exit_status() {
    let Some(tool) = stocked() else { return };
    let soon = |within: &str, status| {
        let text = tool.fails(status, &format!("inventory --json --within {within}"));
        let keys: Vec<Value> = serde_json::from_str(&text).expect("a list");
        found(&keys).iter().map(|[_, _, _, label]| (*label).to_owned()).collect::<BTreeSet<_>>()
    };
    assert_eq!(soon("90d", 1), ["gate", "www"].map(str::to_owned).into());
    assert_eq!(soon("40d", 1), ["www"].map(str::to_owned).into());
    assert_eq!(tool.ok("inventory --json --within 10d").trim(), "[]");
    tool.ok("key dates --token web --label www --end none");
    assert_eq!(tool.ok("inventory --within 40d"), "");
}

#[test]
fn the_dates_of_both_halves_of_a_pair_change_together() {
    let Some(tool) = Tool::new() else { return };
    let made =
        tool.rows("key generate --type ec:p256 --label www --start 2026-01-31 --end 2028-02-29 --json");
    assert!(made.iter().all(|key| key["start"] == "2026-01-31" && key["end"] == "2028-02-29"), "{made:?}");
    let changed = tool.rows("key dates --label www --end 2030-12-31 --json");
    assert_eq!(changed.len(), 2);
    assert!(
        changed.iter().all(|key| key["start"] == "2026-01-31" && key["end"] == "2030-12-31"),
        "{changed:?}"
    );
    says(tool.ok("object list --long --login"), "End:     2030-12-31");
    assert!(
        tool.rows("key dates --label www --start none --end none --json")
            .iter()
            .all(|key| key.get("end").is_none())
    );

    for (status, line, reason) in [
        (2, "key dates --label www", "--start or --end says which day to set"),
        (2, "key dates --end 2030-12-31", "choose the key with --label, --id or --uri"),
        (2, "key dates --label www --end 2030-02-30", "write a day, how far away it is, or none: 2028-01-31"),
        (3, "key dates --label absent --end 2030-12-31", "no such key"),
        // PKCS#11 has no key that ends before it starts.
        (7, "key dates --label www --start 2030-12-31 --end 2028-01-31", "CKR_"),
    ] {
        says(tool.fails(status, line), reason);
    }
    tool.ok("key generate --type ec:p256 --label www --allow-duplicate");
    says(tool.fails(1, "key dates --label www --end 2030-12-31"), "4 keys fit; choose one");
}

#[test]
fn the_audit_log_says_when_a_key_was_made_and_used_last() {
    let Some(tool) = stocked() else { return };
    let www = |keys: Vec<Value>| keys.into_iter().find(|key| key["label"] == "www").expect("a key");
    let none = www(tool.rows("inventory --json"));
    assert_eq!((&none["created"], &none["last_use"]), (&json!(null), &json!(null)));
    let before = www(tool.rows("inventory --login --json --audit audit.jsonl"));
    assert!(before["created"].as_str().is_some_and(|time| time.ends_with('Z')), "{before}");
    assert_eq!(before["last_use"], json!(null));
    tool.write("message", "hello");
    tool.ok("sign message --token web --label www --out signature");
    // The public half is known by the label and the ID.
    for line in ["inventory --login --json --audit audit.jsonl", "inventory --json --audit audit.jsonl"] {
        let after = www(tool.rows(line));
        assert_eq!(after["created"], before["created"]);
        assert!(after["last_use"].as_str() >= after["created"].as_str(), "{after}");
    }
    tool.fails(3, "inventory --audit absent.jsonl");
}

#[test]
fn other_programs_read_the_table_and_the_bill_of_materials() {
    let Some(tool) = stocked() else { return };
    tool.ok(&[
        "key",
        "generate",
        "--token",
        "web",
        "--type",
        "rsa:2048",
        "--label",
        "a \"b\", c",
        "--id",
        "0a",
    ]);
    let csv = tool.ok("inventory --login --csv");
    let header = "token,serial,class,key_type,label,id,created,start,end,uses_left,last_use,certificate,\
                  certificate_end,unique_id";
    assert_eq!(csv.lines().next(), Some(header));
    assert_eq!(csv.lines().count(), 5);
    says(&csv, ",private,RSA 2048,\"a \"\"b\"\", c\",0a,,");

    let bill = tool.json("inventory --login --cbom");
    assert_eq!((&bill["bomFormat"], &bill["specVersion"]), (&json!("CycloneDX"), &json!("1.6")));
    let components = bill["components"].as_array().expect("a list");
    assert_eq!(components.len(), 4 + 4);
    let named = |name: &str| {
        let component = components.iter().find(|component| component["name"] == name);
        component.unwrap_or_else(|| panic!("{name} in {bill:#}"))["cryptoProperties"].clone()
    };
    assert_eq!(named("ML-DSA-65")["algorithmProperties"]["nistQuantumSecurityLevel"], 3);
    assert_eq!(named("EC P-256")["algorithmProperties"]["curve"], "P-256");
    let www = named("www")["relatedCryptoMaterialProperties"].clone();
    assert_eq!((&www["type"], &www["state"]), (&json!("private-key"), &json!("active")));
    assert_eq!(www["algorithmRef"], "algorithm/EC P-256");
    assert!(www["expirationDate"].as_str().is_some_and(|date| date.ends_with("T00:00:00Z")), "{www}");
    tool.fails(2, "inventory --csv --cbom");
}

#[test]
fn the_tokens_of_another_module_are_listed_too() {
    let Some(tool) = Tool::empty() else { return };
    if peer(Known::SoftHsm2).is_none() {
        return;
    }
    fs::create_dir(tool.file("tokens")).expect("a directory");
    tool.write("softhsm", format!("directories.tokendir = {}\n", tool.file("tokens")));
    let softhsm = |line: &str| {
        let mut command = tool.command(&format!("{line} --module softhsm2"));
        succeed(command.env("SOFTHSM2_CONF", tool.file("softhsm")))
    };
    softhsm("token init --label hsm");
    softhsm("key generate --type ec:p256 --label ec --usage sign");
    let keys: Vec<Value> = serde_json::from_str(&softhsm("inventory --login --json")).expect("a list");
    assert_eq!(found(&keys), [["hsm", "private", "EC P-256", "ec"]]);
    assert_eq!(keys[0]["end"], json!(null));
}
