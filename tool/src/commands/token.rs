//! `token`: initialise, list, delete, rename, move and show tokens. The first three commands have
//! the options of `softhsm2-util`.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Subcommand, ValueEnum};
use cryptoki_sys::{
    CK_SLOT_ID, CKF_SO_PIN_COUNT_LOW, CKF_SO_PIN_FINAL_TRY, CKF_SO_PIN_LOCKED, CKF_TOKEN_INITIALIZED,
    CKF_USER_PIN_COUNT_LOW, CKF_USER_PIN_FINAL_TRY, CKF_USER_PIN_INITIALIZED, CKF_USER_PIN_LOCKED,
    CKF_WRITE_PROTECTED, CKR_TOKEN_NOT_RECOGNIZED,
};
use jeton_client::safe_text::shown;
use jeton_tool::client::{Access, Module, SlotId};
use jeton_tool::error::DAMAGED;
use jeton_tool::token::{self, Choice, Slot};
use jeton_tool::token_file::{self, Destination, Moved, TokenFile};
use jeton_tool::{Cause, Error};
use serde::Serialize;
use zeroize::Zeroizing;

use super::again::Again;
use super::out::{self, shown_path};
use super::pin::{self, SoPin, UserPin};
use super::target::{self, ModuleOption, confirm};
use super::token_file::{TokenInfo, Which};

/// The tokens of a module.
#[derive(Args)]
pub struct Token {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Initialise a token and set its PINs. --slot, --serial and --token choose a token to erase.
    Init(InitToken),
    /// List the tokens.
    List(ListTokens),
    /// Delete a token of Jeton with everything in it.
    Delete(DeleteToken),
    /// Give a token of Jeton another label.
    Rename(Rename),
    /// Move a token of Jeton between the token directory and the database.
    Move(MoveToken),
    /// Show the properties of a Jeton token that can be read without a PIN.
    Info(TokenInfo),
}

impl Token {
    pub fn run(self) -> Result<ExitCode, Error> {
        run_each! { self.what, What: Init List Delete Rename Move Info; }
    }
}

/// The PINs of a token for tests, of the SO and of the user.
const TEST_PINS: [&str; 2] = ["12345678", "87654321"];
/// The options, and the groups of options, whose values `--test` fixes.
const TEST_CONFLICTS: [&str; 4] = ["parameters", "WholeSoPin", "SoPinShares", "UserPin"];

/// Initialise a token and set its PINs.
///
/// --slot, --serial and --token choose a token, which is erased with all its objects. Without these
/// options, the command uses the first slot without an initialised token.
///
/// --test makes a token for test suites: the PINs are in the documentation, and the key derivation
/// is the cheapest. Never put a real key into it.
#[derive(Args)]
struct InitToken {
    #[command(flatten)]
    module: ModuleOption,
    /// The first slot whose token is not initialised.
    #[arg(long, group = "which")]
    free: bool,
    /// The slot with this number.
    #[arg(long, group = "which")]
    slot: Option<CK_SLOT_ID>,
    /// The token with this serial. It is erased.
    #[arg(long, group = "which")]
    serial: Option<String>,
    /// The token with this label. It is erased.
    #[arg(long, group = "which")]
    token: Option<String>,
    /// The label of the token, 32 bytes at most. With --test, "test" is the default.
    #[arg(long, required_unless_present = "test")]
    label: Option<String>,
    /// Make a token for tests, with the SO PIN 12345678, the user PIN 87654321 and the cheapest key
    /// derivation. Refused if the policy is strict.
    #[arg(long, conflicts_with_all = TEST_CONFLICTS)]
    test: bool,
    #[command(flatten)]
    so_pin: SoPin,
    #[command(flatten)]
    pin: UserPin,
    /// Erase an initialised token without a question.
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    again: Again,
}

