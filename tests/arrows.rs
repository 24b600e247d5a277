//! The modules of the core import in one direction: docs/design.md has their order. So do the
//! files beside each other in every folder, and the packages of the workspace. Code outside tests
//! imports by name, so that this test sees every import. It reads the sources and lists every
//! import that breaks these rules.
//!
//! It does not parse Rust. It finds paths from `crate` and `super`, with groups, in code that
//! rustfmt has formatted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The modules; each may import those of the layers before its own.
const LAYERS: [&[&str]; 10] = [
    &["file", "file_lock", "gate", "quota", "sync"],
    &["backend"],
    &["mechanism"],
    &["audit"],
    &["config"],
    &["object"],
    &["store"],
    &["token"],
    &["session"],
    &["functions", "admin"],
];

/// The packages by their folders, and the packages of this workspace that each depends on.
const PACKAGES: [(&str, &str); 31] = [
    ("names/types", ""),
    ("names", "names/types"),
    ("secret", ""),
    ("crypto", "secret tests/vectors"),
    ("words", "names names/types secret"),
    ("tests/child", ""),
    ("tests/vectors", ""),
    ("client", "names"),
    ("client/peers", "client"),
    ("tests/programs", "client/peers"),
    (".", "crypto names secret words tests/child tests/programs tests/vectors"),
    ("abi", "names secret words"),
    ("abi/pkcs11", ". abi names secret tests/child tests/programs"),
    ("agent/wire", "words"),
    ("agent/client", "abi agent/system agent/wire names secret words"),
    ("agent/system", ""),
    ("agent/split", ""),
    (
        "agent",
        ". abi/pkcs11 agent/client agent/split agent/system agent/wire names secret words ca client client/peers client/pki http \
         tests/child tests/programs",
    ),
    ("client/formats", "client"),
    ("client/pki", "client"),
    ("http", ""),
    ("ca", "client client/formats client/pki http"),
    ("driver/laboratory", ""),
    ("client/rustls", "client client/peers tests/child tests/programs"),
    ("conformance", "client client/peers names tests/child tests/programs tests/vectors"),
    (
        "driver",
        "abi/pkcs11 benches ca conformance client driver/laboratory client/peers client/pki client/rustls tests/child \
         tests/programs",
    ),
    ("tool/migrate", ""),
    (
        "tool",
        ". agent/wire ca client client/formats client/peers client/pki secret tests/child tests/programs \
         tool/migrate",
    ),
    ("conformance/models", ". secret words"),
    (
        "conformance/fuzz",
        ". ca names abi/pkcs11 agent agent/wire client words tests/child tests/vectors client/formats tool/migrate",
    ),
    ("benches", ". abi/pkcs11 client driver/laboratory client/peers tests/child"),
];

/// The packages that users install. They link only each other.
const PRODUCTS: &str = ". abi abi/pkcs11 agent agent/client agent/split agent/system agent/wire client client/peers \
    client/formats client/pki client/rustls ca crypto http names names/types secret words tool tool/migrate";

/// The folders whose files import each other without circles.
const SOURCES: &str = "src agent/client/src agent/split/src agent/wire/src agent/src abi/src driver/src client/src \
    driver/laboratory/src client/peers/src ca/src client/pki/src client/rustls/src tool/src \
    client/formats/src tool/migrate/src secret/src conformance/src conformance/fuzz/src conformance/models/src \
    words/src crypto/src benches/src tests/token tests/backend tests/crash tests/postgresql";

/// The paths whose names may be imported all at once outside tests (docs/style.md, "Imports").
const GLOBS: [&str; 1] = ["cryptoki_sys::*"];

#[test]
fn the_core_imports_along_the_arrows() {
    let files = sources("src");
    assert!(files.len() > LAYERS.len(), "{} files in src", files.len());
    let wrong: Vec<_> = files
        .iter()
        .flat_map(|(path, text)| {
            crossings(path, text).into_iter().map(move |import| format!("src/{}: {import}", path.join("/")))
        })
        .collect();
    assert!(wrong.is_empty(), "imports against the arrows:\n{}", wrong.join("\n"));
}

