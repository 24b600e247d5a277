//! Standard output: text, JSON, bytes. If the reader closes the pipe, the command goes on, except
//! with a certificate or a CRL that would be lost.

use std::ffi::OsStr;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use clap::{Args, ValueEnum};
use comfy_table::presets::UTF8_FULL_CONDENSED;
use comfy_table::{Cell, CellAlignment, ContentArrangement, Table};
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use jeton_client::safe_text::{hex, is_obeyed, shown};
use jeton_peers::printed;
use jeton_tool::output_file::{self, Existing, NewFile};
use jeton_tool::{Cause, Error, formats};
use serde::Serialize;
use zeroize::Zeroizing;

/// The width of tables that do not go to a terminal.
const COLUMNS: u16 = 80;
/// The least width of a table, on a terminal that is narrower.
const LEAST_COLUMNS: u16 = 40;
/// The cells that a terminal shows in red.
const ALARMS: [&str; 3] = ["expired", "locked", "revoked"];

/// The environment variable that says that standard output goes into the record of a ceremony.
pub const RECORDED: &str = "JETON_RECORDED";

/// Whether the command line has `--json`.
static JSON: AtomicBool = AtomicBool::new(false);
/// Whether standard output gets a certificate, a request or a CRL that would be lost with it.
static NEEDED: AtomicBool = AtomicBool::new(false);

/// Chooses JSON or text for all results of this process.
pub fn choose_json(json: bool) {
    JSON.store(json, Relaxed);
}

/// Returns whether the results are JSON.
pub fn is_json() -> bool {
    JSON.load(Relaxed)
}

/// Writes the result of a command: the value as JSON with `--json`, and otherwise the text.
pub fn result(value: &impl Serialize, text: impl std::fmt::Display) -> Result<(), Error> {
    if is_json() {
        return json(value);
    }
    let text = text.to_string();
    if text.is_empty() { Ok(()) } else { line(text) }
}

/// Returns a path as text in one line. A requester may have chosen the name of a file.
pub fn shown_path(path: &Path) -> String {
    shown(&path.display().to_string())
}

/// Writes text to standard output without characters that a terminal obeys, and ends the line.
pub fn line(text: impl std::fmt::Display) -> Result<(), Error> {
    print(&escaped(&text.to_string()))
}

fn print(text: &str) -> Result<(), Error> {
    arrived(writeln!(std::io::stdout().lock(), "{text}"))
}

/// Returns the result of a write to standard output.
fn arrived(written: std::io::Result<()>) -> Result<(), Error> {
    if NEEDED.load(Relaxed) { written.map_err(Error::io("standard output")) } else { Ok(printed(written)?) }
}

/// Writes a heading, and below it each value that is not empty in a line of its own.
pub fn fields(title: &str, fields: &[(&str, &str)]) -> Result<(), Error> {
    heading(&shown(title))?;
    let mut fields = fields.iter().filter(|(_, value)| !value.is_empty());
    fields.try_for_each(|(name, value)| print(&format!("    {name:<8} {}", painted(&escaped(&shown(value))))))
}

/// Writes a value if the results are JSON.
pub fn if_json(value: &impl Serialize) -> Result<(), Error> {
    if is_json() { json(value) } else { Ok(()) }
}

/// Writes a value as JSON.
pub fn json(value: &impl Serialize) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(value).map_err(|error| Error::Failed(error.to_string()))?;
    line(text)
}

/// Returns text or JSON without characters that a terminal obeys, except ends of lines.
pub fn escaped(text: &str) -> String {
    let escape = |letter: char| match letter {
        letter if letter != '\n' && is_obeyed(letter) => format!("\\u{:04x}", u32::from(letter)),
        letter => letter.into(),
    };
    text.chars().map(escape).collect()
}

/// Writes rows in columns, on a terminal below a heading.
pub fn columns<const N: usize>(
    header: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Result<(), Error> {
    let mut rows: Vec<_> = rows.collect();
    let has_heading = std::io::stdout().is_terminal() && !rows.is_empty();
    if has_heading {
        rows.insert(0, header.map(str::to_owned));
    }
    let width = |at: usize| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or_default();
    let widths: [usize; N] = std::array::from_fn(width);
    for (index, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}"));
        if has_heading && index == 0 {
            heading(cells.collect::<Vec<_>>().join("  ").trim_end())?;
        } else {
            put_cells(cells)?;
        }
    }
    Ok(())
}

