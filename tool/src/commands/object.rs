//! `object`: list, show, delete, copy and change objects.

use std::path::PathBuf;
use std::process::{ExitCode, Termination};

use clap::{Args, Subcommand};
use cryptoki_sys::*;
use jeton_client::safe_text::shown;
use jeton_tool::client::{Access, Attribute, names};
use jeton_tool::formats::MAX_FILE;
use jeton_tool::object::{CLASSES, Description, decoded, describe};
use jeton_tool::{Cause, Error};
use serde::Serialize;
use zeroize::Zeroizing;

use super::again::Again;
use super::out::{self, Output};
use super::pin::UserPin;
use super::target::{Chosen, Need, Target, confirm, id_of};

/// The objects of a token.
#[derive(Args)]
pub struct Object {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// List the objects of a token. Private ones are listed after a login.
    List(List),
    /// Show every readable attribute of an object.
    Show(Show),
    /// Delete objects.
    Delete(Delete),
    /// Copy an object.
    Copy(Change),
    /// Change the label, the ID or the protection of an object.
    Set(Change),
    /// Make a data object (CKO_DATA) from a file.
    Import(Import),
    /// Write the contents of a data object or a certificate to a file.
    Export(Export),
}

impl Object {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! {
            self.what, What: Show Delete Import Export;
            What::List(command) => command.run(&[]).map(Termination::report),
            What::Copy(command) => command.run(Deed::Copy).map(Termination::report),
            What::Set(command) => command.run(Deed::Set).map(Termination::report),
        }
    }
}

/// List the objects of a token. Private ones are listed after a login.
#[derive(Args)]
pub struct List {
    #[command(flatten)]
    chosen: Chosen,
    /// Ask for the user's PIN, so that private objects are listed too.
    #[arg(long)]
    login: bool,
    /// Show all properties of each object.
    #[arg(long)]
    long: bool,
}

impl List {
    /// Lists the objects of these classes, or all objects if `classes` is empty.
    pub fn run(self, classes: &[&str]) -> Result<(), Error> {
        let need = if self.login { Need::Login } else { Need::IfGiven };
        let (opened, session) = self.chosen.session(Access::ReadOnly, need)?;
        let found = self.chosen.objects.find(&session, classes)?;
        let mut rows: Vec<_> =
            found.into_iter().map(|object| describe(&session, &opened.info, object)).collect();
        let class = |row: &Description| CLASSES.iter().position(|(_, name)| *name == row.class);
        rows.sort_by_cached_key(|row| {
            (row.label.clone(), row.id.clone(), class(row).unwrap_or(CLASSES.len()))
        });
        if out::is_json() || self.long {
            show(&rows)?;
        } else {
            lines(&rows)?;
        }
        if opened.lacks_login(&session)? && !out::is_json() {
            eprintln!("note: private objects are hidden without a login; --login asks for the PIN");
        }
        Ok(())
    }
}

/// Writes each object as a line.
fn lines(rows: &[Description]) -> Result<(), Error> {
    let cells = |row: &Description| {
        let size = row.size.map(|size| format!("{size} bytes"));
        let kind = shown(&row.key_type.clone().or(size).unwrap_or_default());
        [row.class.clone(), kind, row.id.clone(), shown(&row.label)]
    };
    out::columns(["Class", "Type", "ID", "Label"], rows.iter().map(cells))
}

/// Writes objects with all their properties.
pub fn show(objects: &[Description]) -> Result<(), Error> {
    if out::is_json() {
        return out::json(&objects);
    }
    objects.iter().try_for_each(show_one)
}

/// Writes a new key or key pair in a line, or all its properties.
pub fn show_new(objects: &[Description], long: bool) -> Result<(), Error> {
    let [key, others @ ..] = objects else { return Ok(()) };
    if long || out::is_json() {
        return show(objects);
    }
    let what = if others.is_empty() { "key" } else { "key pair" };
    let kind = shown(key.key_type.as_deref().unwrap_or(&key.class));
    out::line(format_args!("{kind} {what} {}, ID {}", shown(&key.label), key.id))
}