impl InitToken {
    pub fn run(self) -> Result<(), Error> {
        let label = self.label.as_deref().unwrap_or("test");
        check_label(label)?;
        let choice = choice(self.free, self.slot, self.serial, self.token).unwrap_or(Choice::Free);
        let module = if self.test { for_tests(&self.module)? } else { self.module.open(None)? };
        let slots = token::slots(&module)?;
        let is_same = |slot: &&Slot| {
            slot.token.as_ref().is_some_and(|token| token.is_initialised() && token.label == label)
        };
        let same = slots.iter().find(is_same).filter(|_| !self.again.allow_duplicate);
        if let Some(slot) = same.filter(|_| self.again.if_absent) {
            let text = format!("The token {label:?} is in slot {} already.", slot.id.0);
            return out::result(&rows(&self.module, &module, std::slice::from_ref(slot))?.0.pop(), text);
        }
        let slot = token::choose(&module, &choice)?;
        if same.is_some_and(|same| same.id != slot) {
            return Err(Again::refused(&format!("a token labelled {label:?}")));
        }
        let found = module.token_info(slot)?;
        if found.is_initialised() {
            let old = shown(&found.label);
            confirm(self.yes, &format!("The token \"{old}\" and all its objects will be erased. Go on?"))?;
        }
        let (so_pin, pin) = if self.test {
            TEST_PINS.map(|pin| Zeroizing::new(pin.to_owned())).into()
        } else {
            (
                pin::ask_new(self.so_pin.given()?, "SO", label)?,
                pin::ask_new(self.pin.given()?, "user", label)?,
            )
        };
        let slot = token::initialise(&module, &Choice::Slot(slot), label, &so_pin, &pin)?;
        let serial = module.token_info(slot)?.serial;
        let text = format!("The token {label:?} with serial {serial} is in slot {}.", slot.0);
        let mut slots = token::slots(&module)?;
        slots.retain(|one| one.id == slot);
        out::result(&rows(&self.module, &module, &slots)?.0.pop(), text)
    }
}

/// Opens the module of Jeton with the cheapest key derivation. Fails if the policy is *strict*.
fn for_tests(module: &ModuleOption) -> Result<Module, Error> {
    if !target::is_in_process(module.name()) {
        return Err(Error::Usage("--test makes only tokens of Jeton".to_owned()));
    }
    if token_file::is_strict()? {
        return Err(Cause::Refused.error("the policy is strict, so a token with known PINs is refused"));
    }
    target::open(module.name(), Some(&token_file::cheapest_derivation()))
}

/// Fails if a token cannot have this label: blanks at its end are padding (`CK_TOKEN_INFO`).
pub fn check_label(label: &str) -> Result<(), Error> {
    if !(1..=32).contains(&label.len()) || label.ends_with(' ') {
        let text = "a label has 1 to 32 bytes and no blank at its end; --label gives another one";
        return Err(Error::Usage(text.to_owned()));
    }
    Ok(())
}

/// List the tokens of a module, each in a line. For tokens of other modules than Jeton, the list
/// has the number of objects that they show without a PIN. If a token file is damaged, the
/// command fails after it has listed the other tokens.
#[derive(Args)]
struct ListTokens {
    #[command(flatten)]
    module: ModuleOption,
    /// List the slots without an initialised token too. --json always does.
    #[arg(long)]
    all: bool,
    /// Show all properties of each slot.
    #[arg(long)]
    long: bool,
}

/// The columns of a listing.
const COLUMNS: [&str; 7] = ["Slot", "Label", "Serial", "User PIN", "SO PIN", "Objects", "File"];
/// The columns of a listing of tokens of another module.
const FOREIGN: [&str; 6] = ["Slot", "Label", "Serial", "User PIN", "SO PIN", "Public objects"];

/// A slot in `--json`.
#[derive(Serialize)]
struct Row {
    slot: u64,
    description: String,
    manufacturer: String,
    token: Option<TokenRow>,
}

#[derive(Serialize)]
struct TokenRow {
    label: String,
    serial: String,
    model: String,
    manufacturer: String,
    initialised: bool,
    user_pin_set: bool,
    write_protected: bool,
    user_pin: &'static str,
    so_pin: &'static str,
    min_pin_bytes: u64,
    max_pin_bytes: u64,
    /// The number of objects. `None` if it is unknown, as of a token of another module.
    objects: Option<u64>,
    /// The number of objects that a token of another module shows without a PIN.
    public_objects: Option<u64>,
    file: Option<PathBuf>,
}

