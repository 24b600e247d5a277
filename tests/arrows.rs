//! The modules of the core import in one direction (docs/design.md). This test reads `src/` and
//! lists every import against it.
//!
//! It does not parse Rust. It finds paths from `crate` and `super`, with groups, in code that
//! rustfmt has formatted.

use std::fs;
use std::path::{Path, PathBuf};

/// The modules; each may import those of the layers before its own.
const LAYERS: [&[&str]; 11] = [
    &["error", "file_lock", "id", "sync"],
    &["secret"],
    &["backend"],
    &["mechanism"],
    &["audit"],
    &["config"],
    &["object"],
    &["store"],
    &["token"],
    &["session"],
    &["module", "admin"],
];

#[test]
fn the_core_imports_along_the_arrows() {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&source, &mut files);
    assert!(files.len() > LAYERS.len(), "{} files in {}", files.len(), source.display());
    let mut wrong = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).expect("a source file");
        let place = file.strip_prefix(&source).expect("a path in src");
        wrong.extend(
            crossings(&path_of(place), &text).into_iter().map(|import| format!("{place:?}: {import}")),
        );
    }
    assert!(wrong.is_empty(), "imports against the arrows:\n{}", wrong.join("\n"));
}

#[test]
fn every_module_of_the_core_has_a_layer() {
    let root = include_str!("../src/lib.rs");
    for line in root.lines() {
        if let Some(name) = line.strip_prefix("pub mod ").or(line.strip_prefix("mod ")) {
            assert!(layer(name.trim_end_matches(';')).is_some(), "{name} has no layer");
        }
    }
}

/// The driver and the conformance suite see a module as any client does. Only the tool's commands
/// for token files, which PKCS#11 has no function for, call the core, through one file.
#[test]
fn one_file_of_the_driver_knows_the_core() {
    const ONLY: &str = "driver/src/token_file.rs";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["driver", "conformance/src", "conformance/tests"] {
        collect(&root.join(folder), &mut files);
    }
    let knows = |path: &&PathBuf| {
        let text = fs::read_to_string(path).expect("a source file");
        let code = without_comments(&text);
        code.match_indices("jeton::").any(|(at, _)| starts(&code, at))
    };
    let knowing: Vec<_> = files.iter().filter(knows).collect();
    assert_eq!(knowing, [&root.join(ONLY)]);
}

/// The Rust files below a directory, but for the crate's root.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("src/lib.rs")
        {
            files.push(path);
        }
    }
}

/// The module path of a file: `token/mod.rs` is `token`, `token/pin.rs` is `token, pin`.
fn path_of(file: &Path) -> Vec<String> {
    let names = file.with_extension("");
    let names = names.iter().map(|name| name.to_str().expect("a name in UTF-8").to_owned());
    names.filter(|name| name != "mod").collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The imports of a file that go against the arrows: line and module.
fn crossings(path: &[String], text: &str) -> Vec<String> {
    let own = &path[0];
    let may = |module: &str| module == own || layer(module) < layer(own);
    let code = without_comments(text);
    let mut wrong = Vec::new();
    for (start, after) in roots(path.len(), &code) {
        let line = code[..start].matches('\n').count() + 1;
        for module in heads(&code[after..]) {
            // Any other name is a macro or an item of the root.
            if layer(module).is_some() && !may(module) {
                wrong.push(format!("line {line}: {own} imports {module}"));
            }
        }
    }
    wrong
}

/// Removes the comments and keeps the lines.
fn without_comments(text: &str) -> String {
    let code = |line: &'_ str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// Returns where each path from the crate's root starts and continues: `crate::`, or one `super::`
/// for each level of the module.
fn roots(depth: usize, code: &str) -> Vec<(usize, usize)> {
    const UP: &str = "super::";
    let mut found: Vec<_> = code
        .match_indices("crate::")
        .filter(|(at, _)| starts(code, *at))
        .map(|(at, _)| (at, at + 7))
        .collect();
    for (at, _) in code.match_indices(UP).filter(|(at, _)| starts(code, *at)) {
        let ups = code.as_bytes()[at..].chunks(UP.len()).take_while(|chunk| *chunk == UP.as_bytes()).count();
        if ups >= depth + usize::from(in_nested_module(&code[..at])) {
            found.push((at, at + ups * UP.len()));
        }
    }
    found
}

/// Whether a path starts here, rather than inside another path or word.
fn starts(code: &str, at: usize) -> bool {
    !code[..at].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | ':' | '$'))
}

/// Whether this code is inside a nested module of the file, such as `mod tests`.
fn in_nested_module(before: &str) -> bool {
    let opens = |line: &&str| {
        (line.starts_with("mod ") || line.starts_with("pub mod ")) && line.trim_end().ends_with('{')
    };
    before.lines().rev().find(|line| opens(line) || line.trim_end() == "}").is_some_and(|line| opens(&line))
}

/// The first names of a path, or of each path of a group.
fn heads(code: &str) -> Vec<&str> {
    let Some(group) = code.strip_prefix('{') else { return vec![name(code)] };
    let mut heads = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth > 0 => {}
            '}' | ',' => {
                heads.push(name(group[start..at].trim_start()));
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    heads
}

fn name(code: &str) -> &str {
    let end = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(code.len());
    &code[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        crossings(&path.split('/').map(str::to_owned).collect::<Vec<_>>(), text)
    }

    #[test]
    fn imports_against_the_arrows_are_found() {
        for (path, text) in [
            ("error", "use crate::id::SlotId;"),
            ("backend/aws_lc/rsa", "use crate::mechanism::Params;"),
            ("store/sqlite", "pub use crate::token::Token;"),
            ("object/make", "use crate::{error::Error, session::{table, find}, id};"),
            ("object/make", "use crate::{\n    error::Error,\n    module,\n};"),
            ("token", "fn f() -> crate::module::Module {}"),
            ("mechanism", "fn f(name: &super::store::Store) {}"),
            ("mechanism/rsa", "use super::super::object::Object;"),
            ("mechanism/rsa", "use super::super::{id, object::Object};"),
            ("token", "mod tests {\n    use super::super::session::Session;\n}"),
        ] {
            assert_eq!(found(path, text).len(), 1, "{path}: {text}");
        }
        assert_eq!(found("id", "\nuse crate::token::Token;"), ["line 2: id imports token"]);
        assert_eq!(found("id", "use crate::{token, session};").len(), 2);
    }

    #[test]
    fn imports_along_the_arrows_pass() {
        for (path, text) in [
            ("module", "use crate::session::Session;\nuse crate::{error, token::Token};"),
            ("module/key", "use super::Module;\nuse crate::module::Output;"),
            ("object", "mod tests {\n    use super::session;\n}"),
            ("object/attribute", "fn f() {\n}\nmod tests {\n    use super::super::token;\n}"),
            ("token", "// use crate::module::Module;\n//! [`module`](crate::module)"),
            ("backend/aws_lc/rsa", "use super::super::token;\nuse other_crate::module;"),
            ("error", "mycrate::token::f(); $crate::token!(); a::super::token"),
            ("config", "use crate::some_macro;"),
        ] {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
    }
}
