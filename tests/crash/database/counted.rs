//! Three hosts sign with keys whose uses are counted, while their processes are killed, their
//! connections are cut, and their networks deliver nothing for some time.

use super::hosts::directory_of;
use super::*;
use crate::counted::{Counts, Signer, make_keys};
use crate::proxy::Proxy;
use crate::worker::pin;

const HOSTS: usize = 3;
const PROCESSES: usize = 2;
/// `timeout-seconds` of the hosts.
const TIMEOUT: u64 = 1;
/// The length of the longest message that a cut leaves complete.
const LONGEST_MESSAGE: u64 = 6000;

/// Signs with both keys until it is killed. The argument is the number of uses of one commit, and
/// the configuration of the store.
pub fn child() {
    let (reserve, store): (u64, String) = argument();
    let signer = until_ok(|| Signer::try_new(&directory(), reserve, &store));
    loop {
        match signer.try_sign(|line| println!("{line}")) {
            Ok(()) => {}
            Err(Error::DeviceError) => sleep(Duration::from_millis(20)),
            Err(reason) => panic!("{reason:?}"),
        }
    }
}

pub fn case() {
    let server = Server::start_with_tls("counted").expect("a server");
    let first = Directory::new();
    let password = first.path().join("password");
    std::fs::write(&password, "a password").expect("a file");
    std::fs::set_permissions(&password, PermissionsExt::from_mode(0o600)).expect("a mode");
    first.use_url(&server.url());
    token_in(&first, &pin(0));
    let one = client(&first, u32::MAX);
    // So few that they are used up while processes are killed.
    let limit = 20 * seconds();
    make_keys(&one, limit);
    server.sql(&format!(
        "GRANT USAGE ON SCHEMA {0} TO host; GRANT ALL ON ALL TABLES IN SCHEMA {0} TO host",
        first.schema()
    ));
    let store = format!(
        ", store = {{ ca-file = '{}', password = 'file:{}', timeout-seconds = {TIMEOUT} }}",
        server.directory.join("ca.pem").display(),
        password.display()
    );
    let hosts: [_; HOSTS] = std::array::from_fn(|host| {
        let proxy = Proxy::start(server.port);
        let url = format!("postgresql://host@localhost:{}/postgres", proxy.port);
        (directory_of(&first, host, &url), proxy)
    });
    let mut random = Random::new("JETON_CRASH_SEED");
    let start = |random: &mut Random, place: usize| {
        let reserve = [1, 1, 5][random.below(3) as usize];
        Process::start("counted hosts", &hosts[place % HOSTS].0, (reserve, &store))
    };
    let mut processes: Vec<_> = (0..HOSTS * PROCESSES).map(|place| start(&mut random, place)).collect();
    let (mut counts, mut kills, mut partitions) = (Counts::new(limit), 0, 0);
    let mut count = |said: Vec<String>| said.iter().for_each(|line| counts.add(line).expect("a new use"));
    let end = Instant::now() + Duration::from_secs(seconds());
    while Instant::now() < end {
        sleep(Duration::from_millis(random.below(300)));
        let place = random.below((HOSTS * PROCESSES) as u64) as usize;
        let proxy = &hosts[place % HOSTS].1;
        match random.below(8) {
            0 => {
                partitions += 1;
                proxy.partition();
                // In some rounds until a call fails.
                sleep(Duration::from_millis(random.below(3000 * TIMEOUT)));
                proxy.heal();
            }
            1..4 => proxy.cut_after(random.below(LONGEST_MESSAGE)),
            _ => {
                kills += 1;
                let new = start(&mut random, place);
                count(std::mem::replace(&mut processes[place], new).kill());
            }
        }
    }
    processes.into_iter().for_each(|process| count(process.kill()));
    let left = Signer::try_new(&first, 1, "").expect("a module").left();
    counts.expect_at_most(counts.uses + left).expect("no use too many");
    let cuts: u64 = hosts.iter().map(|(_, proxy)| proxy.cuts()).sum();
    println!(
        "{HOSTS} hosts of {PROCESSES} processes, {kills} kills, {cuts} cut connections, {partitions} partitions: {} \
         one-time keys signed, none twice; {} uses of a key with a limit of {limit}, and {left} left",
        counts.numbers.len(),
        counts.uses
    );
    assert!(!counts.numbers.is_empty() && counts.uses > 0);
}
