//! Replaces the generated part of a page, which is between two marker lines.

use std::fs;
use std::path::Path;

use crate::Error;

/// Replaces the text between the lines `begin` and `end` of a file with `body`. If the file lacks
/// one of these lines, fails and leaves the file unchanged.
pub fn write_between(file: &Path, begin: &str, end: &str, body: &str) -> Result<(), Error> {
    let text = fs::read_to_string(file).map_err(Error::io(file))?;
    let parts = text.split_once(begin).and_then(|(head, rest)| Some((head, rest.split_once(end)?.1)));
    let (head, tail) = parts
        .ok_or_else(|| Error::Message(format!("{} does not have the line {begin:?}", file.display())))?;
    let text = format!("{head}{begin}\n\n{body}\n{end}{tail}");
    fs::write(file, text).map_err(Error::io(file))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_outside_the_markers_is_kept() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("page.md");
        fs::write(&file, "head\n<begin>\nold\n<end>\ntail\n").expect("a file");
        write_between(&file, "<begin>", "<end>", "new\n").expect("a file with marks");
        let text = fs::read_to_string(&file).expect("a file");
        assert_eq!(text, "head\n<begin>\n\nnew\n\n<end>\ntail\n");
        assert!(write_between(&file, "<other>", "<end>", "newer").is_err());
        assert_eq!(fs::read_to_string(&file).expect("a file"), text);
    }
}
