//! Tests whether the time of a call reveals a secret, with the method of dudect (Reparaz, Balasch,
//! Verbauwhede: "Dude, is my code constant time?", 2017).
//!
//! The bench calls one function with inputs of two classes, in random order. Welch's t-test
//! compares the mean times of the two classes. Interruptions make some times very long. So the test
//! is repeated with only the times below a percentile, for 100 percentiles. |t| above 4.5, the
//! usual limit of this test, is a possible leak. |t| above 10 is a leak, as in the program dudect.
//! With more samples |t| grows if there is a leak, and stays small if not.

use std::env;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cryptoki_sys::*;
use jeton_client::{Access, Attribute, Failure, Mechanism, ObjectHandle, Session, User};
use jeton_peers::{PIN, TokenAccess, open_token};

use super::AnyError;
use crate::artefacts::{Artefacts, parameters, temporary};
use crate::child::{Role, of_role};

/// The default duration of an experiment in seconds. `JETON_TIMING_SECONDS` changes it.
const SECONDS: u64 = 20;
/// The number of inputs in each class. Each call takes one of them at random.
const INPUTS: usize = 200;
const LINE: usize = 64;
/// The number of percentiles at which the times are cropped.
const CROPS: usize = 100;
/// The least number of samples for a t-test.
const FEWEST: usize = 500;
const MODULUS: usize = 256;
/// Limits of |t|: a value above the first is a leak, a value above the second a possible leak.
const LIMITS: [f64; 2] = [10.0, 4.5];

const BACKENDS: [&str; 2] = ["aws-lc", "rustcrypto"];

/// Runs `timing [LIBRARY [BACKEND]]`. Without a library it builds and tests the module of this
/// tree. Without a backend it tests each backend. Each test has a process.
pub fn measure(arguments: &[String]) -> Result<(), AnyError> {
    let library = match arguments.first() {
        Some(library) => PathBuf::from(library),
        None => Artefacts::without_null().module,
    };
    println!("{:10}  {:72} {:>9} {:>8} {:>8}", "backend", "call: classes", "samples", "t", "max |t|");
    let given = arguments.get(1);
    for backend in BACKENDS.into_iter().filter(|backend| given.is_none_or(|given| given == backend)) {
        let status = of_role(&Role::Timing(library.clone(), backend.to_owned())).status();
        if !status?.success() {
            return Err(format!("{backend} failed").into());
        }
    }
    Ok(())
}

/// Tests a library with one backend, in the process of this role.
pub(crate) fn of_backend(library: &Path, backend: &str) -> Result<(), AnyError> {
    let seconds = env::var("JETON_TIMING_SECONDS").ok().and_then(|text| text.parse().ok());
    let time = Duration::from_secs(seconds.unwrap_or(SECONDS));
    let directory = temporary()?;
    // Wrong PINs never lock the token.
    let reserved = parameters(directory.path(), backend)
        .replace("passes = 1", "passes = 1, retries = 4000000000")
        + ", mechanisms = { legacy = true }";
    let (module, slot, _) = open_token(library, Some(&reserved), &TokenAccess::Initialise)?;
    let session = module.open_session(slot, Access::ReadWrite)?;
    session.login(User::User, Some(PIN))?;
    let bench = Bench::new(&session)?;
    bench.control(backend, time)?;
    let inputs = bench.rsa_inputs(None)?;
    bench.decrypt_rsa(backend, "C_Decrypt RSA_PKCS: good padding, bad padding", &inputs, time);
    bench.rsa_unwrapping(backend, time)?;
    if backend == BACKENDS[0] {
        bench.rsa_in_lanes(backend, time, slot)?;
    }
    for cipher in [&AES, &DES3] {
        bench.cbc_decryption(backend, time, cipher)?;
        bench.cbc_unwrapping(backend, time, cipher)?;
    }
    bench.hmac_verification(backend, time)?;
    // Last, because it logs the user out.
    Ok(bench.login(backend, time)?)
}

/// A session with an RSA pair.
struct Bench<'a> {
    session: &'a Session,
    public: ObjectHandle,
    private: ObjectHandle,
}

/// A cipher in CBC mode with padding.
struct Cbc {
    name: &'static str,
    key_type: CK_KEY_TYPE,
    key: &'static [u8],
    block: usize,
    padded: CK_MECHANISM_TYPE,
    unpadded: CK_MECHANISM_TYPE,
}

