//! Statements that change workload groups. Like users they are committed to metadata at once.

use std::sync::Arc;

use freshet_base::{Error, Result, bail, err};

use crate::catalog::Catalog;
use crate::meta::{Change, Meta};
use crate::workload::{GroupLimits, NORMAL_GROUP, WorkloadGroup, check_name};

/// Maximum number of workload groups on a server.
const GROUPS_MAX: usize = 64;

impl Meta {
    /// CREATE WORKLOAD GROUP with properties by name; returns whether it existed (IF NOT EXISTS).
    ///
    /// # Errors
    /// 1105 if it exists or there are too many, 1210 and 1235 for names and properties.
    pub fn create_group(
        &self,
        name: &str,
        properties: &[(String, String)],
        if_not_exists: bool,
    ) -> Result<bool> {
        self.change(|catalog| {
            check_name(name)?;
            if catalog.group(name).is_some() {
                match if_not_exists {
                    true => return Ok((None, true)),
                    false => bail!(Unknown, "workload group '{name}' already exists"),
                }
            }
            if catalog.groups().count() >= GROUPS_MAX {
                bail!(Unknown, "there are {GROUPS_MAX} workload groups, which is the limit");
            }
            let id = 1 + catalog.groups().map(|group| group.id).max().unwrap_or_default();
            let limits = GroupLimits::default().with(properties)?;
            let group = WorkloadGroup { id, name: name.to_owned(), limits };
            Ok((Some(put(catalog, group)?), false))
        })
    }

    /// ALTER WORKLOAD GROUP: the other properties stay.
    ///
    /// # Errors
    /// 1105 if it does not exist, 1210 and 1235 for properties.
    pub fn alter_group(&self, name: &str, properties: &[(String, String)]) -> Result<()> {
        self.change(|catalog| {
            let group = catalog.require_group(name)?;
            let limits = group.limits.with(properties)?;
            let group = WorkloadGroup { limits, ..WorkloadGroup::clone(group) };
            Ok((Some(put(catalog, group)?), ()))
        })
    }

    /// DROP WORKLOAD GROUP; returns whether it existed (IF EXISTS). Grants on it go with it.
    ///
    /// # Errors
    /// 1105 if it does not exist, is the normal group, or is the default of an account.
    pub fn drop_group(&self, name: &str, if_exists: bool) -> Result<bool> {
        self.change(|catalog| {
            if name == NORMAL_GROUP {
                bail!(Unknown, "the workload group '{name}' always exists and cannot be dropped");
            }
            if if_exists && catalog.group(name).is_none() {
                return Ok((None, false));
            }
            catalog.require_group(name)?;
            let is_of = |group: &Option<String>| group.as_deref() == Some(name);
            if let Some(user) = catalog.users().find(|user| is_of(&user.properties.group)) {
                bail!(
                    Unknown,
                    "workload group '{name}' is the default of {}: give it another one by SET \
                     PROPERTY FOR {} 'default_workload_group' = '{NORMAL_GROUP}'",
                    user.account,
                    user.account
                );
            }
            let name = name.to_owned();
            let remove = move |catalog: &mut Catalog| catalog.remove_group(&name);
            Ok((Some(Change::of_catalog(remove)), true))
        })
    }
}

/// The change that puts a group into the catalog.
fn put(catalog: &Catalog, group: WorkloadGroup) -> Result<Change> {
    let others = catalog.groups().filter(|other| other.name != group.name);
    let kept = others.map(|other| other.limits.cpu_percent_min).sum::<u32>();
    if kept + group.limits.cpu_percent_min > 100 {
        bail!(
            WrongArguments,
            "min_cpu_percent of all workload groups is at most 100 together; the others have {kept}"
        );
    }
    let group = Arc::new(group);
    Ok(Change::of_catalog(move |catalog| catalog.put_group(Arc::clone(&group))))
}

impl Catalog {
    /// The workload group of this name.
    ///
    /// # Errors
    /// 1105 if it does not exist.
    pub fn require_group(&self, name: &str) -> Result<&Arc<WorkloadGroup>> {
        self.group(name).ok_or_else(|| unknown_group(name))
    }
}

/// The error for a workload group that does not exist.
pub fn unknown_group(name: &str) -> Error {
    err!(
        Unknown,
        "workload group '{name}' does not exist; SHOW WORKLOAD GROUPS lists those that do"
    )
}

#[cfg(test)]
mod tests {
    use crate::test::meta;

    fn pair(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.to_owned(), value.to_owned())]
    }

    #[test]
    fn groups_are_made_changed_and_dropped_and_normal_stays() {
        let meta = meta();
        assert!(!meta.create_group("g", &pair("max_concurrency", "2"), false).unwrap());
        assert!(meta.create_group("g", &[], false).is_err());
        assert!(meta.create_group("g", &[], true).unwrap());
        assert!(meta.create_group("1g", &[], false).is_err());
        meta.alter_group("g", &pair("queue_timeout", "5")).unwrap();
        let limits = meta.catalog().group("g").unwrap().limits;
        assert_eq!((limits.concurrency_max, limits.queue_timeout_ms), (2, 5));
        meta.alter_group("normal", &pair("max_concurrency", "7")).unwrap();
        assert!(meta.drop_group("normal", true).is_err());
        assert!(meta.drop_group("g", false).unwrap());
        assert!(!meta.drop_group("g", true).unwrap());
        assert!(meta.drop_group("g", false).is_err());
        assert_eq!(meta.catalog().group("normal").unwrap().limits.concurrency_max, 7);
    }

    #[test]
    fn what_is_kept_for_groups_is_no_more_than_all() {
        let meta = meta();
        meta.create_group("a", &pair("min_cpu_percent", "60"), false).unwrap();
        assert!(meta.create_group("b", &pair("min_cpu_percent", "50"), false).is_err());
        meta.create_group("b", &pair("min_cpu_percent", "40"), false).unwrap();
        meta.alter_group("b", &pair("min_cpu_percent", "30")).unwrap();
        assert!(meta.alter_group("a", &pair("min_cpu_percent", "71")).is_err());
    }
}