fn show_one(object: &Description) -> Result<(), Error> {
    let kind = object.key_type.as_ref().map_or(String::new(), |kind| format!(", {kind}"));
    let size = object.size.map_or(String::new(), |size| format!("{size} bytes"));
    let empty = String::new();
    let fields: [(_, &str); 9] = [
        ("Label:", &object.label),
        ("ID:", &object.id),
        ("Size:", &size),
        ("Usage:", &object.usage.join(", ")),
        ("Uses:", &object.uses_left.map_or(String::new(), |uses| format!("{uses} left"))),
        ("Start:", object.start.as_ref().unwrap_or(&empty)),
        ("End:", object.end.as_ref().unwrap_or(&empty)),
        ("Access:", &object.access.join(", ")),
        ("URI:", &object.uri),
    ];
    out::fields(&format!("{}{kind}", object.class), &fields)
}

#[derive(Args)]
struct Show {
    #[command(flatten)]
    chosen: Chosen,
}

/// An attribute in `--json`.
#[derive(Serialize)]
struct Value {
    attribute: String,
    value: serde_json::Value,
}

/// Returns a decoded value as text.
fn in_words(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::Bool(value) => if *value { "yes" } else { "no" }.to_owned(),
        serde_json::Value::String(text) => shown(text),
        serde_json::Value::Array(each) => each.iter().map(in_words).collect::<Vec<_>>().join(", "),
        serde_json::Value::Null => "unavailable".to_owned(),
        other => other.to_string(),
    }
}

impl Show {
    fn run(self) -> Result<(), Error> {
        let (opened, session) = self.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let object = self.chosen.objects.one(&session, &[])?;
        let description = describe(&session, &opened.info, object);
        let mut values = Vec::new();
        for kind in names::attributes() {
            // The secrets of a key are not shown, even if the key is not sensitive.
            if names::is_template(kind) || names::is_secret(kind) {
                continue;
            }
            let Ok(mut found) = session.attributes(object, &[kind]) else { continue };
            if let Some(value) = found.pop().flatten().filter(|value| !value.is_empty()) {
                values.push(Value { attribute: names::attribute(kind), value: decoded(kind, &value) });
            }
        }
        if out::is_json() {
            return out::json(&values);
        }
        show_one(&description)?;
        for value in values {
            out::line(format_args!("    {} = {}", value.attribute, in_words(&value.value)))?;
        }
        Ok(())
    }
}

#[derive(Args)]
struct Delete {
    #[command(flatten)]
    chosen: Chosen,
    /// Delete without a question.
    #[arg(long)]
    yes: bool,
}

impl Delete {
    fn run(self) -> Result<(), Error> {
        if self.chosen.objects.is_all()? {
            return Err(Error::Usage(
                "choose the objects to delete with --label, --id, --class or --uri".to_owned(),
            ));
        }
        let (opened, session) = self.chosen.session(Access::ReadWrite, Need::Login)?;
        let found = self.chosen.objects.find(&session, &[])?;
        if found.is_empty() {
            return Err(Cause::NotFound.error("no such object; `jeton object list` shows the objects"));
        }
        let rows: Vec<_> = found.iter().map(|object| describe(&session, &opened.info, *object)).collect();
        let mut list = String::new();
        for one in &rows {
            list += &format!("{} \"{}\" id {}\n", one.class, shown(&one.label), one.id);
        }
        confirm(self.yes, &format!("{list}These objects will be deleted. Go on?"))?;
        for object in &found {
            session.destroy_object(*object)?;
        }
        out::result(&rows, format_args!("{} deleted", found.len()))
    }
}

