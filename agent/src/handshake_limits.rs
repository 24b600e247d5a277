//! How many TLS handshakes run at the same time and in a second: of one address, of addresses from
//! which no certificate was right yet, and of all.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::lock;

const MOST_HANDSHAKES: usize = 128;
/// Those of addresses from which no certificate was right yet.
const MOST_OF_STRANGERS: usize = 64;
const MOST_KNOWN: usize = 65_536;
/// The most handshakes of one address at the same time.
const MOST_OF_ADDRESS: usize = 8;
/// The shortest time between two handshakes, those of known addresses apart. After a pause, more
/// begin at once.
const PACE: Duration = Duration::from_millis(5);

/// What limits the handshakes.
#[derive(Default)]
pub struct Gate(Mutex<Shaking>);

#[derive(Default)]
struct Shaking {
    /// The handshakes that have not ended, by address.
    turns: HashMap<IpAddr, usize>,
    /// Addresses from which a certificate was right.
    known: HashSet<IpAddr>,
    /// When another handshake of a stranger, and of a known address, may begin.
    next: [Option<Instant>; 2],
}

/// A handshake that has not ended.
pub struct Turn {
    gate: Arc<Gate>,
    address: IpAddr,
}

impl Gate {
    /// Counts a handshake. Fails with a reason if there are too many at the same time or in the
    /// last second, so that who has no certificate cannot keep others out.
    pub fn turn(self: &Arc<Self>, address: IpAddr) -> Result<Turn, &'static str> {
        let address = network(address);
        let mut shaking = lock(&self.0);
        let all: usize = shaking.turns.values().sum();
        let is_known = shaking.known.contains(&address);
        let most = if is_known { MOST_HANDSHAKES } else { MOST_OF_STRANGERS };
        let of_address = shaking.turns.get(&address).copied().unwrap_or(0);
        if all >= most || of_address >= MOST_OF_ADDRESS {
            return Err("too many handshakes");
        }
        let (now, next) = (Instant::now(), &mut shaking.next[usize::from(is_known)]);
        let from = next.map_or(now, |next| next.max(now));
        if from.duration_since(now) > PACE * MOST_OF_STRANGERS as u32 {
            return Err("too many handshakes in a second");
        }
        *next = Some(from + PACE);
        shaking.turns.insert(address, of_address + 1);
        Ok(Turn { gate: Arc::clone(self), address })
    }
}

impl Turn {
    /// Remembers the address of a peer whose certificate is right.
    pub fn succeed(&self) {
        let mut shaking = lock(&self.gate.0);
        if shaking.known.len() < MOST_KNOWN {
            shaking.known.insert(self.address);
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let turns = &mut lock(&self.gate.0).turns;
        if let Some(count) = turns.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                turns.remove(&self.address);
            }
        }
    }
}

/// Returns the network of an address. A host with IPv6 has all addresses of a /64.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_leave_handshakes_to_hosts_that_had_a_right_certificate() {
        let gate = Arc::new(Gate::default());
        let address = |text: &str| network(text.parse().expect("an address"));
        let known = address("2001:db8:1::1");
        lock(&gate.0).known.insert(known);
        // All addresses of a host are one.
        let of_host: Vec<_> =
            (0..9).map(|host| gate.turn(address(&format!("2001:db8:2::{host}"))).ok()).collect();
        assert_eq!(of_host.iter().flatten().count(), MOST_OF_ADDRESS);
        let others: Vec<_> = (3..99).map(|net| gate.turn(address(&format!("10.0.0.{net}"))).ok()).collect();
        assert_eq!(others.iter().flatten().count(), MOST_OF_STRANGERS - MOST_OF_ADDRESS);
        assert!(gate.turn(address("2001:db8:1::2")).is_ok());
        drop(of_host);
        assert!(gate.turn(address("2001:db8:2::1")).is_ok());
    }
}
