//! Any values of accounts and workload groups, and accounts as they were once written.

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::golden::has_bytes;
use super::strategies::text;
use crate::disk::decode;
use crate::{
    Account, AuthData, FailedLogins, Grant, GrantObject, GrantedRole, GroupLimits, LockTime,
    PasswordReuse, Privilege, Privileges, TlsRequirement, User, UserLimits, UserOptions,
    UserProperties, WorkloadGroup,
};

pub(super) fn user() -> impl Strategy<Value = User> {
    let object = prop_oneof![
        Just(GrantObject::Server),
        text().prop_map(GrantObject::Database),
        (text(), text()).prop_map(|(database, table)| GrantObject::Table(database, table)),
        (text(), text(), text())
            .prop_map(|(database, table, column)| { GrantObject::Column(database, table, column) }),
    ];
    let privileges = vec(select(Privilege::ALL.to_vec()), 0..5);
    let grant = (object, privileges).prop_map(|(object, privileges)| Grant {
        object,
        privileges: privileges.into_iter().collect(),
    });
    let tls = select(vec![TlsRequirement::None, TlsRequirement::Ssl, TlsRequirement::X509]);
    let auth = (option::of(any::<[u8; 20]>()), option::of(text()), tls, any::<u64>());
    let auth = (auth, vec(past(), 0..3), option::of(past()));
    let account = || (text(), text()).prop_map(|(name, host)| Account { name, host });
    let granted = (account(), any::<bool>()).prop_map(|(role, admin)| GrantedRole { role, admin });
    let roles = (any::<bool>(), vec(granted, 0..3), vec(account(), 0..3), user_options());
    let properties = (user_properties(), vec(text(), 0..3), option::of(text()));
    (account(), auth, vec(grant, 0..4), roles, properties).prop_map(
        |(
            account,
            (auth, past, second),
            grants,
            (locked, roles, default_roles, options),
            properties,
        )| {
            User {
                account,
                auth: AuthData {
                    native: auth.0,
                    sha2_slow: auth.1,
                    tls: auth.2,
                    changed_seconds: auth.3,
                },
                second,
                past,
                locked,
                grants,
                roles,
                default_roles,
                options,
                properties: properties.0,
                groups: properties.1,
                attributes: properties.2,
            }
        },
    )
}

fn past() -> impl Strategy<Value = AuthData> {
    (option::of(any::<[u8; 20]>()), option::of(text()), any::<u64>()).prop_map(
        |(native, sha2_slow, changed_seconds)| AuthData {
            native,
            sha2_slow,
            tls: TlsRequirement::None,
            changed_seconds,
        },
    )
}

fn user_properties() -> impl Strategy<Value = UserProperties> {
    (option::of(text()), any::<[u32; 5]>()).prop_map(|(group, numbers)| {
        let [queries_max, loads_max, query_seconds_max, insert_seconds_max, parallel_max] = numbers;
        UserProperties {
            group,
            queries_max,
            loads_max,
            query_seconds_max,
            insert_seconds_max,
            parallel_max,
        }
    })
}

pub(super) fn workload_group() -> impl Strategy<Value = WorkloadGroup> {
    let percents = (0..=50_u32, 50..=100_u32, 1..=100_u32);
    (any::<u64>(), text(), percents, any::<[u32; 5]>()).prop_map(
        |(id, name, (cpu_percent_min, cpu_percent_max, memory_percent_max), numbers)| {
            let [share, concurrency, queue_size_max, queue_timeout_ms, scan_threads] = numbers;
            let limits = GroupLimits {
                cpu_share: share.max(1),
                cpu_percent_min,
                cpu_percent_max,
                memory_percent_max,
                concurrency_max: concurrency.max(1),
                queue_size_max,
                queue_timeout_ms,
                scan_threads,
            };
            WorkloadGroup { id, name, limits }
        },
    )
}

fn user_options() -> impl Strategy<Value = UserOptions> {
    let lock = prop_oneof![any::<u16>().prop_map(LockTime::Days), Just(LockTime::Unbounded)];
    let reuse = (option::of(any::<u16>()), option::of(any::<u16>()))
        .prop_map(|(history, days)| PasswordReuse { history, days });
    let lock = (lock, reuse, option::of(any::<bool>()));
    (any::<[bool; 2]>(), any::<[u32; 4]>(), any::<[u16; 2]>(), lock).prop_map(
        |(
            [is_locked, is_expired],
            [queries, updates, logins, connections],
            [max, days],
            (lock, reuse, requires_current),
        )| {
            UserOptions {
                is_locked,
                limits: UserLimits {
                    queries_per_hour: queries,
                    updates_per_hour: updates,
                    connections_per_hour: logins,
                    connections,
                },
                failed_logins: FailedLogins { max, lock },
                is_expired,
                lifetime_days: days,
                reuse,
                requires_current,
            }
        },
    )
}

#[test]
fn a_grant_of_all_from_before_there_were_others_is_of_all() {
    let server = GrantObject::Server;
    let all = "0102030405060708110f090a0b0c0d0e";
    let of_before = format!("010a01751201252a14 0a00 2210 {all}").replace(' ', "");
    let bytes = (0..of_before.len()).step_by(2);
    let bytes = bytes.map(|at| u8::from_str_radix(&of_before[at..at + 2], 16).unwrap());
    let user = decode::<User>(&bytes.collect::<Vec<_>>()).unwrap();
    assert_eq!(user.granted(&server), Privileges::all());
    has_bytes(&user, &of_before);
    // What was granted since is what it says.
    let grants = vec![Grant { object: server, privileges: Privileges::first() }];
    let user = User { grants, ..User::new(Account::anywhere("u"), AuthData::default()) };
    has_bytes(&user, &format!("010a0175120125 2a16 0a00 2210 {all} 3001"));
}

#[test]
fn attributes_have_a_field_of_their_own() {
    let attributes = Some("{}".to_owned());
    let user = User { attributes, ..User::new(Account::anywhere("u"), AuthData::default()) };
    has_bytes(&user, "010a0175120125 7a027b7d");
}
