//! `jeton migrate`: stores that the installed modules made, as a user migrates them. The attributes
//! of each object are read through both modules and compared.

mod common;

use common::migration::{Migration, copy, survives_damage};
use common::old_store::Old;
use common::*;

/// Returns the store that SoftHSMv2 made; the tests use copies of it. `None` if a program is
/// absent.
fn store() -> Option<&'static Old> {
    static STORE: OnceLock<Option<Old>> = OnceLock::new();
    let store = STORE.get_or_init(|| {
        let there = has("softhsm2-util") && has("pkcs11-tool") && has("openssl");
        if there { Old::new(Known::SoftHsm2, "file") } else { None }
    });
    store.as_ref()
}

fn migration() -> Option<Migration> {
    store().map(Old::migration)
}

/// Returns the numbers of the objects and of the private keys in the store.
fn counts() -> (usize, usize) {
    store().map(|store| (store.objects, store.pairs)).expect("the store")
}

/// The attributes that may differ in the new token. `docs/migration.md` has the reasons.
const DIFFERENT: [&str; 14] = [
    "CKA_UNIQUE_ID",
    "CKA_LOCAL",
    "CKA_KEY_GEN_MECHANISM",
    "CKA_ALWAYS_SENSITIVE",
    "CKA_NEVER_EXTRACTABLE",
    "CKA_MODULUS_BITS",
    "CKA_VALUE_LEN",
    "CKA_PRIME_BITS",
    "CKA_CHECK_VALUE",
    "CKA_EC_PARAMS",
    "CKA_EC_POINT",
    "CKA_KEY_TYPE",
    // Some modules do not show these attributes.
    "CKA_PUBLIC_KEY_INFO",
    "CKA_ALLOWED_MECHANISMS",
];

/// The attributes of an object: the names, and the values in hexadecimal digits.
type Attributes = BTreeMap<String, String>;

/// Returns the attributes of every object that a command of the tool lists. The keys of the map are
/// class, label and ID.
fn attributes_of(command: impl Fn(&[&str]) -> Command) -> BTreeMap<(String, String, String), Attributes> {
    let json = |arguments: &[&str]| -> Value {
        serde_json::from_str(&succeed(&mut command(arguments))).expect("JSON")
    };
    let text = |value: &Value| value.as_str().expect("a string").to_owned();
    let mut all = BTreeMap::new();
    for object in json(&["object", "list", "--json"]).as_array().expect("a list") {
        let [class, label, id] = ["class", "label", "id"].map(|name| text(&object[name]));
        // Kryoptic lists its mechanisms and profiles, and NSS the trust in certificates.
        if class.starts_with("class") {
            continue;
        }
        let mut show = vec!["object", "show", "--json", "--class", &class, "--label", &label];
        if !id.is_empty() {
            show.extend(["--id", &id]);
        }
        let shown = json(&show);
        let attributes = shown.as_array().expect("a list").iter();
        let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let attributes = attributes.map(|one| (text(&one["attribute"]), value(&one["value"]))).collect();
        assert!(all.insert((class, label, id), attributes).is_none());
    }
    all
}

/// Migrates a store, and compares the attributes of every object through both modules.
fn check(old: &Old, name: &str) {
    let (count, pairs) = (old.objects, old.pairs);
    old.keep(name);
    let migration = old.migration();
    println!("{name}: {}", migration.migrates_once(&["--label", "new"], count, pairs));

    let there = attributes_of(|arguments| old.on_token(arguments));
    let here = attributes_of(|arguments| {
        let mut command = jeton(arguments);
        command.env("JETON_DIR", migration.tokens()).env("JETON_CONF", migration.scratch.file("conf"));
        command.env("JETON_PIN", PIN).args(["--token", "new"]);
        command
    });
    assert_eq!(there.keys().collect::<Vec<_>>(), here.keys().collect::<Vec<_>>());
    assert_eq!(here.len(), count);
    let mut different = BTreeSet::new();
    for (object, attributes) in &there {
        for (attribute, value) in attributes {
            let new = here[object].get(attribute);
            let integer = |value: &str| value.trim_start_matches("00").to_owned();
            if new.map(|new| integer(new)) != Some(integer(value)) {
                different.insert(attribute.as_str());
                let known = DIFFERENT.contains(&attribute.as_str());
                // The new token may lack an attribute whose old value is zero, such as a flag that
                // is false.
                let absent = new.is_none() && (value == "false" || value.bytes().all(|digit| digit == b'0'));
                assert!(known || absent, "{object:?}: {attribute} was {value} and is {new:?}");
            }
        }
    }
    println!("{name}: {count} objects, {pairs} pairs; different: {different:?}");
}

