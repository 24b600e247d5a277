//! docs/configuration.md names each key of the configuration with its default, and each environment
//! variable. docs/tool.md has each exit status.

mod common;

use common::*;

const PAGE: &str = include_str!("../../docs/configuration.md");

/// Returns the rows between two markers of docs/configuration.md, as cells.
fn rows(name: &str) -> Vec<Vec<&'static str>> {
    rows_of(PAGE, name)
}

/// Returns the rows between two markers of a page, as cells.
fn rows_of(page: &'static str, name: &str) -> Vec<Vec<&'static str>> {
    let (start, end) = (format!("<!-- {name} -->"), format!("<!-- {name} end -->"));
    let inside = page.split_once(&start).and_then(|(_, rest)| rest.split_once(&end)).expect("markers").0;
    let lines = inside.lines().filter(|line| line.starts_with('|')).skip(2);
    lines.map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect()).collect()
}

/// Returns the words in backticks.
fn quoted(text: &str) -> BTreeSet<String> {
    text.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Runs `jeton config` with this configuration. Its environment has only `HOME` and `JETON_CONF`.
fn config(scratch: &Scratch, text: &str, action: &[&str]) -> (i32, String) {
    fs::write(scratch.file("jeton.toml"), text).expect("a file");
    let mut command = jeton(["config"].iter().chain(action));
    run(command.env_clear().env("HOME", scratch.path()).env("JETON_CONF", scratch.file("jeton.toml")))
}

/// Returns the keys that a section accepts. The message about an unknown key lists them.
fn accepted(scratch: &Scratch, section: &str) -> BTreeSet<String> {
    let (code, text) = config(scratch, &format!("{section}\nunknown-key = 1\n"), &["check"]);
    let (_, keys) = text.split_once("unknown field `unknown-key`, expected ").expect(&text);
    assert_eq!(code, 10, "{text}");
    quoted(keys.split("files=").next().expect("a part"))
}

#[test]
fn the_page_has_each_key_of_the_configuration() {
    let scratch = Scratch::new();
    let mut keys = BTreeSet::new();
    for key in accepted(&scratch, "") {
        let is_section = config(&scratch, &format!("[{key}]\n"), &["check"]).0 == 0;
        if is_section {
            keys.extend(accepted(&scratch, &format!("[{key}]")).iter().map(|inner| format!("{key}.{inner}")));
        } else {
            keys.insert(key);
        }
    }
    let documented: BTreeSet<_> = rows("keys").iter().flat_map(|row| quoted(row[0])).collect();
    assert_eq!(keys, documented);
}

#[test]
fn the_defaults_of_the_page_are_those_of_the_module() {
    let scratch = Scratch::new();
    let show = |text: &str| -> BTreeMap<String, String> {
        let (code, shown) = config(&scratch, text, &["show", "--json"]);
        assert_eq!(code, 0, "{shown}");
        serde_json::from_str(&shown).expect("JSON")
    };
    let home = scratch.path().display().to_string();
    let without = show("");
    let (mut all, mut compared) = (String::new(), 0);
    for row in rows("keys") {
        let (key, default) = (row[0].trim_matches('`'), row[1]);
        let Some(value) = default.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else { continue };
        if let Some(shown) = without.get(key) {
            assert_eq!(value.trim_matches('"').replace('~', &home), *shown, "{key}");
            compared += 1;
        }
        if key != "token-dir" {
            all += &format!("{key} = {value}\n");
        }
    }
    assert!(compared >= 10, "{compared} defaults were compared");
    // The module accepts all these defaults, and the tool shows the same values with them.
    assert_eq!(show(&all), without);
}

#[test]
fn the_page_of_the_tool_has_each_exit_status() {
    let documented = rows_of(include_str!("../../docs/tool.md"), "statuses");
    let expected: Vec<_> = jeton_tool::error::STATUSES
        .iter()
        .map(|row| vec![row.number.to_string(), format!("`{}`", row.name), row.meaning.to_owned()])
        .collect();
    assert_eq!(documented, expected);
}

#[test]
fn the_page_has_each_environment_variable() {
    let mut read = BTreeSet::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for folder in
        ["src", "abi/src", "tool/src", "tool/migrate/src", "driver/src", "client/src", "client/peers/src"]
    {
        collect(&root.join(folder), &mut read);
    }
    let documented: BTreeSet<_> = rows("variables").iter().flat_map(|row| quoted(row[0])).collect();
    assert_eq!(read, documented);
}

/// Adds the names in string literals of Rust files that look like environment variables.
fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    const STARTS: [&str; 7] = ["JETON_", "XDG_", "SOFTHSM2_", "NSS_", "KRYOPTIC_", "CRATON_", "CREDENTIALS_"];
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            let text = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let is_name = |word: &&str| {
                let is_ours = STARTS.iter().any(|start| word.starts_with(start)) || *word == "NO_COLOR";
                is_ours
                    && word.bytes().all(|byte| byte.is_ascii_uppercase() || b"_0123456789".contains(&byte))
            };
            found.extend(text.split('"').filter(is_name).map(str::to_owned));
        }
    }
}