#[test]
fn files_beside_each_other_import_in_one_direction() {
    for source in SOURCES.split_whitespace() {
        let files = sources(source);
        assert!(files.len() > 1, "{} files in {source}", files.len());
        let circles = circles(&files);
        assert!(circles.is_empty(), "circles of imports in {source}:\n{}", circles.join("\n"));
    }
}

/// The files that import from the files below them, although one of these imports from them. Every
/// other parent is either above the files of its folder or below them.
const TANGLED: &str = "abi/src/params agent/client/src/once benches/src/baseline benches/src/calls \
    benches/src/groups benches/src/report benches/src/target client/src/raw conformance/src/attacks \
    conformance/src/cases conformance/src/mechanisms conformance/src/vectors driver/src/page \
    driver/src/pipeline driver/src/report driver/src/tls src/backend/aws_lc src/backend/aws_lc/cipher \
    src/backend/aws_lc/ffi src/backend/rustcrypto \
    src/config src/functions src/functions/derive src/mechanism src/object \
    src/object/attribute src/object/key_type src/session src/store \
    src/store/postgresql src/store/seal src/store/sqlite tool/migrate/src/softhsm ca/src/issuer \
    tool/src/commands/key tool/src/doctor tool/src/migrate";

#[test]
fn a_file_is_above_the_files_of_its_folder_or_below_them() {
    let mut tangled = BTreeMap::new();
    for source in SOURCES.split_whitespace() {
        for (path, circle) in parents(&sources(source)) {
            tangled.insert(format!("{source}/{}", path.join("/")), circle);
        }
    }
    let known: BTreeSet<_> = TANGLED.split_whitespace().collect();
    let new: Vec<_> = tangled.iter().filter(|(file, _)| !known.contains(file.as_str())).collect();
    let lines = new.iter().map(|(file, circle)| format!("{file}:\n  {}", circle.join("\n  ")));
    assert!(
        new.is_empty(),
        "circles of a file and those below it:\n{}",
        lines.collect::<Vec<_>>().join("\n")
    );
    let untangled: Vec<_> = known.iter().filter(|file| !tangled.contains_key(**file)).collect();
    assert!(untangled.is_empty(), "not in a circle any more, so not in the list: {untangled:?}");
}

#[test]
fn code_outside_tests_imports_by_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for (folder, _) in PACKAGES {
        collect(&root.join(folder).join("src"), &mut files);
    }
    let wrong: Vec<_> = files
        .iter()
        .flat_map(|path| {
            let globs = globs(&fs::read_to_string(path).expect("a source file"));
            globs.into_iter().map(move |import| format!("{}: use {import}", path.display()))
        })
        .collect();
    assert!(wrong.is_empty(), "imports of all names:\n{}", wrong.join("\n"));
}

#[test]
fn packages_depend_on_exactly_the_listed_packages() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let manifest = include_str!("../Cargo.toml");
    let members: BTreeSet<_> = list(manifest, "\nmembers").collect();
    let listed: BTreeSet<_> = PACKAGES.iter().map(|(folder, _)| *folder).collect();
    assert_eq!(members, listed);
    for (folder, allowed) in PACKAGES {
        let manifest = fs::read_to_string(root.join(folder).join("Cargo.toml")).expect("a manifest");
        let found: BTreeSet<_> =
            dependencies(&manifest, "").map(|path| normal(&root.join(folder).join(path))).collect();
        let allowed: BTreeSet<_> = allowed.split_whitespace().map(|path| normal(&root.join(path))).collect();
        assert_eq!(found, allowed, "the dependencies of {folder}");
    }
}

