//! An open file of the simulated disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use freshet_base::io::File;
use parking_lot::Mutex;

use crate::disk::{Disk, dead};

pub(crate) struct SimFile {
    pub disk: Arc<Mutex<Disk>>,
    pub inode: usize,
    pub path: PathBuf,
    pub life: u64,
    pub direct: bool,
}

impl SimFile {
    fn of_this_life(&self, disk: &Disk) -> io::Result<()> {
        if disk.life == self.life { Ok(()) } else { Err(dead()) }
    }
}

impl File for SimFile {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        self.of_this_life(&disk)?;
        disk.alive()?;
        if disk.faults.failing_reads > 0 && self.path.starts_with(&disk.faulty_dir) {
            disk.faults.failing_reads -= 1;
            return Err(io::Error::other("simulated EIO"));
        }
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let bytes = disk.inodes[self.inode].now.get(start..start + buffer.len());
        buffer.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        self.of_this_life(&disk)?;
        let start = usize::try_from(offset).map_err(io::Error::other)?;
        let allowed = disk.changing(&self.path);
        if allowed.is_err() && !disk.is_dead() {
            return allowed;
        }
        disk.check_room(self.inode, start + bytes.len())?;
        if allowed.is_ok()
            && let Some(fates) = disk.cut_in_write()
        {
            disk.inodes[self.inode].tear(bytes, start, &fates);
            return Err(dead());
        }
        let inode = &mut disk.inodes[self.inode];
        inode.write(bytes, start);
        // The call in which the process dies has written an unknown part of the data.
        allowed?;
        if self.direct {
            inode.sync_range(start, bytes.len());
            disk.synced.push(self.path.clone());
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk.lock();
        self.of_this_life(&disk)?;
        let mut allowed = disk.changing(&self.path);
        if allowed.is_ok() && disk.faults.failing_syncs > 0 {
            disk.faults.failing_syncs -= 1;
            allowed = Err(io::Error::other("simulated EIO"));
        }
        let dying = disk.is_dead();
        let inode = &mut disk.inodes[self.inode];
        match allowed {
            Ok(()) => {
                inode.sync();
                disk.synced.push(self.path.clone());
            }
            // If the process dies during a sync, the system may still write everything.
            Err(_) if dying => {}
            Err(_) => inode.fail_sync(),
        }
        allowed
    }

    fn set_len(&self, len_bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.lock();
        self.of_this_life(&disk)?;
        disk.changing(&self.path)?;
        let len = usize::try_from(len_bytes).map_err(io::Error::other)?;
        disk.check_room(self.inode, len)?;
        disk.inodes[self.inode].resize(len);
        Ok(())
    }

    fn len_bytes(&self) -> io::Result<u64> {
        let disk = self.disk.lock();
        self.of_this_life(&disk)?;
        Ok(disk.inodes[self.inode].now.len() as u64)
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.sync()?;
        self.disk.lock().inodes[self.inode].drop_cache();
        Ok(())
    }
}