/// Describes slots. Also returns the error of [`token_file::all_again`]. Finalizes the module of
/// Jeton: this process opens the files of the tokens itself.
fn rows(option: &ModuleOption, module: &Module, slots: &[Slot]) -> Result<(Vec<Row>, Option<Error>), Error> {
    if !target::is_in_process(option.name()) {
        let public = |slot: &Slot| {
            let session = module.open_session(slot.id, Access::ReadOnly)?;
            session.find(&[]).map(|objects| objects.len() as u64)
        };
        let (mut rows, mut damaged) = (Vec::new(), None);
        for slot in slots {
            let found = public(slot);
            if let (Some(token), Err(failure)) = (slot.token.as_ref(), &found)
                && token.is_initialised()
                && failure.code == CKR_TOKEN_NOT_RECOGNIZED
            {
                let text = format!("the token \"{}\" with serial {}: ", shown(&token.label), token.serial);
                damaged = damaged.or(Some(Cause::Damaged.error(format!("{text}{failure}{DAMAGED}"))));
            }
            rows.push(Row::of(slot, None, found.ok()));
        }
        return Ok((rows, damaged));
    }
    module.finalize()?;
    let (files, refused) = token_file::all_again()?;
    let serial = |file: TokenFile| Some((token_file::info(&file).ok()?.serial, file));
    let files: HashMap<_, _> = files.into_iter().filter_map(serial).collect();
    let file = |slot: &Slot| files.get(&slot.token.as_ref()?.serial);
    Ok((slots.iter().map(|slot| Row::of(slot, file(slot), None)).collect(), refused))
}

impl ListTokens {
    fn run(self) -> Result<(), Error> {
        let module = self.module.open(None)?;
        let (mut rows, refused) = rows(&self.module, &module, &token::slots(&module)?)?;
        if out::is_json() {
            out::json(&rows)?;
        } else {
            rows.retain(|row| self.all || row.token.as_ref().is_some_and(|token| token.initialised));
            self.show(&rows)?;
            if rows.is_empty() && refused.is_none() {
                let hidden = match target::is_agent(self.module.name()) {
                    true => {
                        ", or a rule of the agent hides it, or the agent cannot read its file, as its log says"
                    }
                    false => "",
                };
                eprintln!("note: no token is initialised{hidden}; `jeton token init` makes one");
            }
        }
        // A damaged token looks as if it were absent.
        refused.map_or(Ok(()), Err)
    }

    fn show(&self, rows: &[Row]) -> Result<(), Error> {
        let is_foreign = !target::is_in_process(self.module.name());
        if self.long {
            let names: &[_] = if is_foreign { &FOREIGN } else { &COLUMNS };
            return rows.iter().try_for_each(|row| row.show(names));
        }
        if !is_foreign {
            return out::columns(COLUMNS, rows.iter().map(Row::cells));
        }
        let without_file = |row: &Row| {
            let [cells @ .., _] = row.cells();
            cells
        };
        out::columns(FOREIGN, rows.iter().map(without_file))
    }
}