/// Returns the folders of the packages that a package links.
fn linked(folder: &str) -> BTreeSet<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let manifest = fs::read_to_string(folder.join("Cargo.toml")).expect("a manifest");
    dependencies(&manifest, "dev-").map(|path| normal(&folder.join(path))).collect()
}

#[test]
fn what_users_install_links_no_test_and_no_bench() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let products: BTreeSet<_> =
        PRODUCTS.split_whitespace().map(|folder| normal(&root.join(folder))).collect();
    for folder in PRODUCTS.split_whitespace() {
        let others: Vec<_> = linked(folder).difference(&products).cloned().collect();
        assert_eq!(others, [""; 0].map(PathBuf::from), "{folder} links these");
    }
}

/// `cargo build` compiles the default members: neither the benches nor their libraries.
#[test]
fn no_default_member_links_the_benches() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open: Vec<_> =
        list(include_str!("../Cargo.toml"), "default-members").map(PathBuf::from).collect();
    assert!(!open.is_empty());
    while let Some(folder) = open.pop() {
        assert_ne!(normal(&root.join(&folder)), normal(&root.join("benches")));
        open.extend(linked(folder.to_str().expect("a path in UTF-8")));
    }
}

/// Returns the texts of a list in a manifest.
fn list<'a>(manifest: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let list = manifest.split(&format!("{key} = [")).nth(1).and_then(|rest| rest.split(']').next());
    list.expect("a list").split('"').skip(1).step_by(2)
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

