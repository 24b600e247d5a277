//! The process that is killed: it creates, changes and destroys objects, generates keys and changes
//! the PIN endlessly.

use super::*;
use crate::model::Model;

/// The maximum number of labels with objects. At this number, a process only destroys objects and
/// changes the PIN.
const OBJECTS: usize = 12;

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

/// What a process does until it is killed.
#[derive(Clone, Serialize, Deserialize)]
pub struct Task {
    /// The labels of its objects begin with this name.
    pub name: String,
    /// The number of the user's PIN, or a smaller one.
    pub pin: u64,
    pub changes_pin: bool,
    pub seed: u64,
}

pub fn child() {
    let client = client(&directory(), u32::MAX);
    let mut worker = Worker::new(&client, &argument(), |line| println!("{line}"));
    loop {
        worker.step();
    }
}

/// A process at work.
pub struct Running {
    process: Process,
    task: Task,
}

/// A process that was killed.
pub struct Dead {
    task: Task,
    model: Model,
}

/// The counts of the processes that were killed.
#[derive(Default)]
pub struct Counts {
    pub kills: u64,
    pub acknowledged: u64,
    pub in_doubt: u64,
    pub done_in_doubt: u64,
    pub objects: usize,
    #[cfg(feature = "postgresql")]
    pub longest: u64,
}

impl Running {
    /// Starts a process. Only one process of a token may change the PIN.
    pub fn start(role: &str, directory: &Directory, task: Task) -> Self {
        Self { process: Process::start(role, directory, &task), task }
    }

    pub fn kill(self) -> Dead {
        let model = Model::of(self.process.kill().iter().map(String::as_str));
        Dead { task: self.task, model }
    }
}

impl Dead {
    /// Compares the token with the output of the process. `found` is the number of the user's PIN.
    pub fn check(&self, client: &Client, session: SessionHandle, found: u64, counts: &mut Counts) {
        let Self { task, model } = self;
        if task.changes_pin {
            let (acknowledged, in_doubt) = model.pins(task.pin);
            assert!(
                found == acknowledged || Some(found) == in_doubt,
                "the PIN is number {found}, acknowledged {acknowledged}, in doubt {in_doubt:?}"
            );
        }
        let verified = model.verify(client, session, &format!("{}-", task.name));
        let verified = verified.expect("what was acknowledged");
        counts.kills += 1;
        counts.acknowledged += model.acknowledged;
        counts.in_doubt += model.in_doubt;
        counts.objects += verified.objects;
        counts.done_in_doubt += verified.done_in_doubt;
        #[cfg(feature = "postgresql")]
        {
            counts.longest = counts.longest.max(model.longest);
        }
    }
}

impl Counts {
    /// Describes the counts. The processes changed the PIN to this number.
    pub fn describe(&self, pin: u64) -> String {
        assert!(self.acknowledged > 0);
        let Self { kills, acknowledged, in_doubt, done_in_doubt, objects, .. } = self;
        format!(
            "{kills} kills: {acknowledged} calls acknowledged and found, {in_doubt} in doubt, {done_in_doubt} of them \
             done, {objects} objects verified, the PIN changed {pin} times"
        )
    }
}

impl<'a> Worker<'a> {
    /// Logs in with the PIN of the task or a later one.
    pub fn new(client: &'a Client, task: &Task, say: fn(String)) -> Self {
        let session = client.open();
        let pin = log_in(client, session, task.pin);
        Self::in_session(client, session, &Task { pin, ..task.clone() }, say)
    }

    /// Works in a session whose user is logged in. The task has the number of the current PIN.
    pub fn in_session(client: &'a Client, session: SessionHandle, task: &Task, say: fn(String)) -> Self {
        let Task { name, pin, changes_pin, seed } = task.clone();
        let (random, objects) = (Random::seeded(seed), Vec::new());
        Self { client, session, name, pin, changes_pins: changes_pin, made: 0, objects, random, say }
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

    pub fn say(&self, line: String) {
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
        self.client.destroy_object(self.session, object)?;
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
        let changed = self.client.set_pin(self.session, &pin(number - 1), &pin(number));
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
