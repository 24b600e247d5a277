//! The options that choose a module, a token and objects.

use std::io::IsTerminal;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use cryptoki_sys::{
    CK_SLOT_ID, CKA_CLASS, CKA_ID, CKA_LABEL, CKF_LOGIN_REQUIRED, CKR_GENERAL_ERROR, CKR_PIN_INCORRECT,
    CKR_PIN_LOCKED, CKS_RO_PUBLIC_SESSION, CKS_RW_PUBLIC_SESSION,
};
use jeton_client::safe_text::{from_hex, shown};
use jeton_peers::Known;
use jeton_tool::client::{Access, Attribute, Module, ObjectHandle, Session, SlotId, TokenInfo, User};
use jeton_tool::object::class_named;
use jeton_tool::token::{self, Choice};
use jeton_tool::uri::Uri;
use jeton_tool::{Cause, Error, token_file};
use zeroize::Zeroizing;

use super::again::Proposed;
use super::out::shown_path;
use super::pin::{self, Asked, UserPin};

/// The options that choose a module.
#[derive(Args, Clone)]
pub struct ModuleOption {
    /// A module: jeton, jeton-agent (its client), softhsm2, nss, kryoptic, craton, or the path of
    /// a shared object.
    #[arg(long, hide_possible_values = true,
          value_parser = Proposed(&["jeton", "jeton-agent", "softhsm2", "nss", "kryoptic", "craton"]))]
    module: Option<String>,
    /// The library parameters of C_Initialize, which NSS needs: "configdir='sql:DIRECTORY'".
    #[arg(long, value_name = "TEXT")]
    parameters: Option<String>,
}

impl ModuleOption {
    /// Returns the name or path of the module.
    pub fn name(&self) -> &str {
        self.module.as_deref().unwrap_or("jeton")
    }

    /// Returns the client module for a group of agents, of which a new key needs this number.
    pub fn of_group(&self, needed: u8, agents: &[String]) -> Result<Self, Error> {
        if self.parameters.is_some() {
            return Err(Error::Usage("--agents replaces --parameters".to_owned()));
        }
        if let Some(wrong) = agents.iter().find(|agent| agent.contains(['\'', '\n'])) {
            return Err(Error::Usage(format!("{wrong:?} is no address")));
        }
        let agents: Vec<_> = agents.iter().map(|agent| format!("'{agent}'")).collect();
        let parameters = format!("split = {{ threshold = {needed}, agents = [{}] }}", agents.join(", "));
        let module = self.module.clone().or_else(|| Some("jeton-agent".to_owned()));
        Ok(Self { module, parameters: Some(parameters) })
    }

    /// Loads and initialises the module. Fails if the URI names a module, unless --module names the
    /// same one. A module is a program: only the user may choose it, and a URI may come from
    /// someone else.
    pub fn open(&self, uri: Option<&Uri>) -> Result<Module, Error> {
        let named = uri.map(|uri| [("module-path", &uri.module_path), ("module-name", &uri.module_name)]);
        for (attribute, module) in named.into_iter().flatten() {
            let Some(module) = module else { continue };
            if !self.module.as_deref().is_some_and(|own| is_same_module(own, module)) {
                return Err(Error::Usage(format!(
                    "the URI names a module ({attribute}={}), which the tool loads only if --module names it too",
                    shown(module)
                )));
            }
        }
        open(self.name(), self.parameters.as_deref())
    }
}

/// Returns whether both are names or paths of one module. `module-name` is the name of a file
/// without its ending, and possibly without "lib".
fn is_same_module(own: &str, named: &str) -> bool {
    if own == named {
        return true;
    }
    let Ok(own) = jeton_peers::library_of(own) else { return false };
    if named.contains('/') {
        // One file may have several paths.
        let files = [own.as_path(), Path::new(named)].map(std::fs::metadata);
        return matches!(files, [Ok(own), Ok(named)] if (own.dev(), own.ino()) == (named.dev(), named.ino()));
    }
    let stem = own.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    stem == named || stem.strip_prefix("lib") == Some(named)
}

/// Loads and initialises a module by its name or path.
pub fn open(name: &str, parameters: Option<&str>) -> Result<Module, Error> {
    let module = Module::load(jeton_peers::library_of(name)?)?;
    let looking = Known::named(name).and_then(Known::looking_parameters);
    let done = module.initialize(parameters.or(looking));
    done.map_err(|failure| match failure.code {
        // The log has said why the configuration is refused. Another look would say it again.
        CKR_GENERAL_ERROR => failure.into(),
        _ => unreadable(name).unwrap_or(failure.into()),
    })?;
    Ok(module)
}