/// The tool, the driver and the conformance suite call a module through its C interface, as every
/// client does. PKCS#11 has no functions for token files. The tool's commands for them call the
/// core, through one file only.
#[test]
fn one_file_of_the_tool_calls_the_core() {
    const ONLY: &str = "tool/src/token_file.rs";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["driver", "tool", "conformance/src", "conformance/tests"] {
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

/// The Rust files below a directory.
fn collect(directory: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The files of a folder that is the root of a crate: the module path of each, and its code.
fn sources(folder: &str) -> BTreeMap<Vec<String>, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let mut files = Vec::new();
    collect(&folder, &mut files);
    files.retain(|file| *file != folder.join("main.rs") && *file != folder.join("lib.rs"));
    let read = |file: &PathBuf| {
        let path = path_of(file.strip_prefix(&folder).expect("a path in the folder"));
        (path, fs::read_to_string(file).expect("a source file"))
    };
    files.iter().map(read).collect()
}

/// The module path of a file: `token.rs` is `token`, `token/pin.rs` is `token, pin`.
fn path_of(file: &Path) -> Vec<String> {
    let names = file.with_extension("");
    names.iter().map(|name| name.to_str().expect("a name in UTF-8").to_owned()).collect()
}

fn layer(module: &str) -> Option<usize> {
    LAYERS.iter().position(|modules| modules.contains(&module))
}

/// The imports of a file that go against the arrows: line and module.
fn crossings(path: &[String], text: &str) -> Vec<String> {
    let own = &path[0];
    let may = |module: &str| module == own || layer(module) < layer(own);
    let mut wrong = Vec::new();
    for (line, import) in imports(path, text) {
        let Some(module) = import.first() else { continue };
        // Any other name is a macro or an item of the root.
        if layer(module).is_some() && !may(module) {
            wrong.push(format!("line {line}: {own} imports {module}"));
        }
    }
    // A group may name several items of one module.
    wrong.dedup();
    wrong
}

/// The imports between modules of one folder that are part of a circle, or lead from one circle to
/// another. [`parents`] finds the circles of a module and its parent.
fn circles(files: &BTreeMap<Vec<String>, String>) -> Vec<String> {
    // For each folder: the pairs of its modules in which the first imports the second, with an
    // example.
    let mut arrows: BTreeMap<Vec<String>, BTreeMap<(String, String), String>> = BTreeMap::new();
    for (path, text) in files {
        for (line, import) in imports(path, text) {
            let common = path.iter().zip(&import).take_while(|(own, other)| own == other).count();
            let is_module = |other: &[String]| files.keys().any(|file| file.starts_with(other));
            if common < path.len() && common < import.len() && is_module(&import[..=common]) {
                let example = format!("{} line {line} imports {}", path.join("/"), import.join("::"));
                let arrow = (path[common].clone(), import[common].clone());
                arrows.entry(path[..common].to_vec()).or_default().insert(arrow, example);
            }
        }
    }
    for arrows in arrows.values_mut() {
        // A module that no module imports, or that imports no module, is not in a circle.
        loop {
            let froms: BTreeSet<_> = arrows.keys().map(|(from, _)| from.clone()).collect();
            let tos: BTreeSet<_> = arrows.keys().map(|(_, to)| to.clone()).collect();
            let count = arrows.len();
            arrows.retain(|(from, to), _| tos.contains(from) && froms.contains(to));
            if arrows.len() == count {
                break;
            }
        }
    }
    arrows.into_values().flat_map(BTreeMap::into_values).collect()
}

/// The files that are in a circle with files below them, and the imports of each circle. Unit tests
/// may import from above.
fn parents(files: &BTreeMap<Vec<String>, String>) -> BTreeMap<Vec<String>, Vec<String>> {
    let code: BTreeMap<_, _> = files.iter().map(|(path, text)| (path, without_unit_tests(text))).collect();
    let children = |parent: &[String]| -> BTreeSet<String> {
        let below = files.keys().filter(|path| path.len() > parent.len() && path.starts_with(parent));
        below.map(|path| path[parent.len()].clone()).collect()
    };
    let mut found = BTreeMap::new();
    for parent in files.keys() {
        let children = children(parent);
        // The arrows between the children, and of each child to the parent, with an example.
        let mut arrows: BTreeMap<(&str, &str), String> = BTreeMap::new();
        for (path, text) in
            code.iter().filter(|(path, _)| path.len() > parent.len() && path.starts_with(parent))
        {
            for (line, import) in
                imports(path, text).into_iter().filter(|(_, import)| import.starts_with(parent))
            {
                let own = children.get(&path[parent.len()]).expect("a child");
                let to =
                    import.get(parent.len()).and_then(|name| children.get(name)).map_or("", String::as_str);
                if to != own {
                    let example = format!("{} line {line} imports {}", path.join("/"), import.join("::"));
                    arrows.insert((own, to), example);
                }
            }
        }
        // The children from which a path of arrows leads to the parent.
        let mut above: BTreeSet<&str> = BTreeSet::from([""]);
        let mut circle = Vec::new();
        loop {
            let next: Vec<_> =
                arrows.iter().filter(|((from, to), _)| above.contains(to) && !above.contains(from)).collect();
            if next.is_empty() {
                break;
            }
            for ((from, _), example) in next {
                above.insert(from);
                circle.push(example.clone());
            }
        }
        let used: Vec<_> = children
            .iter()
            .filter(|child| above.contains(child.as_str()) && mentions(&code[parent], child))
            .collect();
        if !used.is_empty() {
            circle.insert(0, format!("{} imports {used:?}", parent.join("/")));
            found.insert(parent.clone(), circle);
        }
    }
    found
}

/// Returns whether code has a path into a module below it, such as `use child::Item`.
fn mentions(code: &str, child: &str) -> bool {
    let code = without_comments(code);
    [format!("{child}::"), format!("self::{child}::")]
        .iter()
        .any(|path| code.match_indices(path).any(|(at, _)| starts(&code, at)))
}

/// Removes the unit tests, which are at the end of a file.
fn without_unit_tests(text: &str) -> String {
    text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default().to_owned()
}

/// The paths of a file into its crate, as paths from the crate's root, with their lines.
fn imports(path: &[String], text: &str) -> Vec<(usize, Vec<String>)> {
    let code = without_comments(text);
    let mut found = Vec::new();
    for (start, after, levels) in roots(&code) {
        let line = code[..start].matches('\n').count() + 1;
        // A path with more `super` than the file has parents leads to the root.
        let base = levels.map_or(&[][..], |levels| &path[..path.len().saturating_sub(levels)]);
        for tail in tails(&code[after..]) {
            found.push((line, base.iter().cloned().chain(tail).collect()));
        }
    }
    found
}

/// Removes the comments and keeps the lines.
fn without_comments(text: &str) -> String {
    let code = |line: &'_ str| line.split("//").next().unwrap_or_default().to_owned();
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// The imports of all names of a module, outside modules of tests and except for `GLOBS`.
fn globs(text: &str) -> Vec<String> {
    let code = without_tests(&without_comments(text));
    let imports = code.split(';').filter_map(|statement| {
        let (before, import) = statement.rsplit_once("use ")?;
        let line = before.rsplit('\n').next().unwrap_or_default().trim_start();
        (line.is_empty() || line.starts_with("pub") && line.ends_with(' ')).then(|| import.to_owned())
    });
    let takes_all = |import: &String| ["::*", "{*", " *"].iter().any(|glob| import.contains(glob));
    imports.filter(|import| takes_all(import) && !GLOBS.contains(&import.as_str())).collect()
}

/// Removes the nested modules that are compiled only for tests.
fn without_tests(code: &str) -> String {
    let mut kept = Vec::new();
    let mut inside = false;
    for line in code.lines() {
        let for_tests = kept.last().is_some_and(|above: &&str| {
            above.starts_with("#[cfg(test)]") || above.starts_with("#[cfg(all(test,")
        });
        inside |= for_tests && line.starts_with("mod ") && line.ends_with('{');
        if !inside {
            kept.push(line);
        }
        inside &= line != "}";
    }
    kept.join("\n")
}

/// Returns where each path out of a file starts and continues. `crate::` leads to the root, and
/// `super::` leads up by the number of levels.
fn roots(code: &str) -> Vec<(usize, usize, Option<usize>)> {
    const ROOT: &str = "crate::";
    const UP: &str = "super::";
    let mut found: Vec<_> = code
        .match_indices(ROOT)
        .filter(|(at, _)| starts(code, *at))
        .map(|(at, _)| (at, at + ROOT.len(), None))
        .collect();
    for (at, _) in code.match_indices(UP).filter(|(at, _)| starts(code, *at)) {
        let ups = code.as_bytes()[at..].chunks(UP.len()).take_while(|chunk| *chunk == UP.as_bytes()).count();
        // The first level of a nested module is the file itself.
        let levels = ups - usize::from(in_nested_module(&code[..at]));
        if levels > 0 {
            found.push((at, at + ups * UP.len(), Some(levels)));
        }
    }
    found
}

/// Returns whether a path starts at this offset, and not inside another path or word. The path of a
/// visibility does not count.
fn starts(code: &str, at: usize) -> bool {
    !code[..at].ends_with("pub(in ")
        && !code[..at].ends_with(|before: char| before.is_alphanumeric() || matches!(before, '_' | ':' | '$'))
}

/// Whether this code is inside a nested module of the file, such as `mod tests`.
fn in_nested_module(before: &str) -> bool {
    let opens = |line: &&str| {
        (line.starts_with("mod ") || line.starts_with("pub mod ")) && line.trim_end().ends_with('{')
    };
    before.lines().rev().find(|line| opens(line) || line.trim_end() == "}").is_some_and(|line| opens(&line))
}

/// The names of a path, or of each path of a group.
fn tails(code: &str) -> Vec<Vec<String>> {
    let code = code.trim_start();
    if let Some(group) = code.strip_prefix('{') {
        return members(group).into_iter().flat_map(tails).collect();
    }
    let end = code.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(code.len());
    let name = code[..end].to_owned();
    let below = code[end..].strip_prefix("::").map_or_else(|| vec![Vec::new()], tails);
    below.into_iter().map(|tail| [name.clone()].into_iter().chain(tail).collect()).collect()
}

/// The members of a group, which starts after its brace.
fn members(group: &str) -> Vec<&str> {
    let mut members = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in group.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth > 0 => depth -= 1,
            ',' if depth > 0 => {}
            '}' | ',' => {
                members.push(&group[start..at]);
                start = at + 1;
                if letter == '}' {
                    break;
                }
            }
            _ => {}
        }
    }
    members.retain(|member| !member.trim().is_empty());
    members
}

/// The folders of the dependencies on packages of this workspace. Leaves out the tables whose names
/// begin with `without`, unless it is empty.
fn dependencies<'a>(manifest: &'a str, without: &str) -> impl Iterator<Item = &'a str> {
    let mut tables = false;
    let mut found = Vec::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[') {
            tables = line.contains("dependencies") && (without.is_empty() || !name.starts_with(without));
        } else if tables && let Some((_, rest)) = line.split_once("path = \"") {
            found.extend(rest.split('"').next());
        }
    }
    found.into_iter()
}

