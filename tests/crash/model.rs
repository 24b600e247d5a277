//! A model of the changes of one process. The process prints each call before the call starts, and
//! "ok" when the call succeeds. After an error the process prints "failed" or ends.

use super::*;

/// The state of the objects that have one label, or of the user's PIN.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    Absent,
    Data(String),
    Pair,
    /// Only the public key of a pair.
    Half,
    Pin(u64),
}

/// The possible states, by label: one, or two if a call for this label is in doubt.
#[derive(Default)]
pub struct Model {
    states: BTreeMap<String, Vec<State>>,
    /// Calls that returned without an error.
    pub acknowledged: u64,
    /// Calls that did not return, or failed because the server could not be reached.
    pub in_doubt: u64,
    /// The longest time of a call that the process reported, in milliseconds.
    #[cfg(feature = "postgresql")]
    pub longest: u64,
}

/// The objects that were compared with a model.
pub struct Verified {
    pub objects: usize,
    /// Calls in doubt that had taken effect.
    pub done_in_doubt: u64,
}

pub const PIN: &str = "pin";

impl Model {
    pub fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Self {
        let mut model = Self::default();
        let mut pending = None;
        for line in lines {
            let words: Vec<_> = line.split(' ').collect();
            match words[..] {
                ["ready"] => {}
                ["ok"] => model.settle(pending.take().expect("a call")),
                ["failed"] => model.doubt(pending.take().expect("a call")),
                #[cfg(feature = "postgresql")]
                ["longest", time] => model.longest = time.parse().expect("a number"),
                ["create" | "set", label, value] => {
                    pending = Some((label.to_owned(), State::Data(value.to_owned())));
                }
                ["pair", label] => pending = Some((label.to_owned(), State::Pair)),
                ["half", label] => pending = Some((label.to_owned(), State::Half)),
                ["destroy", label] => pending = Some((label.to_owned(), State::Absent)),
                ["pin", number] => {
                    pending = Some((PIN.to_owned(), State::Pin(number.parse().expect("a number"))));
                }
                _ => panic!("a child said {line:?}"),
            }
        }
        if let Some(call) = pending {
            model.doubt(call);
        }
        model
    }

    fn doubt(&mut self, (label, state): (String, State)) {
        self.in_doubt += 1;
        self.states.entry(label).or_insert_with(|| vec![State::Absent]).push(state);
    }

    fn settle(&mut self, (label, state): (String, State)) {
        self.acknowledged += 1;
        self.states.insert(label, vec![state]);
    }

    /// Returns the last acknowledged number of the user's PIN, and the number of a change in doubt.
    /// `known` is the number before the first change.
    pub fn pins(&self, known: u64) -> (u64, Option<u64>) {
        let number = |state: &State| if let State::Pin(number) = state { Some(*number) } else { None };
        let all: Vec<_> = self.states.get(PIN).into_iter().flatten().filter_map(number).collect();
        match all[..] {
            [] => (known, None),
            // The first change of a PIN was not acknowledged.
            [new] if self.states[PIN].len() == 2 => (known, Some(new)),
            [old] => (old, None),
            [old, new, ..] => (old, Some(new)),
        }
    }

    /// Compares the objects whose labels have this prefix with the model, and destroys them.
    pub fn verify(&self, client: &Client, session: SessionHandle, prefix: &str) -> Result<Verified, String> {
        let mut found: BTreeMap<String, Vec<ObjectHandle>> = BTreeMap::new();
        for object in client.find(session, &none()) {
            // An object that another process destroyed meanwhile has no label.
            let Ok(label) = client.read(session, object, A::LABEL) else { continue };
            let label = String::from_utf8(label).expect("a label");
            if label.starts_with(prefix) {
                found.entry(label).or_default().push(object);
            }
        }
        let mut done_in_doubt = 0;
        for (label, states) in self.states.iter().filter(|(label, _)| *label != PIN) {
            let objects = found.get(label).map_or(&[][..], Vec::as_slice);
            let state = observed(client, session, objects);
            let reason = format!("{label} is {state:?} and should be one of {states:?}");
            ensure(states.contains(&state), reason)?;
            done_in_doubt += u64::from(states.len() > 1 && states.last() == Some(&state));
        }
        let stray: Vec<_> = found.keys().filter(|label| !self.states.contains_key(*label)).collect();
        ensure(stray.is_empty(), format!("unexpected objects: {stray:?}"))?;
        let objects: Vec<_> = found.into_values().flatten().collect();
        objects.iter().for_each(|object| client.destroy_object(session, *object).expect("an object"));
        Ok(Verified { objects: objects.len(), done_in_doubt })
    }
}

fn observed(client: &Client, session: SessionHandle, objects: &[ObjectHandle]) -> State {
    match *objects {
        [] => State::Absent,
        [object] => match client.read(session, object, A::VALUE) {
            Ok(value) => State::Data(String::from_utf8(value).expect("text")),
            Err(_) => State::Half,
        },
        [one, other] => {
            let private = client.read(session, one, A::SIGN).is_ok();
            let (public, private) = if private { (other, one) } else { (one, other) };
            let mechanism = plain(M::ECDSA_SHA256);
            let signature = client.sign(session, &mechanism, private, b"data").expect("a signature");
            client
                .verify(session, &mechanism, public, b"data", &signature)
                .expect("a signature of this pair");
            State::Pair
        }
        _ => panic!("{} objects of one label", objects.len()),
    }
}
