//! The log lines about a token directory. The test has its own binary, because a process has one
//! log.

#![allow(clippy::undocumented_unsafe_blocks, reason = "every call keeps to PKCS#11 or passes NULL")]

#[macro_use]
mod common;

use common::{mutable, nothing};
use cryptoki_sys::*;

#[test]
fn a_file_that_is_not_a_token_is_logged_once() {
    let directory = std::env::temp_dir().join(format!("jeton-directory-{}", std::process::id()));
    let tokens = directory.join("tokens");
    std::fs::create_dir_all(&tokens).expect("a directory");
    let (configuration, log) = (directory.join("jeton.toml"), directory.join("log"));
    let text = format!("[pin]\nmemory-kib = 8\npasses = 1\n[log]\nfile = '{}'\n", log.display());
    std::fs::write(&configuration, text).expect("a file");
    // SAFETY: the only test of this process, before it calls the module.
    unsafe {
        std::env::set_var("JETON_DIR", &tokens);
        std::env::set_var("JETON_CONF", &configuration);
    }
    let slots = || common::slots(common::list());
    ok!(C_Initialize(nothing()));
    ok!(C_InitToken(slots()[0], mutable(b"a pin").cast(), 5, mutable(&[b' '; 32]).cast()));
    let own = std::fs::read_dir(&tokens).expect("the directory").next().expect("a token").expect("an entry");
    let token = own.path().join(own.file_name()).with_extension("jeton");
    std::fs::copy(&token, tokens.join("copy.jeton")).expect("a copy");
    std::fs::hard_link(&token, tokens.join("link.jeton")).expect("a link");
    std::fs::write(tokens.join("text.jeton"), "no token").expect("a file");
    std::fs::write(tokens.join("empty.jeton"), "").expect("a file");
    std::fs::create_dir(tokens.join("directory.jeton")).expect("a directory");
    for _ in 0..5 {
        assert_eq!(slots().len(), 2);
    }
    let lines = |name: &str| {
        let text = std::fs::read_to_string(&log).expect("the log");
        text.lines().filter(|line| line.contains(name)).count()
    };
    for (name, count) in [("copy", 1), ("link", 0), ("text", 1), ("empty", 1), ("directory.jeton", 1)] {
        assert_eq!(lines(name), count, "{name}");
    }
    // A changed file is checked again.
    std::fs::write(tokens.join("text.jeton"), "still no token").expect("a file");
    assert_eq!(slots().len(), 2);
    assert_eq!(lines("text"), 2);
    ok!(C_Finalize(nothing()));
    std::fs::remove_dir_all(&directory).expect("the directory");
}