/// Returns the error of the first token of Jeton that this user cannot open. The module does not
/// say why it cannot read a directory, and a token that it cannot read looks as if it were absent.
pub fn unreadable(module: &str) -> Option<Error> {
    is_in_process(module).then(token_file::unreadable).flatten()
}

/// Returns whether the module opens the tokens of this user: Jeton, unless `JETON_MODULE` names the
/// client module of the agent, whose tokens belong to another user.
pub fn is_in_process(module: &str) -> bool {
    module == "jeton" && !is_agent(module)
}

/// Returns whether the module is the client module of the agent.
pub fn is_agent(module: &str) -> bool {
    let is_client = |file: PathBuf| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libjeton_client"))
    };
    jeton_peers::library_of(module).is_ok_and(is_client)
}

/// The start of each command for the files of the agent of the packages.
const AS_AGENT: &str = "runuser -u jeton -- env -u JETON_MODULE JETON_DIR=/var/lib/jeton/agent jeton";

/// Returns the error of a command that needs the files of a token, for the client of the agent.
pub fn not_through_agent() -> Error {
    let text =
        "this command works on the files of a token, and those of the agent belong to its user; as root";
    Cause::NotPermitted.error(format!("{text}: {AS_AGENT} ..."))
}

/// Returns the option that names this module in a command.
fn target_option(module: &str) -> String {
    if module == "jeton" { String::new() } else { format!(" --module {}", shown(module)) }
}

/// The options that choose a token.
#[derive(Args, Clone)]
pub struct Target {
    #[command(flatten)]
    pub module: ModuleOption,
    /// The token with this label or PKCS#11 URI (pkcs11:token=...). If no option chooses a token,
    /// the module must have only one.
    #[arg(long, value_name = "LABEL", group = "which", value_hint = clap::ValueHint::Other)]
    token: Option<String>,
    /// The token with this serial number.
    #[arg(long, group = "which")]
    serial: Option<String>,
    /// The slot with this number.
    #[arg(long, group = "which")]
    slot: Option<CK_SLOT_ID>,
}

/// A token that was found, and its module.
pub struct Opened {
    /// The module.
    pub module: Module,
    /// The slot of the token.
    pub slot: SlotId,
    /// The token.
    pub info: TokenInfo,
    /// The name or path of the module.
    name: String,
    /// The URI that chose the token.
    uri: Option<Uri>,
}

impl Target {
    /// Finds the token. `object` is the URI of an object, which names its token too.
    pub fn open(&self, object: Option<&Uri>) -> Result<Opened, Error> {
        let own = self.token.as_deref().filter(|token| Uri::is(token)).map(Uri::parse).transpose()?;
        let uri = own.or_else(|| object.cloned());
        let module = self.module.open(uri.as_ref())?;
        let choice = self.choice(uri.as_ref());
        let slot = token::choose(&module, &choice).map_err(|error| match error.cause() {
            Cause::NotFound => unreadable(self.module.name()).unwrap_or(error),
            _ => error,
        })?;
        let info = module.token_info(slot)?;
        Ok(Opened { module, slot, info, name: self.module.name().to_owned(), uri })
    }

    fn choice(&self, uri: Option<&Uri>) -> Choice {
        if let Some(slot) = self.slot {
            return Choice::Slot(SlotId(slot));
        }
        if let Some(serial) = &self.serial {
            return Choice::Serial(serial.clone());
        }
        match (&self.token, uri) {
            (Some(label), _) if !Uri::is(label) => Choice::Label(label.clone()),
            (_, Some(uri)) => Choice::Uri(Box::new(uri.clone())),
            _ => Choice::Only,
        }
    }
}

/// Whether a command needs the user's PIN.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// The command logs in. If nothing gives the PIN, and the token requires a login, the tool
    /// asks for it.
    Login,
    /// The command logs in if the token requires a login, and an option, a variable or the URI
    /// gives the PIN.
    IfGiven,
}

impl Opened {
    /// Takes a token that a list of slots of the module with this name has.
    pub fn at(module: Module, name: &str, slot: SlotId, info: TokenInfo) -> Self {
        Self { module, slot, info, name: name.to_owned(), uri: None }
    }

    /// Returns the command that sets the PIN of this token again: the user's, or the SO's.
    fn remedy(&self, user: User) -> String {
        let serial = shown(&self.info.serial);
        match (user, target_option(&self.name)) {
            (User::So, _) if is_agent(&self.name) => format!("{AS_AGENT} pin reset --serial {serial}"),
            (User::So, _) => format!("jeton pin reset --serial {serial}"),
            (_, module) => format!("jeton pin unblock{module} --serial {serial}"),
        }
    }