const AES: Cbc = Cbc {
    name: "AES_CBC",
    key_type: CKK_AES,
    key: &[7; 32],
    block: 16,
    padded: CKM_AES_CBC_PAD,
    unpadded: CKM_AES_CBC,
};
const DES3: Cbc = Cbc {
    name: "DES3_CBC",
    key_type: CKK_DES3,
    key: b"\x01\x02\x04\x07\x08\x0b\x0d\x0e\x10\x13\x15\x16\x19\x1a\x1c\x1f\x20\x23\x25\x26\x29\x2a\x2c\x2f",
    block: 8,
    padded: CKM_DES3_CBC_PAD,
    unpadded: CKM_DES3_CBC,
};

/// Makes a plaintext of a class from random bytes.
type Change<'a> = &'a dyn Fn(&mut [u8]);

impl<'a> Bench<'a> {
    fn new(session: &'a Session) -> Result<Self, Failure> {
        let on =
            |ids: &[CK_ATTRIBUTE_TYPE]| ids.iter().map(|id| Attribute::flag(*id, true)).collect::<Vec<_>>();
        let mut public = on(&[CKA_ENCRYPT, CKA_WRAP]);
        public.push(Attribute::number(CKA_MODULUS_BITS, 8 * MODULUS as CK_ULONG));
        public.push(Attribute::bytes(CKA_PUBLIC_EXPONENT, [1, 0, 1]));
        let private = on(&[CKA_DECRYPT, CKA_SIGN, CKA_UNWRAP]);
        let made = Mechanism::new(CKM_RSA_PKCS_KEY_PAIR_GEN);
        let (public, private) = session.generate_key_pair(&made, &public, &private)?;
        Ok(Self { session, public, private })
    }

    fn random(&self, len: usize) -> Result<Vec<u8>, Failure> {
        let mut out = vec![0; len];
        self.session.random(&mut out)?;
        Ok(out)
    }