/// A path without links and without `..`.
fn normal(path: &Path) -> PathBuf {
    fs::canonicalize(path).expect("a folder")
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
            ("quota", "use crate::sync::lock;"),
            ("backend/aws_lc/rsa", "use crate::mechanism::Params;"),
            ("store/sqlite", "pub use crate::token::Token;"),
            ("object/make", "use crate::{quota::Permit, session::{table, find}, gate};"),
            ("object/make", "use crate::{\n    quota::Permit,\n    functions,\n};"),
            ("token", "fn f() -> crate::functions::Module {}"),
            ("mechanism", "fn f(name: &super::store::Store) {}"),
            ("mechanism/rsa", "use super::super::object::Object;"),
            ("mechanism/rsa", "use super::super::{gate, object::Object};"),
            ("token", "mod tests {\n    use super::super::session::Session;\n}"),
        ] {
            assert_eq!(found(path, text).len(), 1, "{path}: {text}");
        }
        assert_eq!(found("gate", "\nuse crate::token::Token;"), ["line 2: gate imports token"]);
        assert_eq!(found("gate", "use crate::{token, session};").len(), 2);
    }

    fn circles_of(files: &[(&str, &str)]) -> Vec<String> {
        let path = |path: &str| path.split('/').map(str::to_owned).collect();
        circles(&files.iter().map(|(file, text)| (path(file), (*text).to_owned())).collect())
    }

    #[test]
    fn circles_are_found() {
        let two = [("a/b", "use super::c::C;"), ("a/c", "\nuse crate::a::b;"), ("a/d", "use super::b;")];
        assert_eq!(circles_of(&two), ["a/b line 1 imports a::c::C", "a/c line 2 imports a::b"]);
        let three =
            [("a", "use crate::b::B;"), ("b", "use super::{c::C, x};"), ("c", "fn f(a: crate::a::A) {}")];
        assert_eq!(circles_of(&three).len(), 3);
        let nested =
            [("a/b", "use crate::e::f;"), ("e/f", "mod tests {\n    use super::super::super::a::b;\n}")];
        assert_eq!(circles_of(&nested).len(), 2);
    }

    fn parents_of(files: &[(&str, &str)]) -> Vec<String> {
        let path = |path: &str| path.split('/').map(str::to_owned).collect();
        let files = files.iter().map(|(file, text)| (path(file), (*text).to_owned())).collect();
        parents(&files).into_values().flatten().collect()
    }

    #[test]
    fn circles_of_a_file_and_those_below_it_are_found() {
        let two = [("a", "use b::B;"), ("a/b", "use super::A;")];
        assert_eq!(parents_of(&two), ["a imports [\"b\"]", "a/b line 1 imports a::A"]);
        let glob = [("a", "fn f() { self::b::f() }"), ("a/b/c", "use super::super::*;")];
        assert_eq!(parents_of(&glob).len(), 2);
        let indirect = [("a", "pub use b::B;"), ("a/b", "use super::c::C;"), ("a/c", "use crate::a::A;")];
        assert_eq!(parents_of(&indirect).len(), 3);
    }

    #[test]
    fn a_file_above_or_below_its_folder_passes() {
        let above = [("a", "mod b;\npub use b::B;"), ("a/b", "use super::c::C;"), ("a/c", "")];
        assert_eq!(parents_of(&above), [""; 0]);
        let below = [("a", "pub mod b;"), ("a/b", "use super::A;\nuse crate::a::c;"), ("a/c", "")];
        assert_eq!(parents_of(&below), [""; 0]);
        let others = [
            ("a", "use b::B;"),
            ("a/b", "pub(in crate::a) fn f() {}\n#[cfg(test)]\nmod tests {\n    use super::super::A;\n}"),
        ];
        assert_eq!(parents_of(&others), [""; 0]);
    }

    #[test]
    fn imports_of_all_names_are_found() {
        for (text, found) in [
            ("use super::*;", "super::*"),
            ("//! Text.\n\nuse std::fs;\npub(crate) use crate::{a::*, b};", "crate::{a::*, b}"),
            ("use a::{self, *};", "a::{self, *}"),
            ("mod keys {\n    use super::*;\n}", "super::*"),
            ("#[cfg(test)]\nmod a;\nuse a::*;", "a::*"),
            ("#[cfg(test)]\nmod tests {\n    use a::*;\n}\nuse b::*;", "b::*"),
        ] {
            assert_eq!(globs(text), [found], "{text}");
        }
        for text in [
            "use cryptoki_sys::*;",
            "use super::{a, b};\nlet c = &a::B * d::E;\nlet text = \"no use of {*}\";",
            "#[cfg(test)]\nmod tests {\n    use super::*;\n}",
            "#[cfg(all(test, unix))]\nmod fips {\n    use super::*;\n}",
        ] {
            assert_eq!(globs(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn arrows_without_a_circle_pass() {
        let parent =
            [("a", "use self::b::B;\nuse crate::a::b::B;"), ("a/b", "use super::A;\nuse crate::a::A;")];
        assert_eq!(circles_of(&parent), [""; 0]);
        let line =
            [("a", "use super::b;"), ("b", "use crate::{c, d::D};"), ("c", "use super::d;"), ("d", "")];
        assert_eq!(circles_of(&line), [""; 0]);
        let tests = [("a", "mod tests {\n    use super::b;\n}"), ("b", "use super::a;")];
        assert_eq!(circles_of(&tests), [""; 0]);
    }

    #[test]
    fn dependencies_are_paths_in_the_tables_of_dependencies() {
        let manifest = "[lib]\npath = \"x.rs\"\n[dev-dependencies]\na = { path = \"../a\" }\nb = \"1\"";
        assert_eq!(dependencies(manifest, "").collect::<Vec<_>>(), ["../a"]);
        assert_eq!(dependencies(manifest, "dev-").count(), 0);
    }

    #[test]
    fn imports_along_the_arrows_pass() {
        for (path, text) in [
            ("functions", "use crate::session::Session;\nuse crate::{error, token::Token};"),
            ("functions/key", "use super::Module;\nuse crate::functions::Output;"),
            ("object", "mod tests {\n    use super::session;\n}"),
            ("object/attribute", "fn f() {\n}\nmod tests {\n    use super::super::token;\n}"),
            ("token", "// use crate::functions::Module;\n//! [`functions`](crate::functions)"),
            ("backend/aws_lc/rsa", "use super::super::token;\nuse other_crate::functions;"),
            ("error", "mycrate::token::f(); $crate::token!(); a::super::token"),
            ("config", "use crate::some_macro;"),
        ] {
            assert_eq!(found(path, text), [""; 0], "{path}: {text}");
        }
    }
}