    /// Returns the token and its place, for the message about a change.
    pub fn place(&self) -> String {
        let (label, serial) = (shown(&self.info.label), shown(&self.info.serial));
        let place = match token_file::directory() {
            _ if is_agent(&self.name) => " at the agent".to_owned(),
            Ok(directory) if is_in_process(&self.name) => format!(" in {}", shown_path(&directory)),
            _ => String::new(),
        };
        format!("the token \"{label}\" with serial {serial}{place}")
    }

    /// Opens a session, and logs the user in as `need` says.
    pub fn session(&self, pin: &UserPin, access: Access, need: Need) -> Result<Session, Error> {
        let session = self.module.open_session(self.slot, access)?;
        let is_required = self.info.flags & CKF_LOGIN_REQUIRED != 0;
        if !is_required && need == Need::IfGiven {
            return Ok(session);
        }
        let pin = match self.given(pin)? {
            Some(pin) => pin,
            None if is_required && need == Need::Login => pin::ask(None, "user", || self.asked())?,
            None => return Ok(session),
        };
        self.login(&session, User::User, &pin)?;
        Ok(session)
    }

    /// Returns whether the session has no login, although the token requires one.
    pub fn lacks_login(&self, session: &Session) -> Result<bool, Error> {
        let public = [CKS_RO_PUBLIC_SESSION, CKS_RW_PUBLIC_SESSION].contains(&session.info()?.state);
        Ok(public && self.info.flags & CKF_LOGIN_REQUIRED != 0)
    }

    /// Returns the user's PIN, and asks for it if nothing gives it.
    pub fn pin(&self, pin: &UserPin) -> Result<Zeroizing<String>, Error> {
        match self.given(pin)? {
            Some(pin) => Ok(pin),
            None => pin::ask(None, "user", || self.asked()),
        }
    }

    /// Logs in. The message about a wrong PIN says how many tries are left.
    pub fn login(&self, session: &Session, user: User, pin: &str) -> Result<(), Error> {
        let whose = if user == User::So { "SO" } else { "user" };
        session.login(user, Some(pin)).map_err(|failure| match failure.code {
            CKR_PIN_INCORRECT => {
                let left = self.asked().ok().and_then(|asked| asked.left(whose));
                let left = left.map_or(String::new(), |left| format!("; {left}"));
                Cause::WrongPin.error(format!("{failure}: the {whose} PIN is wrong{left}"))
            }
            CKR_PIN_LOCKED => {
                let pause = match is_agent(&self.name) {
                    true => ". The agent also refuses a client for ten minutes after five wrong PINs",
                    false => "",
                };
                Cause::Locked.error(format!("{failure}; `{}` sets a new one{pause}", self.remedy(user)))
            }
            _ => failure.into(),
        })
    }

    /// Returns the label of the token, and the tries that are left if this is a token of Jeton.
    pub fn asked(&self) -> Result<Asked, Error> {
        if self.info.manufacturer == "Jeton"
            && let Ok(token) = token_file::open(Some(&self.info.serial), None)
        {
            return Asked::of(&token);
        }
        Ok(Asked { label: self.info.label.clone(), tries: (None, None) })
    }

    /// Returns the label and the serial number of the token for `--json`.
    pub fn row(&self) -> serde_json::Value {
        serde_json::json!({ "token": self.info.label, "serial": self.info.serial })
    }

    fn given(&self, pin: &UserPin) -> Result<Option<Zeroizing<String>>, Error> {
        if let Some(pin) = pin.given()? {
            return Ok(Some(pin));
        }
        let Some(uri) = &self.uri else { return Ok(None) };
        if let Some(pin) = &uri.pin_value {
            return Ok(Some(pin.clone()));
        }
        let Some(source) = &uri.pin_source else { return Ok(None) };
        // RFC 7512, 2.4: a "file:" URI or the path of a file.
        let path = source.strip_prefix("file://").or(source.strip_prefix("file:")).unwrap_or(source);
        pin::read(Some(Path::new(path)))
    }
}

/// The options that choose objects.
#[derive(Args, Clone)]
pub struct Objects {
    /// The objects with this label.
    #[arg(long)]
    pub label: Option<String>,
    /// The objects with this ID, in hexadecimal digits.
    #[arg(long, value_name = "HEX")]
    pub id: Option<String>,
    /// The objects of this class: private, public, secret-key, cert or data.
    #[arg(long = "class", hide_possible_values = true,
          value_parser = Proposed(&["private", "public", "secret-key", "cert", "data"]))]
    class: Option<String>,
    /// The objects with this PKCS#11 URI. The URI also chooses the token.
    #[arg(long, conflicts_with_all = ["label", "id", "class"])]
    uri: Option<String>,
}