impl Row {
    fn of(slot: &Slot, file: Option<&TokenFile>, public_objects: Option<u64>) -> Self {
        let token = slot.token.as_ref().map(|token| {
            let state = |low, last, locked| {
                let states = [(locked, "locked"), (last, "one try left"), (low, "wrong PINs were tried")];
                states.into_iter().find(|(flag, _)| token.flags & flag != 0).map_or("ok", |(_, state)| state)
            };
            TokenRow {
                label: token.label.clone(),
                serial: token.serial.clone(),
                model: token.model.clone(),
                manufacturer: token.manufacturer.clone(),
                initialised: token.flags & CKF_TOKEN_INITIALIZED != 0,
                user_pin_set: token.flags & CKF_USER_PIN_INITIALIZED != 0,
                write_protected: token.flags & CKF_WRITE_PROTECTED != 0,
                user_pin: state(CKF_USER_PIN_COUNT_LOW, CKF_USER_PIN_FINAL_TRY, CKF_USER_PIN_LOCKED),
                so_pin: state(CKF_SO_PIN_COUNT_LOW, CKF_SO_PIN_FINAL_TRY, CKF_SO_PIN_LOCKED),
                min_pin_bytes: *token.pin_lengths.start(),
                max_pin_bytes: *token.pin_lengths.end(),
                objects: file.and_then(|file| file.objects().ok()),
                public_objects,
                file: file.map(|file| file.path().to_owned()),
            }
        });
        Self {
            slot: slot.id.0,
            description: slot.slot.description.clone(),
            manufacturer: slot.slot.manufacturer.clone(),
            token,
        }
    }

    fn cells(&self) -> [String; 7] {
        let Some(token) = &self.token else {
            return COLUMNS.map(|name| if name == "Slot" { self.slot.to_string() } else { "-".to_owned() });
        };
        let set = |is_set, state: &str| if is_set { state } else { "not set" }.to_owned();
        [
            self.slot.to_string(),
            if token.initialised { shown(&token.label) } else { "not initialised".to_owned() },
            shown(&token.serial),
            set(token.user_pin_set, token.user_pin),
            set(token.initialised, token.so_pin),
            token.objects.or(token.public_objects).map_or("-".to_owned(), |objects| objects.to_string()),
            token.file.as_ref().map_or("-".to_owned(), |file| shown_path(file)),
        ]
    }

    /// Writes a slot in several lines. `names` are those of the columns.
    fn show(&self, names: &[&str]) -> Result<(), Error> {
        out::heading(&format!("Slot {}", self.slot))?;
        let model = self.token.as_ref().map_or("-", |token| &token.model);
        let more =
            [("Description", &*self.description), ("Manufacturer", &self.manufacturer), ("Model", model)];
        let more = more.map(|(name, text)| (name, shown(text)));
        for (name, value) in more.into_iter().chain(names.iter().copied().zip(self.cells()).skip(1)) {
            out::line(format_args!("    {:<15} {value}", format!("{name}:")))?;
        }
        Ok(())
    }
}

/// Delete a token of Jeton with all its objects.
#[derive(Args)]
struct DeleteToken {
    #[command(flatten)]
    module: ModuleOption,
    /// The token with this serial.
    #[arg(long, group = "which", required_unless_present = "token")]
    serial: Option<String>,
    /// The token with this label.
    #[arg(long, group = "which")]
    token: Option<String>,
    /// Delete the token without a question.
    #[arg(long)]
    yes: bool,
}

impl DeleteToken {
    pub fn run(self) -> Result<(), Error> {
        if target::is_agent(self.module.name()) {
            return Err(target::not_through_agent());
        }
        if !target::is_in_process(self.module.name()) {
            let text = "PKCS#11 has no call that deletes a token; this command deletes only files of Jeton";
            return Err(Error::Usage(text.to_owned()));
        }
        let Some(choice) = choice(false, None, self.serial, self.token) else {
            return Err(Error::Usage("choose a token with --serial or --token".to_owned()));
        };
        let module = self.module.open(None)?;
        let token = module.token_info(token::choose(&module, &choice)?)?;
        let (label, serial) = (shown(&token.label), &token.serial);
        let what = format!("The token \"{label}\" with serial {serial} and all its objects");
        confirm(self.yes, &format!("{what} will be deleted. Go on?"))?;
        // The module must close the files before they are removed.
        module.finalize()?;
        let removed = match token_file::remove_from_database(&token.serial)? {
            Some(place) => vec![place],
            None => token::delete_files(&token_file::directory()?, &token.serial)?,
        };
        let lines: Vec<_> = removed.iter().map(|file| format!("removed {}", shown_path(file))).collect();
        out::result(&serde_json::json!({ "serial": token.serial, "removed": removed }), lines.join("\n"))
    }
}

