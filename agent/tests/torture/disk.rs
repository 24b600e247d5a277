//! A small disk for the tokens, which fills and fails. It needs root, and a mount namespace. Its
//! image is in memory, so that a busy disk of the host does not make calls slow.

use std::os::fd::AsRawFd;

use crate::common::*;

/// The size of the disk in bytes.
const SIZE: u64 = 64 << 20;
/// `EXT4_IOC_SHUTDOWN` of ext4(5): each later access fails.
const SHUTDOWN: libc::c_ulong = 0x8004_587d;
/// `EXT4_GOING_FLAGS_DEFAULT`. With the other flags, Linux 6.18 acknowledges fdatasync(2) of bytes
/// that are lost.
const IN_ORDER: u32 = 0;

/// A disk. Dropping it removes its mounts.
pub struct Disk {
    memory: PathBuf,
    image: PathBuf,
    place: PathBuf,
}

impl Disk {
    /// Mounts a disk below this directory, at `tokens`. Returns `None` if this host cannot.
    pub fn make(directory: &Path) -> Option<Self> {
        let [memory, place] = ["memory", "tokens"].map(|name| directory.join(name));
        for directory in [&memory, &place] {
            fs::create_dir(directory).expect("a directory");
        }
        let image = memory.join("image");
        let disk = Self { memory, image, place };
        let is_made = run(Command::new("mount").args(["-t", "tmpfs", "jeton"]).arg(&disk.memory))
            && File::create(&disk.image).is_ok_and(|file| file.set_len(SIZE).is_ok())
            && run(Command::new("mke2fs").args(["-q", "-t", "ext4", "-m", "0"]).arg(&disk.image))
            && disk.mount();
        is_made.then_some(disk)
    }

    fn mount(&self) -> bool {
        run(Command::new("mount").args(["-o", "loop"]).args([&self.image, &self.place]))
    }

    fn filler(&self) -> PathBuf {
        self.place.join("filler")
    }

    /// Takes all free space.
    pub fn fill(&self) {
        let Ok(mut file) = File::create(self.filler()) else { return };
        for len in [1 << 20, 1 << 12, 1] {
            while file.write(&vec![1; len]).is_ok_and(|written| written > 0) {}
        }
    }

    pub fn free(&self) {
        // The disk may have failed meanwhile, or the file was not made.
        let _ = fs::remove_file(self.filler());
    }

    /// Lets each access fail until the disk is mounted again.
    pub fn fail(&self) {
        let (place, how) = (File::open(&self.place).expect("the directory"), IN_ORDER);
        // SAFETY: the request reads one u32.
        let outcome = unsafe { libc::ioctl(place.as_raw_fd(), SHUTDOWN, &raw const how) };
        assert_eq!(outcome, 0, "{}", std::io::Error::last_os_error());
    }

    /// Mounts the disk again. No process may have files open.
    pub fn repair(&self) {
        assert!(run(Command::new("umount").arg(&self.place)) && self.mount(), "the disk");
        self.free();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        for place in [&self.place, &self.memory] {
            run(Command::new("umount").arg(place));
        }
    }
}

/// Runs a command. Returns whether it succeeded.
fn run(command: &mut Command) -> bool {
    command.output().is_ok_and(|output| output.status.success())
}