impl Objects {
    /// Returns a choice by label and ID.
    pub fn named(label: Option<String>, id: Option<String>) -> Self {
        Self { label, id, class: None, uri: None }
    }

    /// Reads the URI.
    pub fn uri(&self) -> Result<Option<Uri>, Error> {
        self.uri.as_deref().map(Uri::parse).transpose()
    }

    /// Returns whether no option restricts the search.
    pub fn is_all(&self) -> Result<bool, Error> {
        let uri = self.uri()?.unwrap_or_default();
        let has_options = self.label.is_some() || self.id.is_some() || self.class.is_some();
        Ok(!has_options && uri.object.is_none() && uri.id.is_none() && uri.class.is_none())
    }

    /// Finds the objects of these classes, or of every class if `classes` is empty.
    pub fn find(&self, session: &Session, classes: &[&str]) -> Result<Vec<ObjectHandle>, Error> {
        let uri = self.uri()?.unwrap_or_default();
        let mut template = Vec::new();
        let label = self.label.as_ref().or(uri.object.as_ref());
        template.extend(label.map(|label| Attribute::bytes(CKA_LABEL, label.as_bytes())));
        let id = self.id.as_deref().map(id_of).transpose()?.or(uri.id);
        template.extend(id.map(|id| Attribute::bytes(CKA_ID, id)));
        let wanted = self.class.as_deref().or(uri.class.as_deref());
        if let Some(wanted) = wanted.filter(|wanted| !classes.is_empty() && !classes.contains(wanted)) {
            let known = classes.join(", ");
            return Err(Error::Usage(format!("this command works on {known}, not on {wanted}")));
        }
        let classes = wanted.as_ref().map_or(classes, std::slice::from_ref);
        if classes.is_empty() {
            return Ok(session.find(&template)?);
        }
        let mut found = Vec::new();
        for name in classes {
            let class = class_named(name).ok_or_else(|| {
                Error::Usage(format!(
                    "unknown class {name:?}; known are private, public, secret-key, cert, data"
                ))
            })?;
            let template: Vec<_> =
                template.iter().cloned().chain([Attribute::number(CKA_CLASS, class)]).collect();
            found.extend(session.find(&template)?);
        }
        Ok(found)
    }

    /// Finds an object of one of these classes. Fails unless exactly one fits the options.
    pub fn one(&self, session: &Session, classes: &[&str]) -> Result<ObjectHandle, Error> {
        let what = if classes.is_empty() {
            "object".to_owned()
        } else {
            format!("object of class {}", classes.join(" or "))
        };
        match self.find(session, classes)?.as_slice() {
            [object] => Ok(*object),
            [] => Err(Cause::NotFound.error(format!(
                "no such {what}; `jeton object list` shows the objects, private ones after a login"
            ))),
            several => Err(Error::Failed(format!(
                "{} objects fit; choose one with --label, --id, --class or --uri",
                several.len()
            ))),
        }
    }
}

/// The options that choose a token, log in, and choose objects.
#[derive(Args, Clone)]
pub struct Chosen {
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    pub objects: Objects,
    #[command(flatten)]
    pub pin: UserPin,
}

impl Chosen {
    /// Finds the token, opens a session, and logs the user in as `need` says.
    pub fn session(&self, access: Access, need: Need) -> Result<(Opened, Session), Error> {
        let opened = self.target.open(self.objects.uri()?.as_ref())?;
        let session = opened.session(&self.pin, access, need)?;
        Ok((opened, session))
    }
}

/// Reads an ID in hexadecimal digits.
pub fn id_of(text: &str) -> Result<Vec<u8>, Error> {
    from_hex(text).ok_or_else(|| Error::Usage(format!("the ID {text:?} is not pairs of hexadecimal digits")))
}

/// Asks whether to go on, unless `yes` is set. Fails if the answer is no, or if there is no
/// terminal.
pub fn confirm(yes: bool, question: &str) -> Result<(), Error> {
    if yes {
        return Ok(());
    }
    if !std::io::stdin().is_terminal() {
        return Err(Error::Usage(format!("{question} There is no terminal to ask; --yes answers yes")));
    }
    eprint!("{question} [y/N] ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(Error::io("terminal"))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(Error::Failed("nothing was changed".to_owned()))
    }
}
