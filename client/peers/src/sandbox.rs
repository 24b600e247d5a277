//! A fresh token in a temporary directory: the settings of a module before it is loaded, and the
//! calls that initialise the token.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use jeton_client::{Access, Doing, Failure, Module, Session, SlotId, User};
use serde::{Deserialize, Serialize};

use crate::library::agent_program;
use crate::{Error, Known};

/// The user PIN of fresh tokens. It protects nothing: the tokens exist during the run only.
pub const PIN: &str = "jeton-user-1234";
/// The SO PIN of fresh tokens.
pub const SO_PIN: &str = "jeton-so-12345";
const LABEL: &str = "pipeline";
/// The slot of NSS softokn that stores keys. Slot 1 stores no keys.
const NSS_KEY_SLOT: SlotId = SlotId(2);

const SOCKET: &str = "agent.socket";
/// The environment variable that tells the client module where the agent is.
const AGENT: &str = "JETON_AGENT";
/// The time in which the agent must answer.
const AGENT_START: Duration = Duration::from_secs(20);

/// How to get a token.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum TokenAccess {
    /// `C_InitToken` in the first slot whose token is not initialised, then `C_InitPIN`.
    Initialise,
    /// NSS: the slot for keys exists. The user PIN is set after a login as SO with an empty PIN.
    Nss,
    /// An existing token.
    Existing {
        /// The label. If it is absent, the module must have only one initialised token.
        label: Option<String>,
        /// The user's PIN.
        pin: String,
    },
}

/// The settings of a module before it is loaded.
#[derive(Clone, Debug)]
pub struct Sandbox {
    /// Environment variables of its process.
    pub environment: Vec<(String, OsString)>,
    /// The library parameters of `C_Initialize`.
    pub reserved: Option<String>,
    /// How to get the token after the module is loaded.
    pub token: TokenAccess,
}

impl Sandbox {
    /// Prepares `directory` for a fresh token of `known`. `backend` is the backend of Jeton.
    pub fn fresh(known: Known, directory: &Path, backend: Option<&str>) -> Result<Self, Error> {
        let tokens = directory.join("tokens");
        fs::create_dir_all(&tokens).map_err(Error::io(&tokens))?;
        let (environment, reserved, token) = match known {
            Known::Jeton => (jeton_environment(directory, &tokens, backend)?, None, TokenAccess::Initialise),
            Known::JetonAgent => {
                let mut environment = jeton_environment(directory, &tokens, backend)?;
                let mut address = OsString::from("unix:");
                address.push(directory.join(SOCKET));
                environment.push((AGENT.to_owned(), address));
                (environment, None, TokenAccess::Initialise)
            }
            Known::SoftHsm2 => {
                let tokens = tokens.display();
                let text = format!(
                    "directories.tokendir = {tokens}\nobjectstore.backend = file\nlog.level = ERROR\n"
                );
                let path = directory.join("softhsm2.conf");
                fs::write(&path, text).map_err(Error::io(&path))?;
                (vec![("SOFTHSM2_CONF".to_owned(), path.into())], None, TokenAccess::Initialise)
            }
            Known::Nss => {
                let tokens = tokens.display();
                let parameters =
                    format!("configdir='sql:{tokens}' certPrefix='' keyPrefix='' secmod='secmod.db' flags=");
                (Vec::new(), Some(parameters), TokenAccess::Nss)
            }
            Known::Kryoptic => {
                // Two slots, because a guide makes a second token.
                let slot = |number: u8| {
                    let file = tokens.join(format!("{number}.sql"));
                    let file = file.display();
                    format!("[[slots]]\nslot = {number}\ndbtype = \"sqlite\"\ndbargs = \"{file}\"\n")
                };
                let text = [0, 1].map(slot).concat();
                let path = directory.join("kryoptic.conf");
                fs::write(&path, text).map_err(Error::io(&path))?;
                (vec![("KRYOPTIC_CONF".to_owned(), path.into())], None, TokenAccess::Initialise)
            }
            Known::Craton => (craton_environment(directory, &tokens)?, None, TokenAccess::Initialise),
        };
        Ok(Self { environment, reserved, token })
    }