/// Returns a number with its noun, for example "1 session" or "2 sessions".
pub fn counted(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// Writes cells in a line.
fn put_cells(cells: impl IntoIterator<Item = String>) -> Result<(), Error> {
    let cells: Vec<_> = cells.into_iter().map(|cell| painted(&escaped(&cell))).collect();
    print(cells.join("  ").trim_end())
}

/// Shows on a terminal that the command works, and for how long, until the value is dropped.
pub fn waiting(text: impl Into<std::borrow::Cow<'static, str>>) -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {msg} {elapsed}");
    let bar = ProgressBar::new_spinner().with_finish(ProgressFinish::AndClear).with_message(text);
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

/// Returns a table that fits the terminal.
pub fn table(header: impl Into<comfy_table::Row>) -> Table {
    let mut table = Table::new();
    table.load_preset(UTF8_FULL_CONDENSED);
    let terminal = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| size.ws_col);
    let width = terminal.filter(|width| *width != 0).map_or(COLUMNS, |width| width.max(LEAST_COLUMNS));
    table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    table.set_header(header);
    table
}

/// Returns the cell of a number.
pub fn number(number: u64) -> Cell {
    Cell::new(number).set_alignment(CellAlignment::Right)
}

/// Writes a heading, bold on a terminal.
pub fn heading(text: &str) -> Result<(), Error> {
    if has_colours() { print(&format!("\x1b[1m{}\x1b[0m", escaped(text))) } else { line(text) }
}

/// Returns whether standard output is a terminal whose user wants colours.
fn has_colours() -> bool {
    let has_no = |name, value: fn(&OsStr) -> bool| !std::env::var_os(name).is_some_and(|text| value(&text));
    std::io::stdout().is_terminal()
        && has_no("NO_COLOR", |value| !value.is_empty())
        && has_no("TERM", |value| value == "dumb")
}

/// Returns a cell, in red on a terminal if it is an alarm.
fn painted(cell: &str) -> String {
    let is_alarm = ALARMS.contains(&cell.trim_end()) && has_colours();
    if is_alarm { format!("\x1b[31m{cell}\x1b[0m") } else { cell.to_owned() }
}

/// The encoding of a certificate, a request or a CRL.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Encoding {
    /// PEM.
    Pem,
    /// DER.
    Der,
}

/// The form of a result.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Lines of text.
    Text,
    /// Bytes that a terminal should not get.
    Binary,
}

/// A result in `--json`: the file that has it, or the text, or the bytes.
#[derive(Default, Serialize)]
pub struct Written {
    #[serde(skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The bytes in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    hex: Option<String>,
}

/// A result that is complete, in a file without a name or in memory. A command that changes
/// something makes it before the change, and publishes it afterwards.
pub struct Draft {
    file: Option<NewFile>,
    /// What a device, a FIFO or standard output gets.
    bytes: Zeroizing<Vec<u8>>,
    written: Written,
}

impl Draft {
    /// Returns whether the result gets a place where no reader makes the command wait.
    pub fn is_file(&self) -> bool {
        self.file.as_ref().is_some_and(|file| !file.is_stream())
    }

    /// Gives the file its name, or writes to the device or to standard output.
    pub fn publish(self) -> Result<Written, Error> {
        match self.file {
            Some(file) => {
                if file.is_stream() {
                    file.write(&self.bytes)?;
                }
                file.publish()?;
            }
            None => {
                let mut stdout = std::io::stdout().lock();
                arrived(stdout.write_all(&self.bytes).and_then(|()| stdout.flush()))?;
            }
        }
        Ok(self.written)
    }

    /// Publishes the result, and writes where it is if the results are JSON.
    pub fn show(self) -> Result<(), Error> {
        if_json(&self.publish()?)
    }
}

/// The mode of a file with a secret, and of one with a public result, from which the umask takes
/// bits.
const SECRET: u32 = 0o600;
const PUBLIC: u32 = 0o666;

/// The destination of a result.
#[derive(Args, Clone)]
pub struct Output {
    /// Write to this file instead of standard output. Only its owner can read it, unless the result
    /// is public, such as a certificate: then the umask decides.
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Replace the file if it exists.
    #[arg(long)]
    force: bool,
    /// If the file of --out exists, keep it, and exit with 0.
    #[arg(long, requires = "out", conflicts_with = "force")]
    if_absent: bool,
}

impl Output {
    /// Returns the file of `--out`; `None` for `-`, which is standard output.
    fn file(&self) -> Option<&Path> {
        self.out.as_deref().filter(|path| *path != Path::new("-"))
    }

    /// Returns the file of `--out`.
    pub fn path(&self) -> Option<&Path> {
        self.file()
    }

    /// Returns the destination of the result of one of several input files: a file with its name
    /// and this ending, in the directory of `--out`.
    pub fn beside(&self, input: &Path, ending: &str) -> Result<Self, Error> {
        let stem = input.file_stem().filter(|_| input != Path::new("-"));
        match (self.file().filter(|folder| folder.is_dir()), stem) {
            (Some(folder), Some(stem)) => {
                // The stem may be `..`, which is no path here.
                let mut name = stem.to_owned();
                name.push(".");
                name.push(ending);
                Ok(Self { out: Some(folder.join(name)), ..self.clone() })
            }
            _ => Err(Error::Usage(
                "several files need a directory for their results: --out DIRECTORY".to_owned(),
            )),
        }
    }