#[derive(Args)]
struct Change {
    #[command(flatten)]
    chosen: Chosen,
    /// The new label.
    #[arg(long, value_name = "LABEL")]
    set_label: Option<String>,
    /// The new ID, in hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    set_id: Option<String>,
    /// Set this property: sensitive, not-extractable, wrap-with-trusted, private or trusted. May be
    /// repeated.
    #[arg(long, value_name = "NAME")]
    set: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Deed {
    Copy,
    Set,
}

impl Change {
    fn run(self, deed: Deed) -> Result<(), Error> {
        let mut changes = Vec::new();
        changes.extend(self.set_label.as_ref().map(|label| Attribute::bytes(CKA_LABEL, label.as_bytes())));
        changes.extend(self.set_id.as_deref().map(id_of).transpose()?.map(|id| Attribute::bytes(CKA_ID, id)));
        changes.extend(self.set.iter().map(|name| named(name)).collect::<Result<Vec<_>, _>>()?);
        if changes.is_empty() && deed == Deed::Set {
            return Err(Error::Usage("--set-label, --set-id or --set says what to change".to_owned()));
        }
        let (opened, session) = self.chosen.session(Access::ReadWrite, Need::Login)?;
        let object = self.chosen.objects.one(&session, &[])?;
        let changed = match deed {
            Deed::Set => {
                session.set_attributes(object, &changes)?;
                object
            }
            Deed::Copy => {
                changes.push(Attribute::flag(CKA_TOKEN, true));
                session.copy_object(object, &changes)?
            }
        };
        show(&[describe(&session, &opened.info, changed)])
    }
}

#[derive(Args)]
struct Import {
    /// The file, or - for standard input.
    file: PathBuf,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pin: UserPin,
    /// The label.
    #[arg(long)]
    label: String,
    /// The application that uses the object, CKA_APPLICATION.
    #[arg(long, default_value = "")]
    application: String,
    /// Allow reading the object without a login.
    #[arg(long)]
    public: bool,
    #[command(flatten)]
    again: Again,
}

impl Import {
    fn run(self) -> Result<(), Error> {
        let value = Zeroizing::new(out::input(&self.file, MAX_FILE)?);
        let opened = self.target.open(None)?;
        let session = opened.session(&self.pin, Access::ReadWrite, Need::Login)?;
        let names = [
            Attribute::number(CKA_CLASS, CKO_DATA),
            Attribute::bytes(CKA_LABEL, self.label.as_bytes()),
            Attribute::bytes(CKA_APPLICATION, self.application.as_bytes()),
        ];
        let object = match session.find(&names)?.first() {
            Some(object) if self.again.if_absent => *object,
            Some(_) if !self.again.allow_duplicate => {
                return Err(Again::refused(&format!("a data object with the label {:?}", self.label)));
            }
            _ => {
                let more = [
                    Attribute::flag(CKA_TOKEN, true),
                    Attribute::flag(CKA_PRIVATE, !self.public),
                    Attribute::bytes(CKA_VALUE, value.as_slice()),
                ];
                session.create_object(&[&names[..], &more].concat())?
            }
        };
        show(&[describe(&session, &opened.info, object)])
    }
}

#[derive(Args)]
struct Export {
    #[command(flatten)]
    chosen: Chosen,
    #[command(flatten)]
    output: Output,
}

impl Export {
    fn run(self) -> Result<(), Error> {
        let (_, session) = self.chosen.session(Access::ReadOnly, Need::IfGiven)?;
        let object = self.chosen.objects.one(&session, &["data", "cert"])?;
        self.output.binary(&session.bytes(object, CKA_VALUE))
    }
}

fn named(name: &str) -> Result<Attribute, Error> {
    Ok(match name {
        "sensitive" => Attribute::flag(CKA_SENSITIVE, true),
        "not-extractable" => Attribute::flag(CKA_EXTRACTABLE, false),
        "wrap-with-trusted" => Attribute::flag(CKA_WRAP_WITH_TRUSTED, true),
        "private" => Attribute::flag(CKA_PRIVATE, true),
        "trusted" => Attribute::flag(CKA_TRUSTED, true),
        _ => {
            return Err(Error::Usage(format!(
                "unknown attribute {name:?}; known are sensitive, not-extractable, wrap-with-trusted, private, trusted"
            )));
        }
    })
}