#[test]
fn every_object_of_each_module_is_migrated_once_with_its_attributes_and_each_key_is_proved() {
    // SoftHSMv2 writes to its files at a login, so it does not work on the store that other tests
    // copy.
    for (module, backend, name) in [
        (Known::SoftHsm2, "file", "softhsm-file"),
        (Known::SoftHsm2, "db", "softhsm-sqlite"),
        (Known::Nss, "", "nss"),
        (Known::Kryoptic, "", "kryoptic"),
    ] {
        if let Some(old) = Old::new(module, backend) {
            check(&old, name);
        }
    }
}

#[test]
fn a_dry_run_lists_every_object_and_writes_nothing() {
    let Some(migration) = migration() else { return };
    let (objects, pairs) = counts();
    let text = succeed(&mut migration.command(&["--dry-run"]));
    assert_eq!(text.matches("\nmigrated      ").count(), objects, "{text}");
    assert_eq!(text.matches(", proved\n").count(), pairs, "{text}");
    assert_eq!(migration.listed(), Vec::<String>::new());
}

#[test]
fn the_pin_may_come_from_a_file_or_a_descriptor() {
    let Some(migration) = migration() else { return };
    let pin = migration.scratch.file("pin");
    fs::write(&pin, format!("{PIN}\n")).expect("a file");
    succeed(migration.command(&["--dry-run", "--pin-file", &pin]).env_remove("JETON_PIN"));
    let mut command = migration.command(&["--dry-run", "--pin-fd", "0"]);
    succeed(command.env_remove("JETON_PIN").stdin(File::open(&pin).expect("the file")));
    let new = migration.scratch.file("new");
    fs::write(&new, "another PIN\n").expect("a file");
    succeed(&mut migration.command(&["--new-pin-file", &new]));
    says(fails(1, &mut migration.command(&[])), "the PIN does not open it");
    says(succeed(&mut migration.command(&["--new-pin-file", &new])), "objects already");
}

#[test]
fn a_wrong_pin_and_a_pin_that_jeton_refuses_leave_no_token() {
    let Some(migration) = migration() else { return };
    migration.refuses_pin("--pin-file", "wrong", "the PIN is wrong");
    migration.refuses_pin("--new-pin-file", "123", "the token takes 4 to 255");
}

#[test]
fn wrong_usage_ends_with_exit_status_2() {
    let Some(migration) = migration() else { return };
    for arguments in
        [&["--token", "other"][..], &["--unknown"], &["--label", "a label of more than thirty-two bytes"]]
    {
        fails(2, &mut migration.command(arguments));
    }
    fails(2, &mut jeton(["migrate"]));
    // With two tokens, the command must name one of them.
    copy(&migration.old_token(), &migration.scratch.path().join("old").join("second"));
    says(fails(2, &mut migration.command(&[])), "--token or --serial");
}

#[test]
fn a_directory_without_a_store_is_refused() {
    let Some(migration) = migration() else { return };
    fs::remove_dir_all(migration.old()).expect("a directory");
    says(fails(3, &mut migration.command(&[])), "No such file");
    fs::create_dir(migration.old()).expect("a directory");
    migration.refused(&[], "no token here");
}

#[test]
fn a_truncated_object_is_named_and_nothing_is_written() {
    let Some(migration) = migration() else { return };
    let object = migration.old_object();
    let content = fs::read(&object).expect("a file");
    fs::write(&object, &content[..content.len() - 3]).expect("a file");
    migration.refused(&[], &format!("{}: damaged", object.display()));
}

/// Flips a bit in an attribute of the first object of the old token that has all these attributes:
/// pairs of a type and a form. The value of the last attribute is altered, at this offset.
fn alter(migration: &Migration, attributes: &[(u64, u64)], offset: usize) {
    for entry in fs::read_dir(migration.old_token()).expect("a directory") {
        let path = entry.expect("an entry").path();
        let mut content = fs::read(&path).expect("a file");
        let find = |(kind, form): &(u64, u64)| {
            let wanted = [kind.to_be_bytes(), form.to_be_bytes()].concat();
            content.windows(wanted.len()).position(|window| window == wanted)
        };
        let found: Option<Vec<_>> = attributes.iter().map(find).collect();
        if let Some(at) = found.and_then(|places| places.last().copied()) {
            content[at + 24 + offset] ^= 1;
            return fs::write(&path, content).expect("a file");
        }
    }
    panic!("no object has these attributes");
}

#[test]
fn an_altered_private_key_is_refused() {
    let Some(migration) = migration() else { return };
    // CKA_PRIME_1 of an RSA key: a flipped bit in its ciphertext.
    alter(&migration, &[(0x124, 3)], 40);
    migration.refused(&[], "not migrated  private key, RSA");
}

