//! Replaces the generated part of a page, which is between two marker lines.

use std::fs;
use std::path::Path;

use crate::Error;

/// Replaces the text between the lines `begin` and `end` of a file with `body`. If the file lacks
/// one of these lines, fails and leaves the file unchanged.
pub fn write_between(file: &Path, begin: &str, end: &str, body: &str) -> Result<(), Error> {
    let text = fs::read_to_string(file).map_err(Error::io(file))?;
    let missing = |line| Error::Message(format!("{} does not have the line {line:?}", file.display()));
    let (head, rest) = text.split_once(begin).ok_or_else(|| missing(begin))?;
    let (_, tail) = rest.split_once(end).ok_or_else(|| missing(end))?;
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
        for (begin, end) in [("<other>", "<end>"), ("<begin>", "<other>")] {
            let missing = write_between(&file, begin, end, "newer").map_err(|error| error.to_string());
            assert!(missing.is_err_and(|text| text.contains("<other>")));
        }
        assert_eq!(fs::read_to_string(&file).expect("a file"), text);
    }
}
