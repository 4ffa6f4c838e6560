//! The recycle bin tells nobody of tables that they may not see.

use std::time::Duration;

use super::as_user;
use super::common::TestServer;

#[test]
fn a_dropped_table_is_seen_by_who_could_see_it() {
    let server = TestServer::sized(|config| config.recycle_bin_keep = Duration::from_secs(3600));
    let mut root = server.connect();
    root.run("create database d");
    root.run("create table d.t (a int)");
    root.run("create user u");
    root.run("create user seeing");
    root.run("grant select on d.t to seeing");
    root.run("drop table d.t");
    let bin = root.texts("show catalog recycle bin");
    assert_eq!(bin.len(), 1);
    let id = bin[0][3].clone();
    let mut other = as_user(&server, "u");
    assert_eq!(other.texts("show catalog recycle bin").len(), 0);
    assert_eq!(other.fails("recover table d.t").errno, 1142);
    let purge = format!("drop catalog recycle bin where 'TableId' = {id}");
    let unknown = other.fails("drop catalog recycle bin where 'TableId' = 999999");
    let hidden = other.fails(&purge);
    assert_eq!((hidden.errno, unknown.errno), (1051, 1051));
    assert_eq!(hidden.message.replace(&id, "999999"), unknown.message);
    let mut seeing = as_user(&server, "seeing");
    assert_eq!(seeing.texts("show catalog recycle bin").len(), 1);
    assert_eq!(seeing.fails("recover table d.t").errno, 1142);
    assert_eq!(seeing.fails(&purge).errno, 1051);
    root.run(&purge);
    assert_eq!(root.fails("recover table d.t").errno, 1051);
}

#[test]
fn a_dropped_partition_is_seen_by_who_can_see_its_table() {
    let server = TestServer::sized(|config| config.recycle_bin_keep = Duration::from_secs(3600));
    let mut root = server.connect();
    root.run("create database d");
    root.run(
        "create table d.t (a int not null) duplicate key(a) partition by list(a) (partition p \
         values in ('1'), partition q values in ('2')) distributed by hash(a) buckets 1",
    );
    root.run("create user u");
    root.run("create user seeing");
    root.run("grant select, alter on d.t to seeing");
    root.run("alter table d.t drop partition p");
    let bin = root.texts("show catalog recycle bin");
    assert_eq!((bin.len(), &*bin[0][0], &*bin[0][1]), (1, "Partition", "p"));
    let id = bin[0][4].clone();
    let mut other = as_user(&server, "u");
    assert_eq!(other.texts("show catalog recycle bin").len(), 0);
    assert_eq!(other.fails("recover partition p from d.t").errno, 1142);
    let purge = format!("drop catalog recycle bin where 'PartitionId' = {id}");
    let unknown = other.fails("drop catalog recycle bin where 'PartitionId' = 999999");
    let hidden = other.fails(&purge);
    assert_eq!((hidden.errno, unknown.errno), (1507, 1507));
    assert_eq!(hidden.message.replace(&id, "999999"), unknown.message);
    let mut seeing = as_user(&server, "seeing");
    assert_eq!(seeing.texts("show catalog recycle bin").len(), 1);
    assert_eq!(seeing.fails("recover partition p from d.t").errno, 1142);
    assert_eq!(seeing.fails(&purge).errno, 1507);
    root.run(&purge);
    assert_eq!(root.fails("recover partition p from d.t").errno, 1507);
}

#[test]
fn a_dropped_database_is_seen_by_who_could_see_it() {
    let server = TestServer::sized(|config| config.recycle_bin_keep = Duration::from_secs(3600));
    let mut root = server.connect();
    root.run("create database d");
    root.run("create table d.t (a int)");
    root.run("create user u");
    root.run("create user dropping");
    root.run("grant drop on d.* to dropping");
    root.run("drop database d");
    let bin = root.texts("show catalog recycle bin");
    assert_eq!((bin.len(), &*bin[0][0], &*bin[0][1]), (1, "Database", "d"));
    let id = bin[0][2].clone();
    let purge = format!("drop catalog recycle bin where 'DbId' = {id}");
    let mut other = as_user(&server, "u");
    assert_eq!(other.texts("show catalog recycle bin").len(), 0);
    assert_eq!(other.fails("recover database d").errno, 1044);
    let unknown = other.fails("drop catalog recycle bin where 'DbId' = 999999");
    let hidden = other.fails(&purge);
    assert_eq!((hidden.errno, unknown.errno), (1008, 1008));
    assert_eq!(hidden.message.replace(&id, "999999"), unknown.message);
    let mut dropping = as_user(&server, "dropping");
    assert_eq!(dropping.texts("show catalog recycle bin").len(), 1);
    assert_eq!(dropping.fails("recover database d").errno, 1044);
    dropping.run(&purge);
    assert_eq!(root.fails("recover database d").errno, 1008);
}
