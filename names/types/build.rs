//! Makes the types: those of `cryptoki-sys`, or for Windows its text for Linux with changes.

use std::env::var;
use std::path::Path;
use std::process::Command;
use std::{fs, str};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let types = match var("CARGO_CFG_TARGET_OS").as_deref() {
        Ok("windows") => of_windows(),
        _ => "pub use ::cryptoki_sys::*;".to_owned(),
    };
    fs::write(Path::new(&var("OUT_DIR").expect("a folder")).join("types.rs"), types).expect("a file");
}

fn of_windows() -> String {
    let cargo = var("CARGO").expect("cargo");
    let metadata = Command::new(cargo).args(["metadata", "--format-version=1", "--offline"]).output();
    let metadata = metadata.expect("the packages").stdout;
    let mut words = str::from_utf8(&metadata).expect("JSON").split('"');
    let manifest = words.find(|word| word.contains("/cryptoki-sys-0.5") && word.ends_with("/Cargo.toml"));
    let sources = Path::new(manifest.expect("cryptoki-sys")).with_file_name("src");
    let text = fs::read_to_string(sources.join("bindings/x86_64-unknown-linux-gnu.rs")).expect("its text");
    // Only the types: neither the loader, nor checks of what changes here.
    let text = text.split("pub struct Pkcs11 ").next().expect("types");
    let mut parts = text.split("\nconst _: () = {\n");
    let mut types = parts.next().expect("types").to_owned();
    for part in parts {
        types.push_str("const _: () = ();\n");
        types.push_str(part.split_once("\n};\n").expect("the end of a check").1);
    }
    let types = types.replace("::std::os::raw::c_ulong", "u64");
    types + "pub const CK_UNAVAILABLE_INFORMATION: CK_ULONG = CK_ULONG::MAX;\n"
}
