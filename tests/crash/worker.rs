//! The process that is killed: it creates, changes and destroys objects, generates keys and changes
//! the PIN endlessly.

use jeton::error::{Error, Result};
use jeton::id::{AttributeType as A, ObjectClass, ObjectHandle, SessionHandle};
use jeton::module::User;

use crate::keys::Kind;
use crate::process::{Random, client, directory, number};
use crate::support::{Attributes, Client, none};

/// The maximum number of labels with objects. At this number, a process only destroys objects and
/// changes the PIN.
const OBJECTS: usize = 12;

/// Returns the user PIN with this number.
pub fn pin(number: u64) -> Vec<u8> {
    format!("the user's pin {number}").into_bytes()
}

/// Logs in with the PIN of this number or a later one, because another process may change it.
/// Returns the number.
pub fn log_in(client: &Client, session: SessionHandle, known: u64) -> u64 {
    let opens = |number: &u64| try_log_in(client, session, *number).expect("a login");
    (known..known + 2000).find(opens).expect("a PIN that opens the token")
}

/// Returns whether this PIN is correct.
pub fn try_log_in(client: &Client, session: SessionHandle, number: u64) -> Result<bool> {
    match client.module.login(session, User::User, &pin(number)) {
        Ok(()) => Ok(true),
        Err(Error::PinIncorrect) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The objects that have one label.
enum Made {
    Data(ObjectHandle),
    Pair {
        public: ObjectHandle,
        private: ObjectHandle,
    },
    /// Only the public key, after the private key was destroyed.
    Half(ObjectHandle),
}

/// The work on a token. It prints each call before the call starts, and "ok" when the call
/// succeeds. After an error the process prints "failed" or ends.
pub struct Worker<'a> {
    client: &'a Client,
    session: SessionHandle,
    name: String,
    pin: u64,
    changes_pins: bool,
    made: u64,
    objects: Vec<(String, Made)>,
    random: Random,
    say: fn(String),
}

/// Works until it is killed.
pub fn child() {
    let client = client(&directory(), u32::MAX);
    let name = std::env::var("JETON_CRASH_NAME").expect("a name");
    let known = number("JETON_CRASH_PIN", 0);
    let changes_pins = number("JETON_CRASH_CHANGES_PIN", 0u8) != 0;
    let mut worker = Worker::new(&client, known, changes_pins, &name, |line| println!("{line}"));
    loop {
        worker.step();
    }
}

impl<'a> Worker<'a> {
    /// Logs in with a PIN of this number or a later one.
    pub fn new(client: &'a Client, known: u64, changes_pins: bool, name: &str, say: fn(String)) -> Self {
        let session = client.open();
        let pin = log_in(client, session, known);
        Self { pin, changes_pins, ..Self::in_session(client, session, name, say) }
    }

    /// Lets the worker change the PIN. `pin` is the number of the current PIN.
    #[cfg(feature = "postgresql")]
    pub fn changing_pin(self, pin: u64) -> Self {
        Self { pin, changes_pins: true, ..self }
    }

    /// Works in a session whose user is logged in. Does not change the PIN.
    pub fn in_session(client: &'a Client, session: SessionHandle, name: &str, say: fn(String)) -> Self {
        let random = Random::seeded(number("JETON_CRASH_SEED", 0));
        let (name, objects) = (name.to_owned(), Vec::new());
        Self { client, session, name, pin: 0, changes_pins: false, made: 0, objects, random, say }
    }

    /// Makes at most one call, which must succeed.
    pub fn step(&mut self) {
        self.try_step().expect("a call");
    }

    /// Makes at most one call.
    pub fn try_step(&mut self) -> Result<()> {
        match self.random.below(10) {
            0 if self.changes_pins => self.change_pin(),
            _ if self.objects.len() >= OBJECTS => self.destroy(),
            0..=2 => self.create(),
            3..=5 => self.change(),
            6..=8 => self.destroy(),
            _ => self.pair(),
        }
    }

    /// Prints that the last call failed. Its effect is unknown.
    #[cfg(feature = "postgresql")]
    pub fn give_up(&self) {
        self.say("failed".to_owned());
    }

    fn say(&self, line: String) {
        (self.say)(line);
    }

    fn done(&self) {
        self.say("ok".to_owned());
    }

    fn label(&mut self) -> String {
        self.made += 1;
        format!("{}-{}", self.name, self.made)
    }

    fn create(&mut self) -> Result<()> {
        let label = self.label();
        self.say(format!("create {label} {label}"));
        let private = self.random.below(2) == 0;
        let data = Attributes::of(ObjectClass::DATA).label(&label).bytes(A::VALUE, label.as_bytes());
        let object = self.client.create(self.session, &data.stored().flag(A::PRIVATE, private))?;
        self.done();
        self.objects.push((label, Made::Data(object)));
        Ok(())
    }

    fn pair(&mut self) -> Result<()> {
        let label = self.label();
        self.say(format!("pair {label}"));
        let both = none().stored().label(&label);
        let request = Kind::P256.request().and(&both);
        let (public, private) =
            self.client.generate(self.session, Kind::P256.generator(), &request, &both)?;
        self.done();
        self.objects.push((label, Made::Pair { public, private }));
        Ok(())
    }

    fn change(&mut self) -> Result<()> {
        let Some(at) = self.pick() else { return Ok(()) };
        let (label, Made::Data(object)) = &self.objects[at] else { return Ok(()) };
        let object = *object;
        // Any length, so that records grow over several pages and shrink.
        let value = format!("{}{}", self.made, "x".repeat(self.random.below(6000) as usize));
        self.made += 1;
        self.say(format!("set {label} {value}"));
        let changed = self.client.set(self.session, object, &none().bytes(A::VALUE, value.as_bytes()));
        match changed {
            Ok(()) => self.done(),
            // The value of the object is unknown now, so the worker does not use it again.
            Err(_) => drop(self.objects.swap_remove(at)),
        }
        changed
    }

    fn destroy(&mut self) -> Result<()> {
        let Some(at) = self.pick() else { return self.create() };
        let (label, made) = self.objects.swap_remove(at);
        let (word, object) = match made {
            Made::Data(object) | Made::Half(object) => ("destroy", object),
            Made::Pair { private, .. } => ("half", private),
        };
        self.say(format!("{word} {label}"));
        self.client.module.destroy_object(self.session, object)?;
        self.done();
        if let Made::Pair { public, .. } = made {
            self.objects.push((label, Made::Half(public)));
        }
        Ok(())
    }

    fn pick(&mut self) -> Option<usize> {
        let end = self.objects.len() as u64;
        (end != 0).then(|| self.random.below(end) as usize)
    }

    fn change_pin(&mut self) -> Result<()> {
        let number = self.pin + 1;
        self.say(format!("pin {number}"));
        let changed = self.client.module.set_pin(self.session, &pin(number - 1), &pin(number));
        match changed {
            Ok(()) => {
                self.done();
                self.pin = number;
            }
            // The PIN is unknown now.
            Err(_) => self.changes_pins = false,
        }
        changed
    }
}
