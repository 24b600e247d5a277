//! Modules that crash, hang, return errors or lack functions: the report has a line for each of
//! them, and the measurement of the other modules continues.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Scratch, jeton, run, succeed};

/// The source of a module whose function list has only `C_Initialize`. The test replaces `BODY`.
const MODULE: &str = r#"
    #include <stdlib.h>
    #include <unistd.h>
    struct list { unsigned char version[2]; void *entry[68]; };
    static unsigned long initialize(void *arguments) { (void)arguments; BODY }
    static struct list list = { { 2, 40 }, { (void *)initialize } };
    unsigned long C_GetFunctionList(struct list **out) { *out = &list; return 0; }
"#;

#[test]
fn a_hostile_module_is_reported_and_the_baseline_goes_on() {
    if !common::has("cc", "--version") {
        return;
    }
    let cases = [
        ("crashes", "abort();", "its process ended with signal: 6"),
        ("hangs", "for (;;) pause();", "reported nothing for 2 s"),
        ("refuses", "return 0x30;", "C_Initialize: CKR_DEVICE_ERROR (0x30) while initialising the module"),
        ("vendor", "return 0x80000042;", "C_Initialize: CKR vendor 0x80000042"),
        (
            "holes",
            "return 0;",
            "C_GetInfo: CKR_FUNCTION_NOT_SUPPORTED (0x54) while reading the function list",
        ),
    ];
    let scratch = Scratch::new();
    for (name, body, expected) in cases {
        let module = compile(scratch.path(), name, body);
        let mut command = jeton(["pipeline", "--sizes", "1", "--min-seconds", "0", "--stall-seconds", "2"]);
        let (code, text) = run(command.args(["--pin", "1234", "--module"]).arg(module));
        assert_eq!(code, 1, "{text}");
        assert!(text.contains(&format!("FAILED: {name}: {expected}")), "{text}");
        assert!(text.contains("medians; runs: in-process 6"), "{text}");
    }
}

fn compile(directory: &Path, name: &str, body: &str) -> PathBuf {
    let (source, module) = (directory.join(format!("{name}.c")), directory.join(format!("{name}.so")));
    std::fs::write(&source, MODULE.replace("BODY", body)).expect("the directory is writable");
    succeed(Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&module, &source]));
    module
}