    /// Returns whether the command line has `--if-absent`.
    pub fn if_absent(&self) -> bool {
        self.if_absent
    }

    /// Returns whether the file of `--out` exists and is kept.
    pub fn is_kept(&self) -> bool {
        let kept = |path: &Path| path.exists() && !output_file::is_stream(path);
        self.if_absent && self.file().is_some_and(kept)
    }

    /// Reports the file of `--out` and returns true if it is kept: the command does nothing then.
    pub fn keep(&self) -> Result<bool, Error> {
        let is_kept = self.is_kept();
        if is_kept {
            self.text(&[])?;
        }
        Ok(is_kept)
    }

    /// Fails if the file of `--out` cannot be made, or exists and may not be replaced. A command
    /// calls this before it changes something or uses a key.
    pub fn expect_writable(&self) -> Result<(), Error> {
        match self.file() {
            Some(path) if !self.is_kept() && !output_file::is_stream(path) => {
                self.create(path, SECRET).map(drop)
            }
            _ => Ok(()),
        }
    }

    fn create(&self, path: &Path, mode: u32) -> Result<NewFile, Error> {
        NewFile::with_mode(path, if self.force { Existing::Replace } else { Existing::Keep }, mode)
    }

    /// Returns the file that the result replaces.
    pub fn replaced(&self) -> Option<PathBuf> {
        self.file().filter(|path| self.force && path.is_file()).map(Path::to_owned)
    }

    /// Writes text to the file of `--out`, or to standard output.
    pub fn text(&self, bytes: &[u8]) -> Result<(), Error> {
        self.show(bytes, Form::Text, SECRET)
    }

    /// Writes bytes that are not text. Fails if they would go to a terminal.
    pub fn binary(&self, bytes: &[u8]) -> Result<(), Error> {
        self.show(bytes, Form::Binary, SECRET)
    }

    /// Writes a result that is no secret.
    pub fn public(&self, bytes: &[u8], form: Form) -> Result<(), Error> {
        self.show(bytes, form, PUBLIC)
    }

    fn show(&self, bytes: &[u8], form: Form, mode: u32) -> Result<(), Error> {
        self.draft(bytes, form, mode)?.show()
    }

    /// Encodes structures that follow each other, in DER, or in PEM with this label. The caller
    /// publishes the result, and writes it if it is JSON.
    pub fn encoded(&self, all: &[impl AsRef<[u8]>], label: &str, encoding: Encoding) -> Result<Draft, Error> {
        let pem = |der| {
            let pem = der::pem::encode_string(label, der::pem::LineEnding::LF, der);
            pem.map_err(|error| Error::Failed(error.to_string()))
        };
        let mut each = all.iter().map(AsRef::as_ref);
        NEEDED.store(self.file().is_none(), Relaxed);
        match encoding {
            Encoding::Der => self.draft(&each.collect::<Vec<_>>().concat(), Form::Binary, PUBLIC),
            Encoding::Pem => self.draft(
                each.try_fold(String::new(), |all, der| Ok::<_, Error>(all + &pem(der)?))?.as_bytes(),
                Form::Text,
                PUBLIC,
            ),
        }
    }

    fn draft(&self, bytes: &[u8], form: Form, mode: u32) -> Result<Draft, Error> {
        let (mut written, mut file, mut kept) = (Written::default(), None, Zeroizing::default());
        if mode == SECRET
            && self.file().is_none_or(output_file::is_stream)
            && std::env::var_os(RECORDED).is_some()
        {
            let text = "the record of the ceremony would have this result: write it to a file with --out";
            return Err(Cause::Refused.error(text));
        }
        if let Some(path) = self.file() {
            // The name may not be UTF-8, as JSON is.
            written.file = Some(path.display().to_string());
            if !self.is_kept() {
                let new = file.insert(self.create(path, mode)?);
                if new.is_stream() {
                    kept = bytes.to_vec().into();
                } else {
                    new.write(bytes)?;
                }
            }
        } else if is_json() {
            match form {
                Form::Text => written.text = Some(String::from_utf8_lossy(bytes).into_owned()),
                Form::Binary => written.hex = Some(hex(bytes)),
            }
        } else if form == Form::Binary && std::io::stdout().is_terminal() {
            let text = "the result is not text; give a file with --out, or use a pipe";
            return Err(Error::Usage(text.to_owned()));
        } else {
            kept = bytes.to_vec().into();
        }
        Ok(Draft { file, bytes: kept, written })
    }
}

/// Reads a file, or standard input for `-`. Fails if it is larger than `most` bytes.
pub fn input(path: &Path, most: usize) -> Result<Vec<u8>, Error> {
    let bytes = formats::input(path, most).map_err(Error::io(path))?;
    bytes.ok_or_else(|| Error::Failed(format!("{} is larger than {most} bytes", path.display())))
}

/// The maximum length of a message in bytes.
pub const MESSAGE: usize = 256 << 20;