/// Give a token of Jeton another label. Its objects stay.
#[derive(Args)]
struct Rename {
    #[command(flatten)]
    which: Which,
    /// The new label, 32 bytes at most.
    #[arg(long)]
    label: String,
    #[command(flatten)]
    so_pin: SoPin,
    /// Allow the label even if another token has it.
    #[arg(long)]
    allow_duplicate: bool,
}

impl Rename {
    fn run(self) -> Result<(), Error> {
        check_label(&self.label)?;
        let token = self.which.open()?;
        let serial = token_file::info(&token)?.serial;
        for other in token_file::all()? {
            let other = token_file::info(&other)?;
            if !self.allow_duplicate && other.label == self.label && other.serial != serial {
                let what = format!("there is a token labelled {:?} already", self.label);
                return Err(Cause::Exists.error(format!("{what}; --allow-duplicate allows it")));
            }
        }
        let so_pin = pin::ask(self.so_pin.given()?, "SO", || pin::Asked::of(&token))?;
        token_file::rename(&token, &so_pin, &self.label)?;
        let text = format!(
            "The token is called {:?}. Running programs see the new label after a restart.",
            self.label
        );
        out::result(&super::token_file::row(&token)?, text)
    }
}

/// Move a token of Jeton between the token directory and the database.
///
/// The configuration must name both: the token directory, and the database in [store] url. The
/// token keeps its serial number, its PINs, its counts of wrong PINs and its objects. No PIN is
/// needed. The command compares the complete copy with the token before it removes the token from
/// the old store. Applications that are logged in are logged out.
///
/// If the command is killed, run it again: it finishes the move or undoes it.
#[derive(Args)]
struct MoveToken {
    #[command(flatten)]
    which: Which,
    /// The store that the token moves to.
    #[arg(long)]
    to: To,
}

/// The values of `--to`.
#[derive(Clone, Copy, ValueEnum)]
enum To {
    /// The database that [store] url names.
    Database,
    /// The token directory.
    Directory,
}

/// A token that was moved, in `--json`.
#[derive(Serialize)]
struct MovedRow {
    serial: String,
    label: String,
    objects: u64,
    state: i64,
    /// Absent if the command only finished or undid an earlier move.
    from: Option<String>,
    to: String,
    /// Whether the command only finished or undid an earlier move.
    finished: bool,
}

impl MoveToken {
    fn run(self) -> Result<(), Error> {
        let to = match self.to {
            To::Database => Destination::Database,
            To::Directory => Destination::Directory,
        };
        let (serial, label) = self.which.names();
        let Moved { facts, from, to } = token_file::move_token(serial, label, to)?;
        let (serial, label) = (facts.serial, facts.label);
        if out::is_json() {
            let (objects, state, finished) = (facts.objects, facts.state, from.is_none());
            let text = |path: PathBuf| path.display().to_string();
            let (from, to) = (from.map(text), text(to));
            return out::json(&MovedRow { serial, label, objects, state, from, to, finished });
        }
        let done = if from.is_some() { "Moved" } else { "Finished or undid an earlier move of" };
        out::line(format_args!(
            "{done} the token {} with the serial number {serial}, {} objects.",
            shown(&label),
            facts.objects
        ))?;
        match from {
            Some(from) => out::line(format_args!("From: {}\nTo:   {}", shown_path(&from), shown_path(&to)))?,
            None => out::line(format_args!("It is now in {}", shown_path(&to)))?,
        }
        out::line(match self.to {
            To::Database => "Programs use the token if their configuration has this [store] url.",
            To::Directory => "Programs use the token if their configuration has no [store] url.",
        })
    }
}

fn choice(
    free: bool,
    slot: Option<CK_SLOT_ID>,
    serial: Option<String>,
    label: Option<String>,
) -> Option<Choice> {
    let free = free.then_some(Choice::Free);
    let slot = slot.map(|id| Choice::Slot(SlotId(id)));
    free.or(slot).or(serial.map(Choice::Serial)).or(label.map(Choice::Label))
}