    fn number(&self, below: usize) -> Result<usize, Failure> {
        let bytes = self.random(4)?;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | usize::from(*byte)) % below)
    }

    /// Returns a padded block with a message of this length. `good` says whether the padding is
    /// right.
    fn block(&self, len: usize, good: bool) -> Result<Vec<u8>, Failure> {
        let mut em = self.random(MODULUS)?;
        em.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = 1);
        em[..2].copy_from_slice(&[0, 2]);
        em[MODULUS - len - 1] = 0;
        if !good {
            match self.number(4)? {
                0 => em[0] = 1,
                1 => em[1] = 1,
                2 => em[5] = 0,
                _ => em.iter_mut().skip(1).filter(|byte| **byte == 0).for_each(|byte| *byte = 1),
            }
        }
        Ok(em)
    }

    fn encrypted(&self, with: &Mechanism, key: ObjectHandle, plain: &[u8]) -> Result<Vec<u8>, Failure> {
        let mut out = vec![0; plain.len().max(MODULUS)];
        self.session.encrypt_init(with, key)?;
        let len = self.session.encrypt(plain, &mut out)?;
        out.truncate(len);
        Ok(out)
    }

    /// Returns ciphertexts with right and with wrong padding. All messages have the length `len`,
    /// or random lengths if it is `None`.
    fn rsa_inputs(&self, len: Option<usize>) -> Result<[Vec<Vec<u8>>; 2], Failure> {
        let raw = Mechanism::new(CKM_RSA_X_509);
        let input = |good| -> Result<Vec<u8>, Failure> {
            let len = len.map_or_else(|| self.number(MODULUS - 10), Ok)?;
            self.encrypted(&raw, self.public, &self.block(len, good)?)
        };
        let class = |good| (0..INPUTS).map(|_| input(good)).collect::<Result<Vec<_>, _>>();
        Ok([class(true)?, class(false)?])
    }

    fn decrypt(&self, with: &Mechanism, key: ObjectHandle, input: &[u8], out: &mut [u8]) -> Duration {
        // If the initialisation fails, the call fails too.
        let _ = self.session.decrypt_init(with, key);
        let start = Instant::now();
        let _ = self.session.decrypt(input, out);
        start.elapsed()
    }

    fn unwrap(&self, with: &Mechanism, key: ObjectHandle, input: &[u8], template: &[Attribute]) -> Duration {
        let start = Instant::now();
        let made = self.session.unwrap_key(with, key, input, template);
        let time = start.elapsed();
        if let Ok(made) = made {
            let _ = self.session.destroy_object(made);
        }
        time
    }

    /// Compares a class with itself. The result shows the noise of the method on this machine.
    fn control(&self, backend: &str, time: Duration) -> Result<(), Failure> {
        let [good, _] = self.rsa_inputs(None)?;
        let name = "C_Decrypt RSA_PKCS: good padding, good padding (control)";
        self.decrypt_rsa(backend, name, &halves(&good), time);
        Ok(())
    }

    fn decrypt_rsa(&self, backend: &str, name: &str, inputs: &[Vec<Vec<u8>>; 2], time: Duration) {
        let (mut out, with) = ([0; MODULUS], Mechanism::new(CKM_RSA_PKCS));
        report(backend, name, inputs, time, |input| self.decrypt(&with, self.private, input, &mut out));
    }

    fn rsa_unwrapping(&self, backend: &str, time: Duration) -> Result<(), Failure> {
        let inputs = self.rsa_inputs(Some(48))?;
        let with = Mechanism::new(CKM_RSA_PKCS);
        let mut template = secret(CKK_GENERIC_SECRET);
        template.push(Attribute::number(CKA_VALUE_LEN, 48));
        let call = |input: &[u8]| self.unwrap(&with, self.private, input, &template);
        report(backend, "C_UnwrapKey RSA_PKCS: good padding, bad padding", &inputs, time, call);
        Ok(())
    }

    /// Eight signatures that lanes compute together. One class has small numbers.
    fn rsa_in_lanes(&self, backend: &str, time: Duration, slot: jeton_client::SlotId) -> Result<(), Failure> {
        let open = |_| self.session.module().open_async_session(slot, Access::ReadOnly);
        let sessions = (0..8).map(open).collect::<Result<Vec<_>, _>>()?;
        let class = |zeros: usize| -> Result<Vec<Vec<u8>>, Failure> {
            let number = |_| Ok([vec![0; zeros], self.random(MODULUS - zeros)?].concat());
            (0..INPUTS).map(number).collect()
        };
        let inputs = [class(MODULUS - 1)?, class(1)?];
        let with = Mechanism::new(CKM_RSA_X_509);
        let call = |input: &[u8]| {
            let begin = |session| Session::sign_later(session, &with, self.private, input, MODULUS);
            let start = Instant::now();
            let begun: Vec<_> = sessions.iter().map(begin).collect();
            begun.into_iter().for_each(|later| drop(later.and_then(jeton_client::Later::complete)));
            start.elapsed()
        };
        let name = "C_Sign RSA_X_509, eight in lanes: small numbers, random numbers";
        report(backend, name, &inputs, time, call);
        Ok(())
    }

    /// Returns ciphertexts of two blocks of random bytes, the same in both classes but for what
    /// `changes` writes.
    fn cbc_inputs(
        &self,
        cipher: &Cbc,
        key: ObjectHandle,
        changes: [Change<'_>; 2],
    ) -> Result<[Vec<Vec<u8>>; 2], Failure> {
        let with = Mechanism::with_bytes(cipher.unpadded, &vec![3; cipher.block]);
        let random = (0..INPUTS).map(|_| self.random(2 * cipher.block)).collect::<Result<Vec<_>, _>>()?;
        let class = |change: Change<'_>| {
            let mut plain = random.clone();
            plain.iter_mut().for_each(|plain| change(plain));
            plain.iter().map(|plain| self.encrypted(&with, key, plain)).collect::<Result<Vec<_>, _>>()
        };
        Ok([class(changes[0])?, class(changes[1])?])
    }

    fn cbc_key(&self, cipher: &Cbc) -> Result<ObjectHandle, Failure> {
        let mut template = secret(cipher.key_type);
        template.push(Attribute::bytes(CKA_VALUE, cipher.key));
        let uses = [CKA_ENCRYPT, CKA_DECRYPT, CKA_UNWRAP];
        template.extend(uses.map(|id| Attribute::flag(id, true)));
        self.session.create_object(&template)
    }

    /// Both classes are refused. One has an impossible last byte. In the other only the first byte
    /// of the padding is wrong.
    fn cbc_decryption(&self, backend: &str, time: Duration, cipher: &Cbc) -> Result<(), Failure> {
        let key = self.cbc_key(cipher)?;
        let no_padding = |plain: &mut [u8]| *plain.last_mut().expect("a byte") = 0;
        let wrong_at_first = |plain: &mut [u8]| {
            plain[cipher.block..].fill(cipher.block as u8);
            plain[cipher.block] ^= 1;
        };
        let inputs = self.cbc_inputs(cipher, key, [&no_padding, &wrong_at_first])?;
        let with = Mechanism::with_bytes(cipher.padded, &vec![3; cipher.block]);
        let mut out = [0; MODULUS];
        let call = |input: &[u8]| self.decrypt(&with, key, input, &mut out);
        let name = format!("C_Decrypt {}_PAD: wrong last byte, wrong first byte", cipher.name);
        report(backend, &name, &inputs, time, call);
        Ok(())
    }

    /// Both classes are refused. One has a wrong padding. The other has a right padding and a
    /// length that no AES key has. Then both are keys, and one begins like a private key.
    fn cbc_unwrapping(&self, backend: &str, time: Duration, cipher: &Cbc) -> Result<(), Failure> {
        let key = self.cbc_key(cipher)?;
        let no_padding = |plain: &mut [u8]| *plain.last_mut().expect("a byte") = 0;
        let one_byte = |plain: &mut [u8]| *plain.last_mut().expect("a byte") = 1;
        let (other, sequence) = (|plain: &mut [u8]| plain[0] &= 0xf, |plain: &mut [u8]| plain[0] = 0x30);
        let mut template = secret(CKK_AES);
        template.push(Attribute::flag(CKA_SENSITIVE, true));
        let experiments: [(_, &str, [Change<'_>; 2]); 2] = [
            (cipher.padded, "_PAD: bad padding, impossible key length", [&no_padding, &one_byte]),
            (cipher.unpadded, ": other first byte, that of DER", [&other, &sequence]),
        ];
        for (mechanism, classes, changes) in experiments {
            let inputs = self.cbc_inputs(cipher, key, changes)?;
            let with = Mechanism::with_bytes(mechanism, &vec![3; cipher.block]);
            let call = |input: &[u8]| self.unwrap(&with, key, input, &template);
            let name = format!("C_UnwrapKey {}{classes}", cipher.name);
            report(backend, &name, &inputs, time, call);
        }
        Ok(())
    }

    /// Both classes are wrong MACs: one in the first byte, one in the last. The control has the
    /// first class twice, with as many samples.
    fn hmac_verification(&self, backend: &str, time: Duration) -> Result<(), Failure> {
        let mut template = secret(CKK_SHA256_HMAC);
        template.push(Attribute::bytes(CKA_VALUE, [7; 32]));
        template.extend([CKA_SIGN, CKA_VERIFY].map(|id| Attribute::flag(id, true)));
        let key = self.session.create_object(&template)?;
        let with = Mechanism::new(CKM_SHA256_HMAC);
        let data = [1; 64];
        let mut mac = [0; 32];
        self.session.sign_init(&with, key)?;
        self.session.sign(&data, &mut mac)?;
        let class = |wrong: usize| -> Vec<Vec<u8>> {
            let changed = |change: usize| {
                let mut mac = mac.to_vec();
                mac[wrong] ^= change as u8;
                mac
            };
            (1..=INPUTS).map(changed).collect()
        };
        let call = |mac: &[u8]| {
            let _ = self.session.verify_init(&with, key);
            let start = Instant::now();
            let _ = self.session.verify(&data, mac);
            start.elapsed()
        };
        let control = halves(&class(0));
        report(backend, "C_Verify SHA256_HMAC: wrong first byte (control)", &control, time, call);
        let inputs = [class(0), class(31)];
        report(backend, "C_Verify SHA256_HMAC: wrong first byte, wrong last byte", &inputs, time, call);
        Ok(())
    }

    /// Both classes are wrong PINs of the right length: one differs from the PIN in the first byte,
    /// one in the last.
    fn login(&self, backend: &str, time: Duration) -> Result<(), Failure> {
        self.session.logout()?;
        let class = |wrong: usize| -> Vec<Vec<u8>> {
            let changed = |letter: u8| {
                let mut pin = PIN.as_bytes().to_vec();
                pin[wrong] = letter;
                pin
            };
            (b'A'..=b'Z').map(changed).collect()
        };
        let call = |pin: &[u8]| {
            let pin = std::str::from_utf8(pin).expect("letters and digits");
            let start = Instant::now();
            let _ = self.session.login(User::User, Some(pin));
            start.elapsed()
        };
        let inputs = [class(0), class(PIN.len() - 1)];
        report(backend, "C_Login: PIN with a wrong first letter, wrong last letter", &inputs, time, call);
        Ok(())
    }
}

/// Divides a class into two for a control.
fn halves(class: &[Vec<u8>]) -> [Vec<Vec<u8>>; 2] {
    let (first, second) = class.split_at(INPUTS / 2);
    [first.to_vec(), second.to_vec()]
}

/// Returns the template of a secret session key, without its value.
fn secret(key_type: CK_KEY_TYPE) -> Vec<Attribute> {
    vec![
        Attribute::number(CKA_CLASS, CKO_SECRET_KEY),
        Attribute::number(CKA_KEY_TYPE, key_type),
        Attribute::flag(CKA_TOKEN, false),
    ]
}

/// Times calls of both classes in random order until the time is over, and prints the
/// result of the test.
fn report(
    backend: &str,
    name: &str,
    inputs: &[Vec<Vec<u8>>; 2],
    time: Duration,
    mut call: impl FnMut(&[u8]) -> Duration,
) {
    let len = inputs[0][0].len();
    let count = inputs[0].len().min(inputs[1].len());
    // An input whose copy evicts a cache line of the call costs some nanoseconds. So the inputs of
    // both classes lie beside each other in the same lines, and each is first in half of the pairs.
    let place = |index: usize, class: usize| (2 * index + (index + class) % 2) * len;
    let mut memory = vec![0; 2 * count * len + LINE];
    let start = memory.as_ptr().align_offset(LINE);
    let mixed = &mut memory[start..];
    for (class, inputs) in inputs.iter().enumerate() {
        for (index, input) in inputs.iter().take(count).enumerate() {
            mixed[place(index, class)..][..len].copy_from_slice(input);
        }
    }
    let mut input = vec![0; len];
    let mut times = [Vec::new(), Vec::new()];
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let end = Instant::now() + time;
    for turn in 0.. {
        if turn % 64 == 0 && Instant::now() > end {
            break;
        }
        // xorshift is enough: the order must only be independent of periodic work of the machine.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let class = usize::from(random & 1 == 1);
        // The call reads a fresh copy of its input. So the input is in the cache for both classes.
        input.copy_from_slice(&mixed[place((random >> 8) as usize % count, class)..][..len]);
        let taken = call(&input);
        // The first calls fill caches.
        if turn >= 100 {
            times[class].push(taken.as_nanos() as f64);
        }
    }
    let (all, most) = (welch(&times, f64::INFINITY), cropped(&times));
    let verdict = match most.abs() {
        _ if times.iter().any(|class| class.len() < FEWEST) => "too few samples",
        t if t > LIMITS[0] => "leak",
        t if t > LIMITS[1] => "perhaps",
        _ => "",
    };
    let samples = times[0].len() + times[1].len();
    println!("{backend:10}  {name:72} {samples:9} {all:8.2} {:8.2} {verdict}", most.abs());
}

/// Runs the test with all times, and with the times below each percentile. Returns the t with the
/// largest absolute value.
fn cropped(times: &[Vec<f64>; 2]) -> f64 {
    let mut sorted = times.concat();
    sorted.sort_unstable_by(f64::total_cmp);
    let mut most = welch(times, f64::INFINITY);
    for crop in 0..CROPS {
        // As in dudect: the percentiles approach 100 %.
        let share = 1.0 - 0.5_f64.powf(10.0 * (crop + 1) as f64 / CROPS as f64);
        let limit = sorted.get((share * sorted.len() as f64) as usize).copied().unwrap_or(f64::INFINITY);
        let t = welch(times, limit);
        if t.abs() > most.abs() {
            most = t;
        }
    }
    most
}

/// Returns Welch's t of the times below a limit, or 0 if there are too few.
fn welch(times: &[Vec<f64>; 2], limit: f64) -> f64 {
    let [first, second] = times.each_ref().map(|times| {
        let kept = times.iter().copied().filter(|time| *time < limit);
        let (mut count, mut mean, mut squares) = (0.0, 0.0, 0.0);
        for time in kept {
            count += 1.0;
            let difference = time - mean;
            mean += difference / count;
            squares += difference * (time - mean);
        }
        (count, mean, squares)
    });
    if first.0.min(second.0) < FEWEST as f64 {
        return 0.0;
    }
    let variance = |(count, _, squares): (f64, f64, f64)| squares / (count - 1.0) / count;
    let t = (first.1 - second.1) / (variance(first) + variance(second)).sqrt();
    if t.is_finite() { t } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns times of about 1000 ns with a long tail. Those of the second class are longer by
    /// `more`.
    fn samples(more: f64) -> [Vec<f64>; 2] {
        let mut random = 1u64;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) as f64 / f64::from(1u32 << 31)
        };
        let mut class = |more: f64| {
            (0..20_000)
                .map(|_| 1000.0 + 20.0 * next() + more + if next() < 0.02 { 50_000.0 * next() } else { 0.0 })
                .collect()
        };
        [class(0.0), class(more)]
    }

    #[test]
    fn a_difference_smaller_than_the_noise_is_found_and_equal_classes_pass() {
        let leaking = cropped(&samples(1.0));
        assert!(leaking.abs() > LIMITS[0], "{leaking}");
        let even = cropped(&samples(0.0));
        assert!(even.abs() < LIMITS[1], "{even}");
    }
}