/// Adds an object to the old token as SoftHSMv2 stores it. Public objects are not encrypted.
fn add_object(migration: &Migration, name: &str, numbers: &[(u64, u64)], value: &[u8]) {
    let number = |number: u64| number.to_be_bytes();
    let mut content = number(3).to_vec();
    for (kind, value) in numbers {
        content.extend([number(*kind), number(2), number(*value)].concat());
    }
    content.extend([number(0x11), number(3), number(value.len() as u64)].concat());
    content.extend(value);
    fs::write(migration.old_token().join(name), content).expect("a file");
}

#[test]
fn objects_that_jeton_does_not_support_are_refused_or_left_out() {
    let Some(migration) = migration() else { return };
    let (objects, _) = counts();
    // A public GOST key.
    add_object(&migration, "gost.object", &[(0, 2), (0x100, 0x30)], b"value");
    migration.refused(&[], "Jeton has no GOST keys");
    // A public DSA key.
    add_object(&migration, "dsa.object", &[(0, 2), (0x100, 1)], b"value");
    migration.refused(&[], "Jeton has no DSA keys; generate a key of another type");
    // SoftHSMv2 stores a Triple DES key without a value if it cannot generate the value.
    add_object(&migration, "empty.object", &[(0, 4), (0x100, 0x15)], b"");
    migration.refused(&[], "not migrated  secret key, Triple DES: it has no value");
    let text = succeed(&mut migration.command(&["--partial"]));
    assert!(text.contains(&format!("{objects} of {} objects are migrated", objects + 3)), "{text}");
}

#[test]
fn a_triple_des_key_is_migrated() {
    let Some(migration) = migration() else { return };
    let (objects, pairs) = counts();
    let key: Vec<u8> = [[0x01_u8; 8], [0x23; 8], [0x45; 8]].concat();
    add_object(&migration, "des3.object", &[(0, 4), (0x100, 0x15)], &key);
    migration.migrates_once(&[], objects + 1, pairs);
}

#[test]
fn a_migration_to_the_label_of_a_token_with_other_objects_is_refused() {
    let Some(migration) = migration() else { return };
    let (objects, _) = counts();
    fs::remove_file(migration.old_object()).expect("a file");
    succeed(&mut migration.command(&[]));
    copy(&store().expect("the store").scratch.path().join("old"), Path::new(&migration.old()));
    says(fails(1, &mut migration.command(&[])), format!("with {} of the {objects} objects", objects - 1));
    succeed(&mut migration.command(&["--label", "another"]));
}

#[test]
fn a_thousand_objects_are_migrated() {
    let Some(migration) = migration() else { return };
    let token = migration.old_token();
    let entries = fs::read_dir(&token).expect("a directory").map(|entry| entry.expect("an entry").path());
    let is_object = |path: &PathBuf| {
        path.extension().is_some_and(|end| end == "object") && !path.ends_with("token.object")
    };
    let mut files: Vec<_> = entries.filter(is_object).collect();
    // One key encrypts all files of a token, so a copy of a file is another object. The smallest
    // files are no private keys, whose proofs take time.
    files.sort_by_key(|path| path.metadata().expect("a file").len());
    for index in 0..1000 - files.len() {
        fs::copy(&files[index % 3], token.join(format!("copy-{index}.object"))).expect("a file");
    }
    says(succeed(&mut migration.command(&[])), "1000 of 1000 objects are migrated");
}

#[test]
fn a_migration_that_is_killed_leaves_no_half_token() {
    let Some(migration) = migration() else { return };
    let (objects, _) = counts();
    migration.leaves_no_half_token_when_it_is_killed(&[], objects);
}

#[test]
fn a_full_disk_leaves_no_half_token() {
    let Some(migration) = migration() else { return };
    migration.leaves_no_half_token_on_a_full_disk("300k", &[]);
}

#[test]
fn readers_survive_damaged_files() {
    let Some(migration) = migration() else { return };
    // Only one object, so that a round is fast.
    let (object, token) = (migration.old_object(), migration.old_token().join("token.object"));
    for entry in fs::read_dir(migration.old_token()).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path != object && path != token {
            fs::remove_file(path).expect("a file");
        }
    }
    for path in [object, token] {
        survives_damage(&path, 1, 1, || {
            jeton_migrate::tokens(Path::new(&migration.old()))
                .and_then(|tokens| tokens[0].read(PIN.as_bytes()))
                .is_ok_and(|objects| objects.len() == 1)
        });
    }
}