    /// Starts the agent, if the module needs one. It ends a minute after its last
    /// application.
    pub fn start_agent(&self, directory: &Path) -> Result<(), Error> {
        if self.environment.iter().all(|(name, _)| name != AGENT) {
            return Ok(());
        }
        let socket = directory.join(SOCKET);
        let mut command = Command::new(agent_program());
        command.arg("--socket").arg(&socket).arg("--state").arg(directory).args(["--exit-idle", "60"]);
        // Who runs the tests asks what the agent does, too.
        let group = fs::metadata(directory).map_err(Error::io(directory))?.gid();
        command.arg("--administrators").arg(group.to_string());
        let rules = directory.join("rules.toml");
        if rules.exists() {
            command.arg("--rules").arg(rules);
        }
        command.envs(self.environment.clone()).stdin(Stdio::null());
        command.spawn().map_err(Error::io("jeton-agent"))?;
        let start = Instant::now();
        while UnixStream::connect(&socket).is_err() {
            if start.elapsed() > AGENT_START {
                return Err(Error::Message("jeton-agent does not answer".to_owned()));
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

/// Configures Craton HSM for speed: AWS-LC, which `client/peers/build` compiles in, and no audit
/// log. An unsigned build starts only with the second variable.
fn craton_environment(directory: &Path, tokens: &Path) -> Result<Vec<(String, OsString)>, Error> {
    let (tokens, path) = (tokens.display(), directory.join("craton.toml"));
    let text = format!(
        "[token]\nstorage_path = \"{tokens}/store\"\npersist_objects = true\nmax_sessions = 1000\n\
         max_rw_sessions = 1000\n[audit]\nenabled = false\nlog_path = \"{tokens}/audit.jsonl\"\n\
         [algorithms]\ncrypto_backend = \"awslc\"\n"
    );
    fs::write(&path, text).map_err(Error::io(&path))?;
    Ok(vec![
        ("CRATON_HSM_CONFIG".to_owned(), path.into()),
        ("CRATON_HSM_INTEGRITY_BYPASS".to_owned(), "unsafe-dev-only".into()),
    ])
}

fn jeton_environment(
    directory: &Path,
    tokens: &Path,
    backend: Option<&str>,
) -> Result<Vec<(String, OsString)>, Error> {
    let mut environment = vec![("JETON_DIR".to_owned(), tokens.into())];
    if let Some(backend) = backend {
        let path = directory.join("jeton.toml");
        fs::write(&path, format!("backend = \"{backend}\"\n")).map_err(Error::io(&path))?;
        environment.push(("JETON_CONF".to_owned(), path.into()));
    }
    Ok(environment)
}

/// Loads and initialises a module, and initialises or finds a token. Returns the module, the slot
/// of the token and the user PIN. `reserved` are the library parameters of `C_Initialize`.
pub fn open_token(
    library: &Path,
    reserved: Option<&str>,
    access: &TokenAccess,
) -> Result<(Module, SlotId, String), Error> {
    let module = Module::load(library)?;
    module.initialize(reserved)?;
    let (slot, pin) = prepare_token(&module, access)?;
    Ok((module, slot, pin))
}

/// Initialises or finds a token. Returns its slot and the user PIN.
pub fn prepare_token(module: &Module, access: &TokenAccess) -> Result<(SlotId, String), Error> {
    match access {
        TokenAccess::Initialise => {
            let slot = free_slot(module)?;
            let slot = initialise(module, slot, LABEL, SO_PIN, PIN)?;
            Ok((slot, PIN.to_owned()))
        }
        TokenAccess::Nss => {
            // NSS has no SO PIN. A login as SO with an empty PIN succeeds as long as the database
            // has no password.
            set_user_pin(module, NSS_KEY_SLOT, "", PIN)?;
            Ok((NSS_KEY_SLOT, PIN.to_owned()))
        }
        TokenAccess::Existing { label, pin } => Ok((existing(module, label.as_deref())?, pin.clone())),
    }
}

/// Returns the first slot whose token is not initialised.
pub fn free_slot(module: &Module) -> Result<SlotId, Error> {
    for slot in module.slots(true)? {
        if !module.token_info(slot)?.is_initialised() {
            return Ok(slot);
        }
    }
    Err(Error::Message("the module has no slot with an uninitialised token".to_owned()))
}

/// Calls `C_InitToken`, then sets the user PIN. Returns the slot of the token. It may differ from
/// `slot`, because SoftHSM renumbers its slots.
pub fn initialise(
    module: &Module,
    slot: SlotId,
    label: &str,
    so_pin: &str,
    pin: &str,
) -> Result<SlotId, Error> {
    let before = serials(module)?;
    module.init_token(slot, so_pin, label).doing(|| format!("initialising the token {label:?}"))?;
    let mut slots = module.slots(true)?;
    slots.sort_by_key(|other| *other != slot);
    for found in slots {
        let info = module.token_info(found)?;
        // A token in another slot is the new one if it was not there before.
        let is_new = found == slot || !before.contains(&(found, info.serial.clone()));
        if is_new && info.is_initialised() && info.label == label {
            set_user_pin(module, found, so_pin, pin)?;
            return Ok(found);
        }
    }
    Err(Error::Message(format!("the token {label:?} was initialised and then not found")))
}

fn serials(module: &Module) -> Result<Vec<(SlotId, String)>, Failure> {
    module.slots(true)?.into_iter().map(|slot| Ok((slot, module.token_info(slot)?.serial))).collect()
}

fn set_user_pin(module: &Module, slot: SlotId, so_pin: &str, pin: &str) -> Result<(), Failure> {
    let session: Session = module.open_session(slot, Access::ReadWrite)?;
    session.login(User::So, Some(so_pin))?;
    session.init_pin(pin)?;
    session.logout()
}

/// Finds the token with this label, or the only token.
fn existing(module: &Module, label: Option<&str>) -> Result<SlotId, Error> {
    let mut fitting = Vec::new();
    for slot in module.slots(true)? {
        let info = module.token_info(slot)?;
        if info.is_initialised() && label.is_none_or(|label| info.label == label) {
            fitting.push(slot);
        }
    }
    match (fitting.as_slice(), label) {
        ([slot], _) => Ok(*slot),
        ([], Some(label)) => Err(Error::Message(format!("the module has no token {label:?}"))),
        ([], None) => Err(Error::Message("the module has no initialised token".to_owned())),
        (_, Some(label)) => Err(Error::Message(format!("the module has several tokens {label:?}"))),
        (_, None) => {
            Err(Error::Message("the module has several tokens: choose one with --token-label".to_owned()))
        }
    }
}
